"""Python models that crash, hang, leak, fork, print and answer nonsense: each costs errors of its rows, never the run."""

from __future__ import annotations

import os
import textwrap
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from aitest_lib.config.card import load_card_data
from aitest_lib.errors import InputError, ModelUnavailable
from aitest_lib.models.opening import open_model
from aitest_lib.models.processes import patience, process

HEAD = "import os, signal, subprocess, sys, time\nimport numpy as np\nimport pandas as pd\n"


@pytest.fixture
def opened(tmp_path):
    models = []

    def opener(source, type="tabular-classifier", **card):
        (tmp_path / "naughty.py").write_text(HEAD + textwrap.dedent(source))
        card |= {"name": "m", "type": type, "python": {"callable": "naughty:model"}}
        models.append(open_model(load_card_data(card, tmp_path)))
        return models[-1]

    yield opener
    for model in models:
        model.close()
    assert not zombies()


def zombies() -> list[str]:
    """Children of this process that have ended and were not waited for."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = stat.read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if state == "Z" and parent == str(os.getpid()):
            found.append(stat.parent.name)
    return found


def frame(rows=6):
    return pd.DataFrame({"a": range(rows)})


def test_many_rows_that_crash_it_fail_alone(opened, monkeypatch):
    monkeypatch.setattr(patience, "DEATHS_AT_FIRST", 2)
    monkeypatch.setattr(patience, "DEATHS", 2)
    model = opened(
        """
        def model(table):
            if (table["a"] % 3 == 1).any():
                os.kill(os.getpid(), signal.SIGSEGV)
            return ["fine"] * len(table)
        """
    )
    answers = model.predict(frame(12))
    assert [n for n, reason in enumerate(answers.errors) if reason] == [1, 4, 7, 10]
    assert all("SIGSEGV" in reason for reason in answers.errors[1::3])


def test_one_bad_row_of_many_costs_a_start_for_each_halving(opened):
    model = opened(
        """
        def model(table):
            if (table["a"] == 0).any():
                os._exit(3)
            return table["a"].tolist()
        """,
    )
    answers = model.predict(frame(32))
    assert answers.labels[1:].tolist() == list(range(1, 32))
    assert "exited with status 3" in answers.errors[0]
    assert model.usage.calls == 1 + 6 + 5  # asked again once, lost at 32, 16, ..., 1, answered by the other halves


def test_it_crashes_at_every_input(opened, monkeypatch):
    model = opened("def model(table): os._exit(9)")
    with pytest.raises(ModelUnavailable, match=r"m cannot be used: its process ended at 5 rows in a row, .*status 9"):
        model.predict(frame(10))
    monkeypatch.setattr(patience, "DEATHS", 3)
    model = opened(
        """
        def model(table):
            if (table["a"] >= 20).any():
                os._exit(9)
            return [1] * len(table)
        """
    )
    assert not model.predict(frame(20)).errors.any()
    with pytest.raises(ModelUnavailable, match="ended at 3 rows in a row"):
        model.predict(frame(30))


def test_a_hang_among_answers_fails_its_row_only(opened, monkeypatch):
    monkeypatch.setattr(patience, "FIRST_S", 30.0)
    monkeypatch.setattr(patience, "LEAST_S", 2.0)
    model = opened(
        """
        def model(table):
            if (table["a"] == 21).any():
                time.sleep(60)
            return [1] * len(table)
        """
    )
    for _ in range(3):
        assert not model.predict(frame(20)).errors.any()
    answers = model.predict(pd.DataFrame({"a": [20, 21, 22, 23]}))
    assert answers.labels.tolist() == [1, None, 1, 1]
    assert answers.errors[1] == "the model's process gave no answer to 1 row within 2 s"


def test_a_model_that_only_hangs_is_given_up(opened, monkeypatch):
    model = opened("def model(table): time.sleep(60)")
    monkeypatch.setattr(patience, "FIRST_S", 1.0)
    monkeypatch.setattr(patience, "HANGS", 2)
    with pytest.raises(ModelUnavailable, match="gave no answer to 50 rows within 1 s"):
        model.predict(frame(100))


def test_it_takes_too_much_memory(opened, monkeypatch):
    monkeypatch.setattr(process, "available", lambda: 700_000_000)
    model = opened(
        """
        def model(table):
            if (table["a"] == 1).any():
                block = np.ones(100_000_000)
                time.sleep(30)
            return [1] * len(table)
        """
    )
    answers = model.predict(frame(3))
    assert answers.labels.tolist() == [1, None, 1]
    assert "took 0." in answers.errors[1]
    assert "GB of memory, and 0.7 GB is all there is at 1 row" in answers.errors[1]
    monkeypatch.setattr(process, "available", lambda: 1_000_000)
    with pytest.raises(InputError, match=r"naughty:model cannot be started: .* took .* GB of memory"):
        opened("time.sleep(30)\ndef model(table): return [1] * len(table)").predict(frame(3))


def test_two_gigabytes_are_nothing_special(opened):
    model = opened(
        """
        def model(table):
            block = np.ones(250_000_000)
            return [int(block[0])] * len(table)
        """
    )
    assert model.predict(frame()).labels.tolist() == [1] * 6


def test_one_that_leaks_is_started_anew_in_silence(opened, monkeypatch):
    monkeypatch.setattr(process, "MOST_GROWTH", 150_000_000)
    model = opened(
        """
        kept = []
        def model(table):
            kept.append(np.ones(10_000_000))
            return [os.getpid()] * len(table)
        """
    )
    pids = [model.predict(frame(1)).labels[0] for _ in range(6)]
    assert len(set(pids)) == 2
    assert (pids[0], pids[-1]) == (pids[2], pids[4])
    assert model.usage.retries == 0


def test_what_it_writes_disturbs_nobody(opened, capfd):
    model = opened(
        """
        print("at import", flush=True)
        def model(table):
            print("x" * 1_000_000, flush=True)
            sys.stderr.write("y" * 1_000_000)
            os.write(1, bytes(range(256)) * 4000)
            os.system("echo from a shell; echo and its errors >&2")
            return table["a"].tolist()
        """
    )
    assert model.predict(frame()).labels.tolist() == list(range(6))
    assert capfd.readouterr() == ("", "")


JUNK = [
    "b'junk'",
    "b'\\x00' * 8",
    "b'\\xa1AI\\n' + b'\\x00\\x00\\x00\\x04null'",
    "b'\\xa1AI\\n' + b'\\xff' * 4",  # 4 GiB are to follow
    "b'\\xa1AI\\n\\x00\\x00\\x00\\x1b' + b'{\"buffers\": [999999999999]}'",
]


@pytest.mark.parametrize("junk", JUNK)
def test_it_writes_on_our_pipe(opened, junk):
    model = opened(
        f"""
        def model(table):
            if (table["a"] == 1).any():
                for pipe in range(3, 10):
                    try:
                        os.write(pipe, {junk})
                    except OSError:
                        pass
            return [1] * len(table)
        """
    )
    answers = model.predict(frame(3))
    assert answers.labels.tolist() == [1, None, 1]
    assert "answered out of turn at 1 row" in answers.errors[1]


def test_it_answers_too_much(opened):
    model = opened(
        """
        def model(table):
            if (table["a"] == 1).any():
                return ["x" * (80 << 20)]
            return [os.getpid()] * len(table)
        """
    )
    answers = model.predict(frame(3))
    assert answers.labels[0] == answers.labels[2]  # one process answered them
    assert answers.errors[1] == "ValueError: the answer to 1 row has 84 MB, expected at most 67 MB"


def test_a_model_that_waits_for_its_children_waits_for_its_own(opened):
    model = opened(
        """
        def model(table):
            own = subprocess.Popen(["true"])
            assert os.wait()[0] == own.pid
            try:
                os.wait()
            except ChildProcessError:
                return [1] * len(table)
        """
    )
    assert model.predict(frame(2)).labels.tolist() == [1, 1]


def test_what_it_started_may_outlive_its_crash_but_not_the_model(opened, tmp_path):
    model = opened(
        """
        def model(table):
            if (table["a"] == 1).any():
                child = os.fork()
                if child == 0:
                    time.sleep(60)
                    os._exit(0)
                open("child", "w").write(str(child))
                os._exit(5)
            return [1] * len(table)
        """
    )
    answers = model.predict(frame(3))
    assert answers.labels.tolist() == [1, None, 1]
    assert "exited with status 5" in answers.errors[1]
    child = Path(f"/proc/{(tmp_path / 'child').read_text()}/stat")
    assert not child.exists() or child.read_text().rpartition(")")[2].split()[0] == "Z"


def test_a_fork_inside_predict_answers_for_nobody(opened):
    model = opened(
        """
        def fail():
            raise RuntimeError("astray")

        def model(table):
            way = int(table["a"].iloc[0])
            if os.fork() == 0:
                [lambda: None, sys.exit, fail, lambda: os._exit(0)][way]()
                return [99] * len(table)
            return table["a"].tolist()
        """
    )
    for way in (0, 1, 2, 3) * 2:
        assert model.predict(pd.DataFrame({"a": [way] * 3})).labels.tolist() == [way] * 3
    assert model.usage.retries == 0


SHAPES = [
    "(value for value in table['a'].tolist())",
    "map(int, table['a'])",
    "range(len(table))",
    "tuple(table['a'])",
    "table['a'].to_frame()",
    "table[['a']].to_numpy()",
    "table['a'].set_axis(list(range(len(table)))[::-1])",
    "pd.Series(table['a'].to_numpy(), index=range(100, 100 + len(table)))",
    "pd.array(table['a'], dtype='Int64')",
    "[np.int16(value) for value in table['a']]",
    "np.array(table['a'].tolist(), dtype=object)",
    "pd.Categorical(table['a'])",
]


def by_number(expressions: list[str], word: str = "return") -> str:
    """A model that does the n-th of some things where column n says so."""
    lines = [f"    if (table['n'] == {n}).all():\n        {word} {one}\n" for n, one in enumerate(expressions)]
    return "def model(table):\n" + "".join(lines)


def test_answers_of_many_shapes(opened):
    model = opened(by_number(SHAPES))
    for n, shape in enumerate(SHAPES):
        answers = model.predict(frame().assign(n=n))
        assert answers.labels.tolist() == list(range(6)), shape


USELESS = [
    ("[1] * (len(table) + 1)", "sent 1 row, got 2 predictions, expected 1"),
    ("[]", "got 0 predictions"),
    ("None", "got nothing (null) as label"),
    ("{'a': [1]}", "got an object as label"),
    ("set(table['a'])", "got an object as label"),
    ("[[value] for value in table['a']]", "got a list as label"),
    ("[object() for _ in range(len(table))]", "got an object as label"),
    ("[float('nan')] * len(table)", "got nan as label"),
    ("[10 ** 5000] * len(table)", "got an object as label"),
    ("[1j] * len(table)", "got an object as label"),
    ("(lambda cell: cell.append(cell) or cell)([])", "RecursionError"),
    ("[{'label': 1}] * len(table)", "got an object as label"),
    ("pd.DataFrame({'x': table['a'], 'y': table['a']})", "got a list as label"),
    ("(1 / 0 for _ in table['a'])", "ZeroDivisionError"),
    ("np.zeros((len(table), 2, 2))", "got a list as label"),
    ("np.zeros(len(table), dtype='longdouble') + np.longdouble('1e4000')", "got an object as label"),
]


def test_answers_of_no_use(opened):
    model = opened(by_number([returned for returned, _ in USELESS]))
    for n, (returned, said) in enumerate(USELESS):
        answers = model.predict(frame(2).assign(n=n))
        assert all(said in reason for reason in answers.errors), (returned, answers.errors)
        assert answers.labels.tolist() == [None, None]
    assert model.usage.retries == 0


def test_bytes_decimals_and_dates_are_scalars(opened):
    labels = "[b'yes', 'no', pd.Timestamp('2024-01-01'), __import__('decimal').Decimal('0.5')]"
    answers = opened(f"def model(table): return {labels}[:len(table)]").predict(frame(4))
    assert answers.labels.tolist() == ["yes", "no", "2024-01-01T00:00:00", 0.5]


RAISED = [
    ("ValueError('x' * 10_000_000)", "ValueError: xxx"),
    ("ValueError('\\x1b[31mred\\x07\\ud800 and\\x00 more')", "ValueError: [31mred and more"),
    ("ValueError('')", "ValueError"),
    ("ValueError('first\\nsecond')", "ValueError: first"),
    ("type('Mute', (Exception,), {'__str__': lambda self: 1 / 0})()", "Mute"),
    ("KeyboardInterrupt()", "KeyboardInterrupt"),
    ("GeneratorExit('gone')", "GeneratorExit: gone"),
    ("MemoryError()", "MemoryError"),
    ("RecursionError('deep')", "RecursionError: deep"),
]


def test_exceptions_of_every_kind(opened):
    model = opened(by_number([raised for raised, _ in RAISED], "raise"))
    for n, (raised, said) in enumerate(RAISED):
        [reason] = model.predict(frame(1).assign(n=n)).errors
        assert " ".join(reason.split()).startswith(said), raised
        assert len(reason) < 300
        assert reason.isprintable()
    assert model.usage.calls == len(RAISED)


def test_it_changes_the_table_it_is_given(opened):
    model = opened(
        """
        class model:
            classes_ = [0, 1]
            def predict(self, table):
                labels = (table["a"] % 2).to_numpy().copy()
                table["a"] = -1
                table.drop(columns="a", inplace=True)
                return labels
            def predict_proba(self, table):
                high = (table["a"] % 2).to_numpy()
                return np.column_stack([1 - high, high])
        """
    )
    for _ in range(2):
        answers = model.predict(frame())
        assert answers.labels.tolist() == [0, 1, 0, 1, 0, 1]
        assert answers.scores[:, 1].tolist() == [0, 1, 0, 1, 0, 1]


def test_scores_from_predict_alone_name_the_class(opened):
    source = "def model(table): return np.column_stack([1 - table['a'] / 10, table['a'] / 10])"
    model = opened(source, classes=["no", "yes"])
    answers = model.predict(pd.DataFrame({"a": [1, 9]}))
    assert answers.labels.tolist() == ["no", "yes"]
    assert answers.scores.tolist() == [[0.9, 0.1], [pytest.approx(0.1), 0.9]]
    strict = opened(source, classes=["no", "yes"], decision={"threshold": 0.95})
    assert strict.predict(pd.DataFrame({"a": [1, 9]})).labels.tolist() == ["no", "no"]
    with pytest.raises(InputError, match="answers scores only; list `classes`"):
        opened(source).predict(frame(2))


def test_one_that_cannot_start_again_can_be_resumed(opened, tmp_path):
    model = opened(
        """
        if os.path.exists("started"):
            raise RuntimeError("no licence left")
        open("started", "w").close()
        def model(table):
            if (table["a"] == 1).any():
                os._exit(4)
            return [1] * len(table)
        """
    )
    assert model.predict(frame(1)).labels.tolist() == [1]
    with pytest.raises(ModelUnavailable, match=r"after its process had ended, .* RuntimeError: no licence left"):
        model.predict(frame(3))


def test_classes_that_are_no_list_of_labels_are_not_used(opened):
    model = opened(
        """
        class model:
            classes_ = [np.array([0, 1]), np.array(["a", "b"])]
            def predict(self, table):
                return ["a"] * len(table)
        """
    )
    assert model.predict(frame(2)).labels.tolist() == ["a", "a"]


@pytest.mark.parametrize("rows", [1, 300])
def test_large_tables_and_answers_pass(opened, rows):
    wide = pd.DataFrame(np.random.default_rng(0).normal(size=(rows, 2000)), columns=[f"c{n}" for n in range(2000)])
    model = opened("def model(table): return table.to_numpy().sum(axis=1)", "tabular-regressor")
    assert np.allclose(model.predict(wide).labels.astype(float), wide.to_numpy().sum(axis=1))
