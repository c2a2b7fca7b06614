"""A service behind HTTP as an engine of voices, called as a card's endpoint is: templates, secrets, TLS, retries."""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import jmespath
import numpy as np
from jmespath.exceptions import JMESPathError
from numpy.typing import NDArray

from aitest_lib.config.endpoint import Endpoint, Step
from aitest_lib.data.audio_decoding import decode_audio
from aitest_lib.errors import ModelAnswerError, ModelUnavailable, UnavailableError
from aitest_lib.models.base import StopSwitch, Usage, excerpt
from aitest_lib.voices.base import CannotSay

if TYPE_CHECKING:
    from aitest_lib.models.endpoint.calls import CallMaker
    from aitest_lib.models.endpoint.transport import Transport
    from aitest_lib.models.endpoint.wire import Answer, Call


@dataclass(frozen=True, eq=False)
class Service:
    """`endpoint`: how the service is reached; `call`: what is asked, with `text` and `voice` as template variables.

    `audio`: where in a JSON answer (JMESPath) the audio stands as base64; None: the answer is the audio itself.
    """

    name: ClassVar[str] = "http"

    endpoint: Endpoint
    call: Step
    audio: str | None
    folder: Path
    shown: dict[str, Any] = field(default_factory=dict)  # as the suite has it, references unresolved

    def check(self, voice: str) -> None:
        """What a service lacks shows when it speaks."""

    def say(self, voice: str, text: str) -> tuple[NDArray[np.float32], int]:
        """The audio of the answer. `UnavailableError` where there is none after all retries."""
        try:
            answer = self._transport.send(lambda: self._made(voice, text))
        except ModelUnavailable as error:
            # It speaks of a model and of its card, but this is neither.
            problem = str(error).replace("the model", "its service").replace("`endpoint.", "`http.")
            raise UnavailableError(f"the voice {voice} (http) cannot be used: {problem}") from error
        except ModelAnswerError as error:
            raise CannotSay(f"got no audio from its service: {error}") from error
        if not 200 <= answer.status < 300:
            raise CannotSay(f"got HTTP {answer.status} from its service: {excerpt(answer.text)}")
        samples, rate, _ = decode_audio(self._content(answer))
        return samples, rate

    def identity(self) -> dict[str, Any]:
        """What the suite says of the service."""
        return {"http": self.shown}

    @cached_property
    def _transport(self) -> Transport:
        from aitest_lib.models.endpoint.transport import Transport  # a fifth of a second for httpx, which few suites need

        return Transport(self.endpoint, self.folder, Usage(), StopSwitch())

    @cached_property
    def _maker(self) -> CallMaker:
        from aitest_lib.models.endpoint.calls import CallMaker, Hosts

        return CallMaker(self.call, self.endpoint, Hosts(self.endpoint))

    def _made(self, voice: str, text: str) -> Call:
        return self._maker.make({"text": text, "voice": voice}, _no_file, 0)

    def _content(self, answer: Answer) -> bytes:
        if self.audio is None:
            return answer.content
        try:
            found = jmespath.search(self.audio, json.loads(answer.text))
            if isinstance(found, str):
                return base64.b64decode(found, validate=True)
        except (ValueError, RecursionError, JMESPathError, binascii.Error):
            pass
        raise CannotSay(f"got an answer without audio in base64 at {self.audio!r}: {excerpt(answer.text)}")


def _no_file() -> tuple[bytes, str]:
    raise ModelAnswerError("a voice's request holds no file")
