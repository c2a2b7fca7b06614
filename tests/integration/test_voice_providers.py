"""Voices of the user's own: a command, a service, a function, each with a real synthesizer behind it."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from aitest_lib.config.loading import Document, StrictModel, validate
from aitest_lib.config.voices import VoiceConfig, voices_of
from aitest_lib.errors import InputError, UnavailableError
from aitest_lib.pcm import clip_digest
from aitest_lib.voices.base import CannotSay, Voice
from aitest_lib.voices.programs import EspeakNg, Flite
from aitest_lib.voices.speaking import check_voice, speak

pytestmark = pytest.mark.skipif(not shutil.which("flite") or not shutil.which("espeak-ng"), reason="needs flite and espeak-ng")
TEXT = 'she said "no" -- at $5 & left'
FUNCTIONS = """
import io, os, subprocess, tempfile
import numpy as np
import soundfile

def speak(text, voice):
    print("noise on stdout")
    with tempfile.TemporaryDirectory() as folder:
        open(f"{folder}/in.txt", "w").write(text)
        subprocess.run(["flite", "-voice", voice, "-f", f"{folder}/in.txt", "-o", f"{folder}/out.wav"], check=True)
        return soundfile.read(f"{folder}/out.wav", dtype="int16")

def loud(text, voice):
    samples, rate = speak(text, voice)
    return samples.astype(float) / 32768 * 40, rate

def stereo(text, voice):
    samples, rate = speak(text, voice)
    return np.stack([samples, samples], axis=1), rate

def alone(text, voice):
    return speak(text, voice)[0]

def unrated(text, voice):
    return speak(text, voice)[0], "16 kHz"

def texts(text, voice):
    return ["a"], 16000

def picky(text, voice):
    if "no" in text:
        raise ValueError("cannot say no")
    return speak(text, voice)

def dying(text, voice):
    if "die" in text:
        os.abort()
    return speak(text, voice)
"""


class Suite(StrictModel):
    voices: tuple[VoiceConfig, ...]


def voice(folder: Path = Path(), /, **entry: Any) -> Voice:
    document = Document({"voices": [{"voice": "slt"} | entry]}, "suite.yaml")
    [found] = voices_of(validate(document, Suite).voices, document, ("voices",), folder)
    return found


def by_flite(text: str = TEXT, name: str = "slt") -> str:
    return clip_digest(speak(Voice(name, Flite()), text, 16_000))


# A command


@pytest.mark.parametrize(
    "command",
    [
        ["flite", "-voice", "{voice}", "-t", "{text}", "-o", "{out}"],
        ["flite", "-voice", "slt", "-f", "/dev/stdin", "-o", "{out}"],
    ],
)
def test_a_command_speaks_like_what_it_calls(command: list[str]) -> None:
    own = voice(command=command)
    check_voice(own)
    assert clip_digest(speak(own, TEXT, 16_000)) == by_flite()
    assert own.identity()["command"] == command


def test_a_script_beside_the_suite(tmp_path: Path) -> None:
    script = tmp_path / "say.sh"
    script.write_text('#!/bin/sh\nexec flite -voice "$1" -t "$3" -o "$2"\n')
    script.chmod(0o755)
    assert clip_digest(speak(voice(tmp_path, command=["./say.sh", "{voice}", "{out}", "{text}"]), TEXT, 16_000)) == by_flite()


def test_a_text_cannot_become_an_option_or_run_anything(tmp_path: Path) -> None:
    own = voice(tmp_path, command=["flite", "-voice", "slt", "-t", "{text}", "-o", "{out}"])
    text = f"-lv $(touch {tmp_path}/a) `touch {tmp_path}/b` {{out}}"
    assert len(speak(own, text).samples) > 16_000
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        (["sh", "-c", "echo bad voice >&2; exit 3", "{out}"], r"the voice slt \(command\) exited with status 3: bad voice"),
        (["true", "{out}"], "wrote no file"),
        (["touch", "{out}"], "wrote an empty file"),
        (["sh", "-c", "echo hello > $0", "{out}"], "gave audio that cannot be used: its content is no audio"),
        (["mkdir", "{out}"], "wrote what cannot be read"),
    ],
)
def test_a_command_that_fails(command: list[str], problem: str) -> None:
    with pytest.raises(CannotSay, match=problem):
        speak(voice(command=command), "hello")
    with pytest.raises(InputError, match=problem + r".*correct the voice"):
        check_voice(voice(command=command))


def test_a_command_that_is_not_there() -> None:
    with pytest.raises(InputError, match=r"the program no-such-tts cannot be started.*No such file"):
        speak(voice(command=["no-such-tts", "{out}"]), "hello")


def test_a_command_that_hangs_is_ended_with_what_it_started(tmp_path: Path) -> None:
    from dataclasses import replace

    from aitest_lib.voices.command import Command

    own = voice(tmp_path, command=["sh", "-c", f"echo $$ > {tmp_path}/pid; sleep 600", "{out}"])
    assert isinstance(own.engine, Command)
    with pytest.raises(CannotSay, match=r"gave no audio within 0\.5 s"):
        speak(Voice("slt", replace(own.engine, limit_s=0.5)), "hello")
    group = int((tmp_path / "pid").read_text())
    deadline = time.monotonic() + 10
    while alive(group) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not alive(group)


def alive(group: int) -> list[str]:
    """The processes of a group that have not ended."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            name, _, rest = entry.read_text().rpartition(") ")
            state, _, its_group = rest.split()[:3]
            found += [name] if int(its_group) == group and state not in "ZX" else []
    return found


