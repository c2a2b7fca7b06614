"""Records and cached results that somebody else may have written, and the lease of a run."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time

import pytest

from aitest_lib.artifacts.store import Store
from aitest_lib.errors import ArtifactMissing, InputError, StoreError
from aitest_tasks.caching import is_ours, made_again
from aitest_tasks.leases import Lease, check_free, is_alive
from aitest_tasks.processes import birth, boot
from aitest_tasks.records import RECORDS, misfit
from aitest_tasks.runs import Run, checked


@pytest.fixture
def store(tmp_path):
    return Store(str(tmp_path / "store"))


@pytest.fixture
def run(store):
    return Run(store, "r1", {})


REF = {"uri": "objects/ab/" + "c" * 30 + ".json", "digest": "ab" + "c" * 30, "codec": "json", "rows": 1}


@pytest.mark.parametrize(
    ("value", "shape", "found"),
    [
        ({"a": 1, "b": 2}, {"a": int}, None),
        ({}, {"b": int, "a": int}, "got no a, b"),
        ({"a": {}}, {"a": {"b": int}}, "got no b in a"),
        ([], {"a": int}, "it is no object"),
        ({"a": True}, {"a": int}, "a is no int"),
        ({"a": 1}, {"a": bool}, "a is no bool"),
        ({"a": float("nan")}, {"a": int | float}, "a is no int | float"),
        ({"a": 10**400}, {"a": int}, "a is no int"),
        ({"a": None}, {"a": int | None}, None),
        ({"a": [1, "x"]}, {"a": [int]}, "a[1] is no int"),
        ({"a": "x"}, {"a": [str]}, "a is no list"),
        ({"x": 1, "y": "2"}, {"*": int}, "y is no int"),
        (REF, "json", None),
        (REF, "parquet", "it is no reference of a parquet artifact"),
        (REF | {"rows": -1}, "json", "it is no reference of a json artifact"),
        (5, "json", "it is no reference of a json artifact"),
        ("text", "json", "it is no reference of a json artifact"),
    ],
)
def test_a_value_is_held_against_a_shape(value, shape, found):
    assert misfit(value, shape) == found


LEASE = {"host": "h", "boot": "b", "pid": 1, "birth": "1", "until": 1.0, "token": "t"}


@pytest.mark.parametrize(("key", "value"), [("pid", "1"), ("until", None), ("until", "soon"), ("host", 5), ("token", [])])
def test_a_lease_of_wrong_types_is_damaged(store, key, value):
    assert checked(store, "r1", "lease", json.dumps(LEASE).encode()) == LEASE
    with pytest.raises(ArtifactMissing, match=f"it is damaged \\({key} is no "):
        checked(store, "r1", "lease", json.dumps(LEASE | {key: value}).encode())


@pytest.mark.parametrize("name", ["run", "prepared"])
def test_a_record_of_wrong_types_is_told_with_what_to_do(store, name):
    wrong = dict.fromkeys(RECORDS[name], 5)
    with pytest.raises(StoreError, match=rf"the {name}.json of run r1 is damaged \(\w+ is no .*\): .*run"):
        checked(store, "r1", name, json.dumps(wrong).encode())


def test_a_record_nested_too_deeply_is_damaged(store):
    with pytest.raises(StoreError, match=r"run.json of run r1 is damaged \(it is nested too deeply\)"):
        checked(store, "r1", "run", b"[" * 200_000)


def result(name, value):
    serializer = {"type": "json", "jsonlib": "json", "dumps_kwargs": {}, "loads_kwargs": {}}
    serializer |= {f"object_{kind}": f"prefect.serializers.prefect_json_object_{kind}" for kind in ("encoder", "decoder")}
    return json.dumps({"metadata": {"storage_key": f"{name}-12ab", "serializer": serializer}, "result": json.dumps(value)})


def test_only_results_of_their_tasks_shape_are_ours():
    cases = REF | {"codec": "parquet", "uri": REF["uri"].replace("json", "parquet")}
    scored = {"report": REF, "cases": cases, "failures": REF}
    generated = {"cases": cases}
    assert is_ours("generate_cases-12ab", result("generate_cases", generated).encode())
    assert is_ours("generate_cases-12ab", result("generate_cases", generated | {"content": cases}).encode())
    assert is_ours("score_property-12ab", result("score_property", scored).encode())
    for wrong in ({}, [], 5, None, "x", REF, {"cases": cases | {"uri": "../../x"}}, {"cases": cases | {"uri": 5}}):
        assert not is_ours("generate_cases-12ab", result("generate_cases", wrong).encode()), wrong
    assert not is_ours("score_property-12ab", result("score_property", scored | {"report": cases}).encode())
    assert not is_ours("something_else-12ab", result("something_else", generated).encode())
    assert not is_ours("generate_cases-12ab", b"[" * 200_000)
    assert not is_ours("score_property-12ab", result("generate_cases", generated).encode())


def test_results_that_are_none_are_made_again_once(store, tmp_path):
    (tmp_path / "precious").write_text("mine")
    good = store.put_json({"a": 1}).to_dict()
    planted = good | {"uri": "../precious"}
    asked = []

    def remake(place):
        asked.append(place)
        return {"ref": good}

    results = [good, {}, None, 5, "x", planted, {"ref": planted}, good | {"rows": "many"}]
    again = made_again(store, results, remake)
    assert asked == list(range(1, len(results)))
    assert again == [good] + [{"ref": good}] * (len(results) - 1)
    assert (tmp_path / "precious").read_text() == "mine"


# -- the lease ---------------------------------------------------------------------------------------------------------


def enter_at_once(run, count):
    """How many of several that enter at once get the lease, and what the others are told."""
    got, refused, start, done = [], [], threading.Barrier(count), threading.Barrier(count)

    def enter():
        lease = Lease(run)
        start.wait()
        try:
            lease.__enter__()
            got.append(lease)
        except InputError as error:
            refused.append(str(error))
        done.wait()

    threads = [threading.Thread(target=enter) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for lease in got:
        lease.release()
    return len(got), refused


def left(run, **changes):
    """A lease that was left in the store, by default by a process of this machine that is gone."""
    now = {"host": socket.gethostname(), "boot": boot(), "pid": 2**22 + 1, "birth": "1", "until": time.time() + 50}
    run.write("lease", now | {"token": "t"} | changes)


def test_of_several_one_gets_a_free_lease(run):
    for _ in range(5):
        got, refused = enter_at_once(run, 6)
        assert (got, len(refused)) == (1, 5)
        assert all(f"is being worked on by process {os.getpid()} on " in text for text in refused)
        assert not run.has("lease")


def test_of_several_one_takes_over_an_ended_lease(run):
    left(run)
    got, refused = enter_at_once(run, 6)
    assert (got, len(refused)) == (1, 5)


def test_whose_lease_counts(run):
    assert not is_alive(run)
    for ended in ({}, {"until": time.time() - 1, "host": "elsewhere"}, {"pid": os.getpid(), "birth": birth(os.getpid())}):
        left(run, **ended)
        assert not is_alive(run), ended
    left(run, host="elsewhere")
    assert is_alive(run)
    left(run, boot="another machine of this name")
    assert is_alive(run)
    with pytest.raises(InputError, match=r"run r1 is being worked on by process 4194305 on .*; wait for it or stop it first"):
        check_free(run)
    for damaged in ({"until": time.time() + 10**6}, {"until": None}, {"pid": "1"}):
        left(run, **{"host": "elsewhere"} | damaged)
        assert not is_alive(run), damaged
        with Lease(run):
            assert is_alive(run)


def test_the_lease_of_a_process_that_lives_is_respected_and_that_of_one_killed_is_not(run):
    code = (
        "import sys, time; from aitest_lib.artifacts.store import Store\n"
        "from aitest_tasks.leases import Lease; from aitest_tasks.runs import Run\n"
        "with Lease(Run(Store(sys.argv[1]), 'r1', {})): print('held', flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", code, run.store.url], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "held\n"
        with pytest.raises(InputError, match=f"process {other.pid} on"), Lease(run):
            pass
        assert run.read("lease")["pid"] == other.pid
        other.kill()
    with Lease(run):
        assert run.read("lease")["pid"] == os.getpid()
    assert not run.has("lease")


def test_a_lease_that_somebody_took_over_is_not_removed(run):
    with Lease(run):
        left(run, host="elsewhere")
    assert run.read("lease")["host"] == "elsewhere"
