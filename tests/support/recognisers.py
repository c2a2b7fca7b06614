"""Services of five shapes with a real recogniser behind them: PocketSphinx with a grammar, one clip at a time.

They take what the ready cards send, check it, count which clips they have heard, and can be busy or slow.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import vendor_speech
import yaml
from vendor_server import Reply, Vendor, secret_of, serving

from aitest_lib.config.secrets import references
from aitest_lib.models.pocketsphinx import PocketSphinx
from aitest_lib.pcm import of_pcm16

CARDS = Path(__file__).parents[2] / "deployments" / "cards"
SENTENCES = (
    "i am ready",
    "can i talk to someone",
    "keep holding",
    "i need a minute",
    "repeat please",
    "the quick brown fox jumps over the lazy dog",
    "please transfer me to the billing department because my invoice is wrong",
    "the weather in london is going to be cold and rainy tomorrow morning",
    "she opened the window and looked out at the quiet street",
    "our next meeting will be on monday at three in the afternoon",
)
SHAPES: dict[str, tuple[str, type[vendor_speech.Listener]]] = {
    "whisper": ("openai-transcriptions", vendor_speech.OpenAi),
    "watson": ("watson-speech", vendor_speech.WatsonSpeech),
    "google": ("google-speech", vendor_speech.GoogleSpeech),
    "aws": ("aws-transcribe", vendor_speech.Transcribe),
    "vosk": ("vosk", vendor_speech.Vosk),
}
KINDS = tuple(SHAPES)
_ONE_AT_A_TIME = Lock()  # services with the same grammar share a decoder
BUSY = Reply(503, {"error": "busy"}, {"Retry-After": "0"})


@dataclass
class Recogniser:
    """Ears for a service. `counts`: how often each clip (SHA-256 of its PCM16) was heard; `slow_s`: what one takes longer."""

    grammar: Sequence[str]
    slow_s: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)

    def __call__(self, pcm: bytes) -> str:
        """What is heard in PCM16 samples at 16 kHz."""
        time.sleep(self.slow_s)
        with _ONE_AT_A_TIME:
            self.counts[hashlib.sha256(pcm).hexdigest()] += 1
            [text] = _sphinx(tuple(self.grammar)).predict([of_pcm16(np.frombuffer(pcm, "<i2"), 16_000).samples], 16_000)
        return text

    @property
    def distinct(self) -> int:
        """How many different clips were heard."""
        return len(self.counts)

    @property
    def repeated(self) -> int:
        """How many times a clip was heard again."""
        return self.counts.total() - len(self.counts)


@dataclass(frozen=True)
class Served:
    """A running service. `card`: the ready card with its address; `environment`: the secrets that the card refers to."""

    card: dict[str, Any]
    environment: dict[str, str]
    recogniser: Recogniser
    vendor: Vendor

    def write(self, folder: Path, name: str = "model.yaml") -> Path:
        """The card as a file."""
        (folder / name).write_text(yaml.safe_dump(self.card, sort_keys=False))
        return folder / name


@contextmanager
def serve(kind: str, *, grammar: Sequence[str] = SENTENCES, busy: int = 0, slow_s: float = 0.0) -> Iterator[Served]:
    """A service of one of `KINDS` on loopback. `busy`: how many of its first calls get a 503 with Retry-After."""
    name, service = SHAPES[kind]
    text = (CARDS / f"{name}.yaml").read_text()
    card = yaml.safe_load(text) | {"revision": "1"}
    vendor, recogniser = service(), Recogniser(grammar, slow_s)
    vendor.hear = recogniser
    vendor.faults = [BUSY] * busy
    endpoint = card["endpoint"]
    for step in endpoint.get("steps", ()):
        step |= {"every_s": 0.02} if "until" in step else {}
    called = [one for one in (endpoint, *endpoint.get("steps", ())) if "://" in one["url"]]
    hosts = {urlsplit(one["url"]).netloc for one in called} | {getattr(vendor, "results", "")} - {""}
    secrets = [*references(text), *(["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"] if kind == "aws" else [])]
    with ExitStack() as stack:
        if isinstance(vendor, vendor_speech.Vosk):
            addresses = dict.fromkeys(hosts, stack.enter_context(vendor.serving()))
        else:
            addresses = stack.enter_context(serving(vendor, hosts))
        for one in called:
            scheme, host = urlsplit(one["url"])[:2]
            one["url"] = one["url"].replace(f"{scheme}://{host}", f"{scheme.replace('https', 'http')}://{addresses[host]}", 1)
        yield Served(card, {reference: secret_of(reference) for reference in secrets}, recogniser, vendor)


@contextmanager
def as_environment(values: dict[str, str]) -> Iterator[None]:
    """These environment variables, for as long as they are needed here."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@cache
def _sphinx(grammar: tuple[str, ...]) -> PocketSphinx:
    return PocketSphinx(grammar)
