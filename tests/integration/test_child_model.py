"""Python models in real child processes: types, noise, exceptions, crashes, other interpreters."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import venv
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from aitest_lib.config.card import load_card, load_card_data
from aitest_lib.errors import InputError, Interrupted
from aitest_lib.models.opening import open_model
from aitest_lib.models.probe import probe

MODELS = """
import os, signal, sys, time
import numpy as np

def parity(table):
    print("noise on stdout", flush=True)
    os.write(1, b"raw noise")
    return table["a"] % 2

def dtypes(table):
    return [f"{name}={table[name].dtype}" for name in table.columns][:1] * len(table) if len(table.columns) == 1 else [
        " ".join(str(table[name].dtype) for name in table.columns)] * len(table)

def echo(table):
    return [repr(value) for value in table.iloc[:, 0].tolist()]

def picky(table):
    if (table["a"] == 3).any():
        raise ValueError("cannot convert 3\\nsecond line")
    return (table["a"] > 3).tolist()

def crashing(table):
    if (table["a"] == 3).any():
        os.kill(os.getpid(), signal.SIGSEGV)
    return ["fine"] * len(table)

def forking(table):
    if os.fork() == 0:
        raise RuntimeError("a child that went astray")
    return (table["a"] % 2).tolist()

def surrogate(table):
    return ["\\ud800"] * len(table)

def always_exits(table):
    sys.exit("no licence")

def once(table):
    if not os.path.exists("crashed"):
        open("crashed", "w").close()
        os._exit(7)
    return ["fine"] * len(table)

def hang(table):
    open("hanging", "w").write(str(os.getpid()))
    time.sleep(60)

def busy(table):
    import re, subprocess
    print(os.getpid(), subprocess.Popen(["sleep", "600"]).pid, file=open("pids", "w"), flush=True)
    re.match("(a+)+$", "a" * 60 + "b")  # holds the GIL for years

def pid(table):
    return [os.getpid()] * len(table)

def column_of(table):
    return np.array([[1.5]] * len(table))

class Scaled:
    def __init__(self, factor=1, secret=None):
        self.factor, self.secret = factor, secret
    def predict(self, table):
        return (table["a"] * self.factor).to_numpy()

class Probabilities:
    classes_ = np.array(["yes", "no"])
    def predict(self, table):
        return np.where(table["a"] > 1, "yes", "no")
    def predict_proba(self, table):
        p = np.clip(table["a"].to_numpy() / 4, 0, 1)
        return np.column_stack([p, 1 - p])

