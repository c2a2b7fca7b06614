"""Recognisers behind every backend: in a process, in memory, and behind services of five shapes."""

from __future__ import annotations

import itertools
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from opening import open_card
from recognisers import KINDS, SENTENCES, as_environment, serve

from aitest_lib.config.card import load_card
from aitest_lib.config.inputs import Inputs, Speech
from aitest_lib.errors import InputError
from aitest_lib.models.clips import by_rate, clips_for_python
from aitest_lib.models.local import LocalModel
from aitest_lib.models.opening import open_model
from aitest_lib.models.probe import probe
from aitest_lib.models.processes import python_child
from aitest_lib.models.processes.encoding import encode_inputs
from aitest_lib.pcm import of_pcm16
from aitest_lib.types import Clip, ModelInfo
from aitest_lib.voices.base import Voice
from aitest_lib.voices.programs import Flite
from aitest_lib.voices.speaking import speak

CARDS = Path(__file__).parents[2] / "deployments" / "cards"
MODELS = """
import hashlib, os
import numpy as np

calls = []

def described(clips, sample_rate):
    assert type(clips) is list and type(sample_rate) is int
    return [f"{one.dtype} {len(one)} at {sample_rate} {hashlib.sha256(one.tobytes()).hexdigest()}" for one in clips]

class Counting:
    def __init__(self, name):
        self.name = name
        self.calls = 0

    def predict(self, clips, sample_rate):
        self.calls += 1
        return [f"{self.name} {self.calls} {len(clips)} {sample_rate}"] * len(clips)

def nothing(clips, sample_rate):
    return [None, "", " a b\\n"][: len(clips)]

def array(clips, sample_rate):
    return np.array(["x"] * len(clips), dtype=object)

def changing(clips, sample_rate):
    for one in clips:
        one *= 0
    return ["done"] * len(clips)

def picky(clips, sample_rate):
    if any(len(one) == 7 for one in clips):
        raise ValueError("cannot hear 7 samples")
    return ["heard"] * len(clips)

def crashing(clips, sample_rate):
    if any(len(one) == 7 for one in clips):
        os.abort()
    return ["heard"] * len(clips)

def short(clips, sample_rate):
    return ["one"]

def old(clips):
    return ["?"] * len(clips)
"""


def clip(samples: int, rate: int = 16_000, seed: int = 0) -> Clip:
    values = np.random.default_rng([seed, samples]).integers(-32_768, 32_768, samples, dtype=np.int16)
    return of_pcm16(values, rate)


def card(folder: Path, name: str, **more: Any) -> dict[str, Any]:
    (folder / "recognisers_of_mine.py").write_text(MODELS)
    python = {"callable": f"recognisers_of_mine:{name}", "path": [str(folder)], **more}
    return {"name": "mine", "type": "speech-to-text", "python": python}


def own_module() -> dict[str, Any]:
    module: dict[str, Any] = {}
    exec(MODELS, module)  # the very code that the child imports
    return module


def both(folder: Path, name: str) -> list[Any]:
    """The model in a process of its own, and in memory."""
    info = ModelInfo(name="mine", type="speech-to-text", digest="d")
    return [open_card(card(folder, name)), LocalModel(own_module()[name], info)]


def test_samples_arrive_exactly_and_rate_by_rate(tmp_path: Path) -> None:
    clips = [clip(5), clip(7, 8_000), clip(3, seed=1), clip(16_000, 8_000), clip(1, 44_100)]
    expected = own_module()["described"]
    wanted = [expected([one.samples], one.sample_rate)[0] for one in clips]
    for model in both(tmp_path, "described"):
        found = model.predict(clips)
        assert list(found.labels) == wanted and found.scores is None
        assert not found.errors.any()


def test_a_call_carries_one_rate_and_not_too_much() -> None:
    clips = [clip(6), clip(4, 8_000), clip(5), clip(30), clip(2), clip(1, 8_000)]
    assert by_rate(clips, most=11) == [[0, 2], [1, 5], [3], [4]]
    assert by_rate(clips, most=1) == [[0], [1], [2], [3], [4], [5]]
    assert by_rate([]) == []


def test_parameters_and_calls_of_an_object(tmp_path: Path) -> None:
    model = open_card(card(tmp_path, "Counting", params={"name": "it"}))
    labels = model.predict([clip(3), clip(4, 8_000), clip(5)]).labels
    assert list(labels) == ["it 1 2 16000", "it 2 1 8000", "it 1 2 16000"]
    assert (model.usage.calls, model.usage.rows) == (2, 3)


@pytest.mark.parametrize(("name", "labels"), [("nothing", ["", "", "a b"]), ("array", ["x"] * 3), ("changing", ["done"] * 3)])
def test_answers_of_many_forms(name: str, labels: list[str], tmp_path: Path) -> None:
    clips = [clip(4), clip(5), clip(6)]
    for model in both(tmp_path, name):
        assert list(model.predict(clips).labels) == labels
    np.testing.assert_array_equal(clips[0].samples, clip(4).samples)  # whatever a model does to what it is given


@pytest.mark.parametrize(("name", "problem"), [("picky", "cannot hear 7 samples"), ("crashing", "died")])
def test_a_bad_clip_stands_alone(name: str, problem: str, tmp_path: Path) -> None:
    clips = [clip(4), clip(7), clip(5), clip(6, 8_000)]
    found = open_card(card(tmp_path, name)).predict(clips)
    assert list(found.labels) == ["heard", None, "heard", "heard"]
    assert problem in found.errors[1] and [one is None for one in found.errors] == [True, False, True, True]


