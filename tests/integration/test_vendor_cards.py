"""Every ready card against a server that speaks like its service: right answers in their order, refusals, busy times."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pandas as pd
import pytest
import vendor_images as images
import vendor_speech as speech
import vendor_tables as tables
import vendor_texts as texts
import yaml
from opening import open_card
from vendor_server import Reply, Vendor, secret_of, serving

from aitest_lib.config.secrets import references
from aitest_lib.errors import ModelUnavailable
from aitest_lib.types import Clip

CARDS = Path(__file__).parents[2] / "deployments" / "cards"
SERVICES: dict[str, type[Vendor]] = {
    "json-endpoint": tables.JsonEndpoint,
    "score-endpoint": tables.ScoreEndpoint,
    "mlflow-scoring": tables.MlflowScoring,
    "kserve-v2": tables.KserveTensor,
    "kserve-v2-columns": tables.KserveColumns,
    "tf-serving": tables.TfServing,
    "vertex": tables.Vertex,
    "sagemaker-csv": tables.SageMakerCsv,
    "sagemaker-json": tables.SageMakerJson,
    "azure-ml": tables.AzureMl,
    "ibm-wml": tables.Wml,
    "seldon": tables.Seldon,
    "bentoml": tables.Bento,
    "hf-text-classification": texts.HfText,
    "hf-image-classification": images.HfImage,
    "kserve-v2-image": images.KserveImages,
    "tf-serving-image": images.TfServingImages,
    "hf-speech": speech.HfSpeech,
    "openai-transcriptions": speech.OpenAi,
    "whisper-cpp": speech.WhisperCpp,
    "deepgram": speech.Deepgram,
    "assemblyai": speech.AssemblyAi,
    "google-speech": speech.GoogleSpeech,
    "azure-speech": speech.AzureSpeech,
    "azure-speech-fast": speech.AzureSpeechFast,
    "watson-speech": speech.WatsonSpeech,
    "aws-transcribe": speech.Transcribe,
    "vosk": speech.Vosk,
    "watson-assistant": texts.WatsonAssistant,
    "rasa": texts.Rasa,
    "dialogflow-es": texts.DialogflowEs,
    "dialogflow-cx": texts.DialogflowCx,
    "lex-v2": texts.LexV2,
}
NUMERIC = {"kserve-v2", "tf-serving", "sagemaker-csv", "sagemaker-json"}
FALLBACK = {"rasa": "nlu_fallback", "dialogflow-es": "Default Fallback Intent", "lex-v2": "FallbackIntent"}
SCORED = ["json-endpoint", "score-endpoint", "kserve-v2", "tf-serving", "vertex", "sagemaker-csv", "sagemaker-json"]
SCORED += ["ibm-wml", "seldon", "kserve-v2-image", "tf-serving-image"]

# The columns stand in another order than the cards', and one of them is not the model's.
PEOPLE = pd.DataFrame(
    {
        "job": ["cook", 'nurse, "head"', "clerk\nat night", "nurse", "päd. Assistent"],
        "shoe": [1, 2, 3, 4, 5],
        "income": [60, 45, 39.5, 20, 80],
        "age": [30, 40, 50, 60, 20],
    }
)
NUMBERS = PEOPLE.drop(columns="job").assign(debt=[0, 3.25, -40, 1e-3, 50])
TRANSFERS = pd.DataFrame({"hour": [3, 12, 4, 5], "amount": [500, 500, 20, 101.5], "country": ["IT", "FR", "IT", None]})
TEXTS = ["a good day", 'a "bad" day\n', "good ${HF_TOKEN} {{ 1 }}", "nothing", "good"]
TURNS = [["I want to fly to Rome"], ["hi", 'Please cancel "it"'], ["tell me a joke"], ["cancel it", "no, fly {{ there }}"]]
LEVELS = [10, 200, 90, 250]
HEARD = ["tone 300 for 2 tenths", "", "tone 500 for 4 tenths", "tone 800 for 1 tenths"]


def clip(text: str) -> Clip:
    """The tone that a transcript names; silence for an empty one."""
    found = re.fullmatch(r"tone (\d+) for (\d+) tenths", text)
    frequency, tenths = (int(part) for part in found.groups()) if found else (0, 3)
    times = np.arange(tenths * speech.RATE // 10) / speech.RATE
    return Clip((0.5 * np.sin(2 * np.pi * frequency * times)).astype(np.float32), speech.RATE)


def conversation(user: list[str]) -> list[dict[str, str]]:
    """User turns with the answers of an assistant between them."""
    turns = [{"role": role, "text": text} for one in user for role, text in (("user", one), ("assistant", "I see"))]
    return turns[:-1]


@dataclass(frozen=True)
class Opened:
    """A card opened on its service, and inputs with the answers that are right."""

    model: Any
    vendor: Vendor
    inputs: Any
    expected: list[Any]

    def predict(self) -> Any:
        return self.model.predict(self.inputs)


def inputs_of(name: str, kind: str) -> tuple[Any, list[Any]]:
    """Inputs for a card, and the answers that are right for them."""
    if name == "score-endpoint":
        return TRANSFERS, [True, False, False, True]
    if kind == "tabular-classifier":
        columns, data = (tables.NUMBER_COLUMNS, NUMBERS) if name in NUMERIC else (tables.TEXT_COLUMNS, PEOPLE)
        right = [tables.approves(*row) for row in data[columns].itertuples(index=False)]
        assert len(set(right)) == 2
        return data, [int(one) if name == "kserve-v2" or "sage" in name else ("declined", "approved")[one] for one in right]
    if kind == "text-classifier":
        return TEXTS, ["POSITIVE" if "good" in text else "NEGATIVE" for text in TEXTS]
    if kind == "image-classifier":
        shape = (8, 6, 3) if name == "hf-image-classification" else (64, 48, 1)
        dark, light = ("dark", "light") if name == "hf-image-classification" else ("defect", "good")
        return np.array([np.full(shape, level, np.uint8) for level in LEVELS]), [dark, light, dark, light]
    if kind == "speech-to-text":
        return [clip(text) for text in HEARD], HEARD
    return [conversation(user) for user in TURNS], [texts.intent(user[-1]) or FALLBACK.get(name, "none") for user in TURNS]


@contextmanager
def opened(name: str, monkeypatch: pytest.MonkeyPatch, change: Callable[[str], str] = str) -> Iterator[Opened]:
    """The card as it is, but for the hosts, small batches and short waits; each host is a server of its own."""
    text = change((CARDS / f"{name}.yaml").read_text())
    card = yaml.safe_load(text)
    vendor = SERVICES[name]()
    for reference in references(text):
        monkeypatch.setenv(reference, secret_of(reference))
    for reference in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(reference, secret_of(reference))
    monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)
    endpoint = card["endpoint"]
    for step in (steps := endpoint.get("steps", [])):
        step |= {"every_s": 0.02} if "until" in step else {}
    if endpoint.get("batch_size", 256) > 1 and card["type"] in ("tabular-classifier", "text-classifier", "image-classifier"):
        endpoint["batch_size"] = 2
    called = [one for one in [endpoint, *steps] if "://" in one["url"]]
    hosts = {urlsplit(one["url"]).netloc for one in called} | (
        {vendor.results} if isinstance(vendor, speech.Transcribe) else set()
    )
    with ExitStack() as stack:
        if isinstance(vendor, speech.Vosk):
            addresses = dict.fromkeys(hosts, stack.enter_context(vendor.serving()))
        else:
            addresses = stack.enter_context(serving(vendor, hosts))
        for one in called:
            scheme, host = urlsplit(one["url"])[:2]
            one["url"] = one["url"].replace(f"{scheme}://{host}", f"{scheme.replace('https', 'http')}://{addresses[host]}", 1)
        yield Opened(open_card(card), vendor, *inputs_of(name, card["type"]))


def test_every_endpoint_card_has_its_service() -> None:
    cards = {path.stem for path in CARDS.glob("*.yaml") if "endpoint" in yaml.safe_load(path.read_text())}
    assert cards == set(SERVICES)


@pytest.mark.parametrize("name", SERVICES)
def test_answers_are_right_and_in_order(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(name, monkeypatch) as card:
        found = card.predict()
    assert list(found.errors) == [None] * len(card.expected)
    assert list(found.labels) == card.expected
    assert [type(label) for label in found.labels] == [type(label) for label in card.expected]
    if name in SCORED:
        assert found.scores.sum(axis=1).tolist() == [1.0] * len(card.expected)
        likely = found.scores[:, 1] > (0.3 if name == "score-endpoint" else 0.5)
        assert [card.model.info.classes[int(one)] for one in likely] == card.expected
    else:
        assert found.scores is None


BUSY = {
    "hf-text-classification": texts.LOADING,
    "hf-image-classification": texts.LOADING,
    "hf-speech": speech.LOADING,
    "vertex": Reply(429, {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED"}}),
    "dialogflow-es": Reply(429, {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED"}}),
    "dialogflow-cx": Reply(429, {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED"}}),
    "google-speech": Reply(429, {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED"}}),
    "azure-ml": Reply(429, {"error": {"code": "TooManyRequests"}}),
    "azure-speech": Reply(429, "", {"Retry-After": "0"}),
    "azure-speech-fast": Reply(429, {"error": {"code": "TooManyRequests"}}, {"Retry-After": "0"}),
    "openai-transcriptions": Reply(429, {"error": {"type": "requests"}}, {"Retry-After": "0"}),
    "deepgram": Reply(503, {"err_code": "SERVICE_UNAVAILABLE"}),
    "assemblyai": Reply(429, {"error": "Too many requests"}, {"Retry-After": "0"}),
    "aws-transcribe": Reply(503, "<Error><Code>SlowDown</Code></Error>"),
    "watson-speech": Reply(503, {"error": "Service Unavailable"}),
    "watson-assistant": Reply(429, {"error": "too many requests"}),
    "lex-v2": Reply(429, {"message": "Too many requests"}),
    "sagemaker-csv": Reply(503, {"message": "The service is unavailable"}),
    "ibm-wml": Reply(429, {"errors": [{"code": "too_many_requests"}]}),
    "tf-serving": Reply(503, {"error": "Servable not found for request: Latest(credit)"}),
    "kserve-v2": Reply(503, {"error": "Model credit is not ready yet."}),
}


@pytest.mark.parametrize("name", BUSY)
def test_a_busy_service_is_asked_again(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(name, monkeypatch) as card:
        card.vendor.faults = [BUSY[name]]
        found = card.predict()
    assert list(found.labels) == card.expected
    assert card.model.usage.retries == 1 and not card.vendor.faults


BAD = {
    "tabular-classifier": lambda row: 39.5 in row,
    "text-classifier": lambda text: text == TEXTS[2],
    "image-classifier": lambda light: light == 90,
    "speech-to-text": lambda text: text == HEARD[2],
    "conversation-classifier": lambda text: text == TURNS[2][-1],
}


@pytest.mark.parametrize("name", SERVICES)
def test_a_refused_input_is_an_error_of_its_own(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(name, monkeypatch) as card:
        card.vendor.bad = BAD[card.model.info.type] if name != "score-endpoint" else lambda row: row[0] == 20
        found = card.predict()
    assert [reason is not None for reason in found.errors] == [n == 2 for n in range(len(card.expected))]
    assert list(found.labels) == [None if n == 2 else label for n, label in enumerate(card.expected)]


OPEN = {"mlflow-scoring", "kserve-v2", "kserve-v2-columns", "tf-serving", "seldon", "bentoml", "whisper-cpp", "vosk"}
OPEN |= {"kserve-v2-image", "tf-serving-image"}


@pytest.mark.parametrize("name", sorted(set(SERVICES) - OPEN))
def test_a_wrong_secret_is_one_message_without_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(name, monkeypatch) as card:
        for reference in [*references((CARDS / f"{name}.yaml").read_text()), "AWS_ACCESS_KEY_ID"]:
            monkeypatch.setenv(reference, "wrong-Value")
        try:
            said = str(card.predict().errors[0])  # HTTP 403 may be of this input only: few of them end no run
            assert "check that the credentials may use this model" in said
        except ModelUnavailable as error:
            said = str(error)
    assert "wrong-Value" not in said and len(said) < 600


def test_an_expired_token_is_fetched_anew_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with opened("ibm-wml", monkeypatch) as card:
        assert list(card.predict().labels) == card.expected
        assert card.vendor.issued == 1
        card.vendor.expire()
        assert list(card.predict().labels) == card.expected
        assert card.vendor.issued == 2


def test_a_google_machine_fetches_its_token(monkeypatch: pytest.MonkeyPatch) -> None:
    def with_the_step(text: str) -> str:
        return text.replace('  auth: {type: bearer, token: "${GOOGLE_TOKEN}"}\n', "").replace("\n  # ", "\n  ")

    with opened("vertex", monkeypatch, with_the_step) as card:
        assert list(card.predict().labels) == card.expected
    assert [request.host for request in card.vendor.requests].count("metadata.google.internal") == 1


def test_an_older_container_answers_on_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    with opened("sagemaker-csv", monkeypatch) as card:
        card.vendor.one_line = True
        assert list(card.predict().labels) == card.expected


def test_a_scoring_script_may_answer_plain_json(monkeypatch: pytest.MonkeyPatch) -> None:
    with opened("azure-ml", monkeypatch) as card:
        card.vendor.plain = True
        assert list(card.predict().labels) == card.expected


@pytest.mark.parametrize("name", ["watson-assistant", "dialogflow-es", "dialogflow-cx", "lex-v2"])
def test_every_conversation_has_a_session_of_its_own(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(name, monkeypatch) as card:
        card.predict()
        card.predict()
    assert len(set(card.vendor.sessions)) == len(card.vendor.sessions) == 2 * len(card.expected)


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_grey_and_colour_images_as_png(channels: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened("hf-image-classification", monkeypatch) as card:
        pixels = np.array([np.full((5, 7, channels), level, np.uint8) for level in LEVELS])
        assert list(card.model.predict(pixels).labels) == card.expected


@pytest.mark.parametrize("name", ["kserve-v2-image", "tf-serving-image"])
def test_colour_images_where_the_card_says_so(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def in_colour(text: str) -> str:
        return text.replace("channels: 1", "channels: 3").replace("}}, 1, 64", "}}, 3, 64")

    with opened(name, monkeypatch, in_colour) as card:
        card.vendor.channels = 3
        assert list(card.model.predict(np.repeat(card.inputs, 3, axis=3)).labels) == card.expected


@pytest.mark.parametrize("name", ["lex-v2", "dialogflow-es"])
def test_an_answer_without_any_intent_is_none(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(name, monkeypatch) as card:
        assert list(card.model.predict([conversation(["what?"])]).labels) == ["none"]


def test_the_scores_of_one_text_may_stand_in_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    with opened("hf-text-classification", monkeypatch) as card:
        card.vendor.nested = True
        assert list(card.predict().labels) == card.expected


def test_no_credentials_go_where_the_card_does_not_send_them(monkeypatch: pytest.MonkeyPatch) -> None:
    with opened("aws-transcribe", monkeypatch) as card:
        card.predict()
    hosts = {request.host for request in card.vendor.requests if request.headers.get("Authorization")}
    assert hosts == {"transcribe.eu-west-1.amazonaws.com", "my-bucket.s3.eu-west-1.amazonaws.com"}
    assert card.vendor.results in {request.host for request in card.vendor.requests}