def test_a_secret_of_a_command_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TTS_KEY", "s3cret-value")
    own = voice(command=["sh", "-c", "echo $0 >&2; exit 1", "${TTS_KEY}", "{out}"])
    with pytest.raises(CannotSay) as caught:
        speak(own, "hello ${TTS_KEY}")
    assert "s3cret-value" not in f"{caught.value} {own.identity()}" and "***" in str(caught.value)


# A service


class Synthesizer(BaseHTTPRequestHandler):
    """espeak-ng behind HTTP: POST /wav and GET answer audio, POST /json an object with base64."""

    busy = 0
    requests: list[tuple[str, str]] = []  # noqa: RUF012 - emptied for each test

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self._answer(asked["text"], asked["voice"])

    def do_GET(self) -> None:
        from urllib.parse import parse_qs, urlsplit

        asked = parse_qs(urlsplit(self.path).query)
        self._answer(asked["text"][0], asked["voice"][0])

    def _answer(self, text: str, name: str) -> None:
        type(self).requests.append((text, self.headers.get("Authorization", "")))
        if type(self).busy:
            type(self).busy -= 1
            self._send(503, b"busy")
        elif "bad" in text:
            self._send(400, b"no such word")
        else:
            audio = speak(Voice(name, EspeakNg()), text)
            content = wav(audio)
            in_json = json.dumps({"audio": {"content": base64.b64encode(content).decode()}}).encode()
            self._send(200, in_json if self.path == "/json" else b"<html>" if self.path == "/html" else content)

    def _send(self, status: int, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Retry-After", "0")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        return


def wav(clip: Any) -> bytes:
    from aitest_lib.models.endpoint.payloads import wav_bytes

    return wav_bytes(clip)


@pytest.fixture
def service() -> Iterator[str]:
    Synthesizer.busy, Synthesizer.requests = 0, []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Synthesizer)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


REQUEST = '{"text": {{ text|tojson }}, "voice": {{ voice|tojson }}}'


@pytest.mark.parametrize(
    ("path", "more"),
    [
        ("/wav", {"request": REQUEST}),
        ("/json", {"request": REQUEST, "audio": "audio.content"}),
        ("/say?text={{ text|urlencode }}&voice={{ voice|urlencode }}", {}),
    ],
)
def test_a_service_speaks_like_what_it_calls(service: str, path: str, more: dict[str, Any]) -> None:
    own = voice(voice="en-us+f3", http={"url": service + path, **more})
    check_voice(own)
    expected = speak(Voice("en-us+f3", EspeakNg()), TEXT, 16_000)
    assert clip_digest(speak(own, TEXT, 16_000)) == clip_digest(expected)
    assert Synthesizer.requests[-1][0] == TEXT


