"""How processes share a run: claims, open plans, and what becomes of the claims of the dead."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import pytest

from aitest_lib.artifacts.store import Store
from aitest_tasks import sharing
from aitest_tasks.leases import Presence, is_present, present
from aitest_tasks.runs import Run
from aitest_tasks.sharing import SharedPlan, claim, is_asked, is_claimed, read_result, set_asked, write_result

SHARDS = [{"number": number} for number in range(40)]
RESULT = {"report": {"property": "p"}, "scored": {}}


@pytest.fixture
def run(tmp_path):
    return Run(Store(str(tmp_path)), "r1", {"options": {"properties": [0, 1]}})


@pytest.fixture
def dead(run):
    """The token of a process that was killed while it was present."""
    code = (
        "import sys, time; from aitest_lib.artifacts.store import Store\n"
        "from aitest_tasks.leases import Presence; from aitest_tasks.runs import Run\n"
        "with Presence(Run(Store(sys.argv[1]), 'r1', {}), 'flow') as here: print(here.token, flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", code, run.store.url], stdout=subprocess.PIPE, text=True) as process:
        token = process.stdout.readline().strip()
        assert is_present(run, token)
        assert present(run)[token]["flow_run"] == "flow"
        process.kill()
    return token


def at_once(count, action):
    """What so many threads return that begin at the same moment."""
    start, found = threading.Barrier(count), [None] * count

    def act(number):
        start.wait()
        found[number] = action(number)

    threads = [threading.Thread(target=act, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def test_of_several_one_has_a_claim(run):
    with Presence(run, None) as one, Presence(run, None) as other:
        got = at_once(6, lambda number: claim(run, "property-0", (one, other)[number % 2].token))
        assert got.count(True) in (1, 2, 3), "all of one process, which may ask twice"
        assert len({number % 2 for number, yes in enumerate(got) if yes}) == 1
        assert is_claimed(run, "property-0")
        assert not is_claimed(run, "property-1")


def test_a_claim_ends_with_its_process(run, dead):
    assert claim(run, "property-0", dead)
    assert not is_claimed(run, "property-0")
    with Presence(run, None) as here:
        assert claim(run, "property-0", here.token)
        assert claim(run, "property-0", here.token), "it was this one's before"
        with Presence(run, None) as other:
            assert not claim(run, "property-0", other.token)
    assert not is_claimed(run, "property-0"), "it has left"


def test_several_take_over_a_dead_claim_and_one_has_it(run, dead):
    claim(run, "property-0", dead)
    with Presence(run, None) as one, Presence(run, None) as two, Presence(run, None) as three:
        got = at_once(3, lambda number: claim(run, "property-0", (one, two, three)[number].token))
    assert got.count(True) == 1


def test_every_shard_is_taken_once(run):
    plan = SharedPlan.publish(run, "p", SHARDS)
    with Presence(run, None) as one, Presence(run, None) as two:
        found = at_once(4, lambda number: list(SharedPlan.open_one(run).untaken((one, two)[number % 2].token)))
    assert sorted(place for part in found for place in part) == list(range(len(SHARDS)))
    assert list(plan.untaken("late")) == []


def test_shards_of_the_dead_are_lost_and_those_of_the_living_are_waited_for(run, dead):
    plan = SharedPlan.publish(run, "p", SHARDS[:5])
    theirs = plan.untaken(dead)
    taken = [next(theirs), next(theirs)]
    with Presence(run, None) as here:
        mine = list(plan.untaken(here.token))
        assert plan.lost({0, 1, 2, 3, 4}) == set(taken)
        for place in mine:
            plan.finish(place, {"sent": 3, "errors": 1})
        assert plan.done() == {place: {"sent": 3, "errors": 1} for place in mine}
        assert plan.lost(set(mine)) == set()
    assert plan.lost(set(mine)) == set(mine)


def test_a_plan_is_found_while_it_is_open(run):
    assert SharedPlan.open_one(run) is None
    first = SharedPlan.publish(run, "p", SHARDS)
    assert SharedPlan.open_one(run) == first
    first.close()
    assert SharedPlan.open_one(run) is None
    assert SharedPlan.find(run, first.name) is None
    second = SharedPlan.publish(run, "q", SHARDS[:1])
    assert SharedPlan.open_one(run) == second


def test_a_resumed_run_does_anew_what_nobody_works_on(run, dead):
    for index in (0, 1):
        set_asked(run, index)
        write_result(run, index, RESULT)
    run.store.write_json("runs/r1/errors/1.json", {"ab": "why"})
    claim(run, "property-0", dead)
    with Presence(run, None) as here:
        claim(run, "property-1", here.token)
        sharing.begin_again(run)
    assert read_result(run, 0) is None
    assert not is_asked(run, 0)
    assert read_result(run, 1) == RESULT
    assert run.store.files("runs/r1/errors") == []


@pytest.mark.parametrize("damaged", [b"", b"[]", b'{"report": 1, "scored": {}}', b"\x80\x04."])
def test_a_damaged_result_is_none(run, damaged):
    run.store.write("runs/r1/results/0.json", damaged)
    assert read_result(run, 0) is None
    run.store.write("runs/r1/claims/property-0/0000.json", damaged)
    assert not is_claimed(run, "property-0")
    with Presence(run, None) as here:
        assert claim(run, "property-0", here.token)


def test_a_presence_runs_out(run):
    with Presence(run, None) as here:
        path = f"runs/r1/present/{here.token}.json"
        elsewhere = run.store.read_json(path) | {"host": "elsewhere"}
        run.store.write_json(path, elsewhere)
        assert is_present(run, here.token), "nobody here knows whether a process elsewhere lives"
        run.store.write_json(path, elsewhere | {"until": time.time() - 1})
        assert not is_present(run, here.token)
        assert present(run) == {}


def test_who_was_suspended_finds_another_one_leading(run, monkeypatch):
    from aitest_lib.errors import Interrupted
    from aitest_tasks import leases, live

    monkeypatch.setattr(leases, "RENEW_S", 0.05)
    with live.running(), leases.Lease(run) as lease:
        lease.check()
        run.write("lease", run.read("lease") | {"host": "elsewhere", "token": "another"})
        while not live._live.stopped.is_set():
            time.sleep(0.01)
        assert run.read("lease")["token"] == "another", "it does not take the lease back"
        with pytest.raises(Interrupted, match="was taken over by another process"):
            lease.check()
    assert run.read("lease")["token"] == "another"