instance = Scaled(3)
not_a_model = 5
"""


@pytest.fixture
def opened(tmp_path):
    (tmp_path / "my_models.py").write_text(MODELS)
    models = []

    def opener(name, type="tabular-classifier", **python):
        python = {"callable": f"my_models:{name}", **python}
        card = {"name": "m", "type": type, "python": python}
        card |= {key: python.pop(key) for key in ("classes", "decision", "inputs") if key in python}
        models.append(open_model(load_card_data(card, tmp_path)))
        return models[-1]

    yield opener
    for model in models:
        model.close()


@pytest.fixture
def frame():
    return pd.DataFrame({"a": range(6)})


def test_answers_in_spite_of_output_on_stdout(opened, frame):
    answers = opened("parity").predict(frame)
    assert answers.labels.tolist() == [0, 1, 0, 1, 0, 1]
    assert {type(label) for label in answers.labels} == {int}


def test_columns_arrive_with_their_types(opened):
    frame = pd.DataFrame(
        {
            "i": np.arange(2),
            "i8": np.arange(2, dtype="int8"),
            "f": [0.5, np.nan],
            "b": [True, False],
            "s": ["x", None],
            "o": pd.Series(["x", 1], dtype=object),
            "t": pd.to_datetime(["2024-01-01", None]),
            "z": pd.to_datetime(["2024-01-01", None]).tz_localize("Europe/Berlin"),
            "c": pd.Categorical(["u", None], categories=["v", "u"], ordered=True),
            "n": pd.array([1, None], dtype="Int64"),
        }
    )
    got = opened("dtypes").predict(frame).labels[0]
    assert got == " ".join(str(frame[name].dtype) for name in frame.columns)


@pytest.mark.parametrize(
    "column",
    [
        pd.Series(["a", None, "ü"], dtype="str"),
        pd.Series(["a", None, np.nan, 1, 2.5, True], dtype=object),
        pd.Series([2**62, -1]),
        pd.Series([0.1, np.nan, np.inf]),
        pd.to_datetime(pd.Series(["2024-01-01 12:00:00.123456", None])),
        pd.Series(pd.Categorical(["x", None, "y"])),
    ],
    ids=["str", "object", "int64", "float64", "datetime", "category"],
)
def test_values_arrive_as_they_are(opened, column):
    got = opened("echo").predict(column.to_frame("a")).labels.tolist()
    assert got == [repr(value) for value in column.tolist()]


def test_an_exception_fails_its_row_only(opened, frame):
    answers = opened("picky").predict(frame)
    assert answers.labels.tolist() == [False, False, False, None, True, True]
    assert answers.errors.tolist() == [None, None, None, "ValueError: cannot convert 3", None, None]


def test_a_crash_fails_its_row_only(opened, frame):
    model = opened("crashing")
    answers = model.predict(frame)
    assert answers.labels.tolist() == ["fine"] * 3 + [None] + ["fine"] * 2
    assert "SIGSEGV" in answers.errors[3]
    assert "Segmentation fault" in answers.errors[3]


def test_a_process_that_died_once_is_restarted(opened, frame):
    model = opened("once")
    assert not model.predict(frame).errors.any()
    assert (model.usage.calls, model.usage.retries) == (2, 1)


def test_sys_exit_in_predict_is_an_error_of_its_rows(opened, frame):
    model = opened("always_exits")
    answers = model.predict(frame)
    assert set(answers.errors) == {"SystemExit: no licence"}
    assert model.usage.retries == 0


def test_stop_ends_a_call_and_its_process(opened, frame, tmp_path):
    model = opened("hang")

    def stop_when_busy():
        while not (tmp_path / "hanging").exists() or not (tmp_path / "hanging").read_text():
            time.sleep(0.02)
        model.stop()

    threading.Thread(target=stop_when_busy).start()
    with pytest.raises(Interrupted):
        model.predict(frame)
    assert gone(int((tmp_path / "hanging").read_text()))


def gone(pid: int) -> bool:
    for _ in range(200):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        if "Z" in Path(f"/proc/{pid}/stat").read_text().split()[2]:
            return True
        time.sleep(0.05)
    return False


def test_classes_objects_and_parameters(opened, frame, monkeypatch):
    monkeypatch.setenv("C_SECRET", "from the environment")
    scaled = opened("Scaled", "tabular-regressor", params={"factor": 2, "secret": "${C_SECRET}"})
    assert scaled.predict(frame).labels.tolist() == [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]
    assert opened("instance", "tabular-regressor").predict(frame).labels.tolist()[:2] == [0.0, 3.0]
    assert opened("column_of", "tabular-regressor").predict(frame).labels.tolist() == [1.5] * 6


def test_scores_come_in_the_order_of_the_card(opened):
    frame = pd.DataFrame({"a": [0, 1, 4]})
    by_card = opened("Probabilities", classes=["no", "yes"])
    assert by_card.predict(frame).scores.tolist() == [[1, 0], [0.75, 0.25], [0, 1]]
    by_model = opened("Probabilities")
    assert by_model.predict(frame).scores.tolist() == [[0, 1], [0.25, 0.75], [1, 0]]
    assert by_model.info.classes == ("yes", "no")
    strict = opened("Probabilities", classes=["no", "yes"], decision={"threshold": 0.2})
    assert strict.predict(frame).labels.tolist() == ["no", "yes", "yes"]
    with pytest.raises(InputError, match="class 'yes'"):
        opened("Probabilities", classes=["no", "maybe"]).predict(frame)


@pytest.mark.parametrize(
    ("name", "python", "message"),
    [
        ("probabilites", {}, "callable: unknown name 'probabilites'; did you mean Probabilities"),
        ("Scaled.predct", {}, "cannot be loaded: AttributeError: Scaled has no 'predct'; did you mean predict"),
        ("x", {"callable": "no_such_module_here:x"}, "no_such_module_here.*ModuleNotFoundError.*looked in"),
        ("not_a_model", {}, "not_a_model is a int, expected a callable"),
        ("Scaled", {"params": {"factr": 1}}, "params do not fit Scaled: .*'factr'; it takes factor, secret"),
        ("parity", {"params": {"a": 1}}, "params are the arguments of a class"),
        ("parity", {"interpreter": "/no/such/python"}, "python.interpreter: the interpreter /no/such/python is not there"),
        ("parity", {"interpreter": "no-such-python"}, r"interpreter no-such-python is not there \(looked for in PATH\)"),
        ("parity", {"interpreter": "./my_models.py"}, "interpreter .*my_models.py cannot be started in .*: Permission denied"),
        ("parity", {"interpreter": "/bin/false"}, "exited with status 1"),
    ],
)
def test_what_cannot_be_loaded_is_one_message(opened, frame, name, python, message):
    with pytest.raises(InputError, match=message) as caught:
        opened(name, **python).predict(frame)
    assert "Traceback" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_wrong_card_says_where(tmp_path):
    (tmp_path / "my_models.py").write_text(MODELS)
    card = tmp_path / "model.yaml"
    head = "name: m\ntype: tabular-classifier\npython:\n"
    card.write_text(f"{head}  interpreter: venv/bin/python\n  callable: my_models:parity\n")
    with pytest.raises(InputError, match=r"model.yaml:4: python.interpreter: the interpreter venv/bin/python is not there"):
        load_card(card)
    card.write_text(f"{head}  callable: my_models:partiy\n")
    with pytest.raises(InputError, match=r"model.yaml:4: python.callable: unknown name 'partiy'; did you mean parity"):
        load_card(card)


def test_names_that_are_made_while_the_module_runs_are_not_missed(opened, frame, tmp_path):
    (tmp_path / "dynamic.py").write_text("for name in ('a', 'b'):\n    globals()[name] = lambda table: [1] * len(table)\n")
    assert opened("x", callable="dynamic:b").predict(frame).labels.tolist() == [1] * 6


def test_the_digest_covers_the_package_around_the_module(tmp_path):
    card = {"name": "m", "type": "tabular-classifier", "python": {"callable": "pkg.deep.models:f", "path": ["src"]}}
    folder = tmp_path / "src/pkg/deep"
    folder.mkdir(parents=True)
    (folder / "models.py").write_text("from pkg.helper import f")
    before = load_card_data(card, tmp_path).digest
    (folder.parent / "helper.py").write_text("f = 1")
    first = load_card_data(card, tmp_path).digest
    (folder.parent / "helper.py").write_text("f = 2")
    second = load_card_data(card, tmp_path).digest
    (tmp_path / "src/other.py").write_text("f = 3")
    assert len({before, first, second}) == 3
    assert load_card_data(card, tmp_path).digest == second


def test_the_digest_of_a_lone_module_covers_those_beside_it(tmp_path):
    card = {"name": "m", "type": "tabular-classifier", "python": {"callable": "models:f"}}
    (tmp_path / "models.py").write_text("from helper import f")
    digests = {load_card_data(card, tmp_path).digest}
    for text in ("f = 1", "f = 2"):
        (tmp_path / "helper.py").write_text(text)
        digests.add(load_card_data(card, tmp_path).digest)
    (tmp_path / "below").mkdir()
    (tmp_path / "below/unrelated.py").write_text("")
    digests.add(load_card_data(card, tmp_path).digest)
    assert len(digests) == 3


def test_our_modules_shadow_none_of_the_users(opened, frame, tmp_path):
    (tmp_path / "finder.py").write_text(
        "from importlib.util import find_spec\n"
        "def found(table): return [str([n for n in ('auth', 'base', 'probe') if find_spec(n)])] * len(table)"
    )
    assert opened("x", callable="finder:found").predict(frame).labels.tolist() == ["[]"] * 6


def test_threads_share_one_process(opened, frame):
    model = opened("pid", "tabular-regressor")
    seen = []
    threads = [threading.Thread(target=lambda: seen.extend(model.predict(frame).labels)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(seen)) == 1
    assert len(seen) == 24


def test_the_child_dies_with_its_parent(tmp_path):
    (tmp_path / "my_models.py").write_text(MODELS)
    program = textwrap.dedent(
        """
        import sys, time
        import pandas as pd
        from aitest_lib.config.card import load_card_data
        from aitest_lib.models.opening import open_model
        card = {"name": "m", "type": "tabular-regressor", "python": {"callable": "my_models:pid"}}
        model = open_model(load_card_data(card, sys.argv[1]))
        print(int(model.predict(pd.DataFrame({"a": [1]})).labels[0]), flush=True)
        time.sleep(60)
        """
    )
    parent = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    child = int(parent.stdout.readline())
    assert not gone_now(child)
    parent.send_signal(signal.SIGKILL)
    parent.communicate()
    assert gone(child)


def test_nothing_outlives_the_parent_of_a_model_that_holds_the_gil(tmp_path):
    (tmp_path / "my_models.py").write_text(MODELS)
    program = textwrap.dedent(
        """
        import sys
        import pandas as pd
        from aitest_lib.config.card import load_card_data
        from aitest_lib.models.opening import open_model
        card = {"name": "m", "type": "tabular-regressor", "python": {"callable": "my_models:busy"}}
        open_model(load_card_data(card, sys.argv[1])).predict(pd.DataFrame({"a": [1]}))
        """
    )
    parent = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)])
    pids = tmp_path / "pids"
    while parent.poll() is None and not (pids.exists() and pids.read_text().endswith("\n")):
        time.sleep(0.02)
    child, started = map(int, pids.read_text().split())
    parent.kill()
    parent.wait()
    try:
        assert gone(child)
        assert gone(started)
    finally:
        if not gone_now(child):
            os.killpg(child, signal.SIGKILL)


def gone_now(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


def test_the_standalone_file_needs_no_aitest(opened, frame, tmp_path):
    """Another interpreter: one whose import of aitest_lib fails."""
    (tmp_path / "aitest_lib").mkdir()
    (tmp_path / "aitest_lib" / "__init__.py").write_text("raise ImportError('not installed here')")
    script = tmp_path / "python"
    script.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path} exec {sys.executable} "$@"\n')
    script.chmod(0o755)
    assert opened("parity", interpreter="./python").predict(frame).labels.tolist() == [0, 1, 0, 1, 0, 1]


WHO = """
import sys
import numpy as np
import pandas as pd