def test_a_busy_service_is_asked_again_with_its_credentials(service: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TTS_TOKEN", "s3cret-token")
    Synthesizer.busy = 2
    auth = {"type": "bearer", "token": "${TTS_TOKEN}"}
    own = voice(voice="en-us", http={"url": f"{service}/wav", "auth": auth, "request": REQUEST})
    assert len(speak(own, "hello").samples)
    assert [token for _, token in Synthesizer.requests] == ["Bearer s3cret-token"] * 3
    assert "s3cret" not in json.dumps(own.identity())


@pytest.mark.parametrize(
    ("path", "more", "text", "problem"),
    [
        ("/wav", {}, "a bad word", r"the voice en-us \(http\) got HTTP 400 from its service: no such word"),
        ("/html", {}, "hello", "gave audio that cannot be used: its content is no audio"),
        ("/json", {"audio": "content"}, "hello", "got an answer without audio in base64 at 'content'"),
        ("/wav", {"audio": "content"}, "hello", "got an answer without audio in base64"),
    ],
)
def test_a_service_that_gives_no_audio(service: str, path: str, more: dict[str, Any], text: str, problem: str) -> None:
    with pytest.raises(CannotSay, match=problem):
        speak(voice(voice="en-us", http={"url": service + path, "request": REQUEST, **more}), text)


def test_a_service_that_is_not_there() -> None:
    own = voice(http={"url": "http://127.0.0.1:9/", "request": REQUEST, "retries": 0})
    with pytest.raises(
        UnavailableError, match=r"the voice slt \(http\) cannot be used: its service cannot be reached.*`http\.url`"
    ):
        check_voice(own)


# A function


@pytest.fixture
def functions(tmp_path: Path) -> Path:
    (tmp_path / "own_voices.py").write_text(FUNCTIONS)
    return tmp_path


@pytest.mark.parametrize("name", ["speak", "stereo"])
def test_a_function_speaks_like_what_it_calls(functions: Path, name: str) -> None:
    own = voice(functions, callable=f"own_voices:{name}")
    check_voice(own)
    assert clip_digest(speak(own, TEXT, 16_000)) == by_flite()


def test_what_is_too_loud_is_scaled_and_not_clipped(functions: Path) -> None:
    clip = speak(voice(functions, callable="own_voices:loud"), "hello")
    full = abs(clip.samples) >= 32_766 / 32_768
    assert 1 <= full.sum() < 5


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("alone", r"raised TypeError: got ndarray, expected \(samples, sample rate\)"),
        ("unrated", "gave str as sample rate, expected a whole number|its sample rate is"),
        ("texts", "raised TypeError: got samples of"),
        ("picky", r"the voice slt \(callable\) raised ValueError: cannot say no"),
    ],
)
def test_a_function_that_gives_no_audio(functions: Path, name: str, problem: str) -> None:
    with pytest.raises(CannotSay, match=problem):
        speak(voice(functions, callable=f"own_voices:{name}"), "no")


def test_a_function_that_dies_is_started_again(functions: Path) -> None:
    own = voice(functions, callable="own_voices:dying")
    with pytest.raises(CannotSay, match=r"lost its process: the voice's process died \(SIGABRT\)"):
        speak(own, "die")
    assert len(speak(own, "hello").samples)


@pytest.mark.parametrize(
    ("name", "problem"), [("speaks", "has no 'speaks'; did you mean speak"), ("os.sep", "expected a callable")]
)
def test_a_function_that_is_not_there(functions: Path, name: str, problem: str) -> None:
    with pytest.raises(InputError, match=rf"the voice own_voices:{name} cannot be loaded: .*{problem}"):
        check_voice(voice(functions, callable=f"own_voices:{name}"))


def test_its_code_is_part_of_what_a_function_is(functions: Path) -> None:
    before = voice(functions, callable="own_voices:speak").identity()
    (functions / "own_voices.py").write_text(FUNCTIONS + "\nVERSION = 2\n")
    assert voice(functions, callable="own_voices:speak").identity() != before


def test_the_process_ends_with_the_voice(functions: Path) -> None:
    from aitest_lib.voices.function import Function

    own = voice(functions, callable="own_voices:speak")
    assert isinstance(own.engine, Function)
    check_voice(own)
    process: subprocess.Popen[bytes] = own.engine._process._process
    own.engine.close()
    assert process.poll() is not None
    assert len(speak(own, "hello").samples)