def test_a_function_that_does_not_take_the_rate_is_told_once(tmp_path: Path) -> None:
    for model in both(tmp_path, "old"):
        message = "mine: a recogniser is called with a list of clips and their sample rate: too many positional.*it takes clips"
        with pytest.raises(InputError, match=message):
            model.predict([clip(4)])


def test_one_text_for_two_clips_is_no_answer(tmp_path: Path) -> None:
    for model in both(tmp_path, "short"):
        found = model.predict([clip(4), clip(5)])
        assert list(found.labels) == ["one", "one"] and model.usage.splits == 1


def test_clips_that_are_not_as_the_card_says(tmp_path: Path) -> None:
    with_rate = card(tmp_path, "described") | {"inputs": {"speech": {"sample_rate": 16_000}}}
    info = ModelInfo(name="mine", type="speech-to-text", digest="d")
    local = LocalModel(own_module()["described"], info, inputs=Inputs(speech=Speech(sample_rate=16_000)))
    for model in (open_card(with_rate), local):
        with pytest.raises(
            InputError, match=r"mine: got a clip of 8000 samples per second, but inputs.speech.sample_rate is 16000"
        ):
            model.predict([clip(4), clip(4, 8_000)])
        with pytest.raises(InputError, match="expected a list of clips"):
            model.predict(["a.wav"])
        assert len(model.predict([])) == 0


def test_clips_do_not_go_to_files_that_cannot_take_them(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(b"")
    message = "behind `onnx`, which is not asked here; serve it .* with `endpoint`, or load it in a class of your own"
    with pytest.raises(InputError, match=message):
        open_card({"name": "m", "type": "speech-to-text", "onnx": str(tmp_path / "m.onnx")}).predict([clip(4)])


def test_clips_come_through_the_pipe_as_they_went_in() -> None:
    clips = clips_for_python([clip(3), clip(0), clip(5)])
    header, buffers = encode_inputs(clips)
    back = python_child.decode_inputs(header, buffers)
    assert (header["rows"], back.sample_rate, len(back)) == (3, 16_000, 3)
    for one, other in zip(clips, back, strict=True):
        np.testing.assert_array_equal(one, other)
        assert other.dtype == np.float32 and other.flags.writeable and other.flags.owndata


# PocketSphinx


speaking = pytest.mark.skipif(shutil.which("flite") is None, reason="flite is not installed")


def spoken(voices: tuple[str, ...] = ("slt", "rms")) -> tuple[list[Clip], list[str]]:
    """Sentences by these voices, and the sentences."""
    pairs = list(itertools.product(SENTENCES, voices))
    return [speak(Voice(voice, Flite()), text, 16_000) for text, voice in pairs], [text for text, _ in pairs]


@speaking
def test_the_ready_card_of_pocketsphinx_hears_its_sentences(tmp_path: Path) -> None:
    pytest.importorskip("pocketsphinx")
    shutil.copy(CARDS / "pocketsphinx.yaml", tmp_path)
    loaded = load_card(tmp_path / "pocketsphinx.yaml")
    grammar = loaded.card.python.params["grammar"]
    clips, texts = spoken()
    clips, texts = zip(*((one, text) for one, text in zip(clips, texts, strict=True) if text in grammar), strict=True)
    model = open_model(loaded)
    try:
        assert list(model.predict(list(clips)).labels) == list(texts)
        result = probe(model, clips)
    finally:
        model.close()
    assert (result.deterministic, result.problems, result.classes, result.rows) == (True, (), (), 10)
    assert result.label_kinds == ("text",) and not result.scores


def test_a_wrong_grammar_is_told_when_the_card_is_probed(tmp_path: Path) -> None:
    pytest.importorskip("pocketsphinx")
    data = yaml.safe_load((CARDS / "pocketsphinx.yaml").read_text())
    data["python"]["params"] = {"grammar": ["say zyzzyvax"]}
    with pytest.raises(InputError, match=r"cannot be loaded: InputError: the grammar has words .*'zyzzyvax'"):
        probe(open_card(data), [clip(400)])


def test_the_probe_shows_which_clip_was_sent(tmp_path: Path) -> None:
    result = probe(open_card(card(tmp_path, "picky")), [clip(7)])
    assert len(result.problems) == 1
    assert result.problems[0].endswith("cannot hear 7 samples; sent was a clip of 0.00 s at 16000 samples per second")


# Services


@speaking
@pytest.mark.parametrize("kind", KINDS)
def test_a_service_of_each_shape_hears_what_is_said(kind: str) -> None:
    pytest.importorskip("pocketsphinx")
    clips, texts = spoken(("rms",))
    silence = Clip(np.zeros(16_000, np.float32), 16_000)
    with serve(kind, busy=1) as served, as_environment(served.environment):
        model = open_card(served.card)
        found = model.predict([*clips, silence])
        assert list(found.labels) == [*texts, ""] and not found.errors.any()
        assert (served.recogniser.distinct, served.recogniser.repeated, model.usage.retries) == (11, 0, 1)
        result = probe(model, [*clips[:3], silence])
        assert (result.deterministic, result.problems) == (True, ())
        assert served.recogniser.repeated == 1 + 4 + 4


@pytest.mark.parametrize("kind", KINDS)
def test_the_card_of_a_service_can_be_written(kind: str, tmp_path: Path) -> None:
    pytest.importorskip("pocketsphinx")
    with serve(kind) as served:
        loaded = load_card(served.write(tmp_path))
    assert loaded.card.type == "speech-to-text" and loaded.card.revision
    assert not any(secret in (tmp_path / "model.yaml").read_text() for secret in served.environment.values())
    assert not set(served.environment) & set(os.environ)