def who(table):
    return [f"{sys.prefix} {pd.__version__.rsplit('.', 1)[0]} {'aitest_lib' in sys.modules}"] * len(table)

def kinds(table):
    return ["; ".join(f"{name} {table[name].dtype.kind} {table[name].tolist()!r}" for name in table)]
"""


def test_another_virtual_environment(opened, frame, tmp_path):
    venv.create(tmp_path / "other", with_pip=False)
    packages = next((tmp_path / "other").glob("lib/python*/site-packages"))
    (packages / "ours.pth").write_text(str(Path(np.__file__).parents[1]))  # numpy and pandas, without an installation
    (tmp_path / "who.py").write_text(WHO)
    [label, *_] = opened("x", callable="who:who", interpreter="other/bin/python").predict(frame).labels
    assert label == f"{tmp_path / 'other'} {pd.__version__.rsplit('.', 1)[0]} False"


@pytest.mark.slow
def test_another_pandas(opened, frame, tmp_path):
    venv.create(tmp_path / "old", with_pip=True)
    python = tmp_path / "old/bin/python"
    subprocess.run([python, "-m", "pip", "install", "-q", "pandas==2.2.*"], check=True)
    (tmp_path / "who.py").write_text(WHO)
    [label, *_] = opened("x", callable="who:who", interpreter="old/bin/python").predict(frame).labels
    assert label == f"{tmp_path / 'old'} 2.2 False"
    table = pd.DataFrame(
        {
            "text": pd.Series(["a"], dtype="str"),
            "time": pd.to_datetime(["2024-01-01"]),
            "nullable": pd.array([1], dtype="Int64"),
            "group": pd.Categorical(["u"]),
            "truth": [True],
        }
    )
    [kinds] = opened("x", callable="who:kinds", interpreter="old/bin/python").predict(table).labels
    assert kinds == ("text O ['a']; time M [Timestamp('2024-01-01 00:00:00')]; nullable i [1]; group O ['u']; truth b [True]")


def test_probe_of_a_child(opened, frame):
    found = probe(opened("parity"), frame)
    assert found.problems == ()
    assert found.classes == (0, 1)
    assert found.deterministic


def test_closing_twice_and_asking_again(opened, frame):
    model = opened("parity")
    model.predict(frame)
    model.close()
    model.close()
    assert not model.predict(frame).errors.any()
    assert len(model.predict(frame.head(0))) == 0


def test_a_fork_that_goes_astray_answers_for_nobody(opened, frame):
    model = opened("forking")
    for _ in range(3):
        answers = model.predict(frame)
        right = [label == n % 2 for n, label in zip(frame["a"], answers.labels, strict=True) if label is not None]
        assert all(right)
        assert right


def test_text_that_is_no_unicode_is_no_label(opened, frame):
    answers = opened("surrogate").predict(frame)
    assert all("not valid Unicode" in reason for reason in answers.errors)
