"""Services that recognise speech. Without other ears (`hear`) they know tones: "tone 440 for 3 tenths"."""

from __future__ import annotations

import base64
import io
import json
import re
import threading
import wave
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
from vendor_server import Part, Reply, Request, Vendor, authorized, bearer, expect, secret_of, signed

RATE = 16_000  # Hz
LOADING = Reply(503, {"error": "Model openai/whisper-large-v3 is currently loading", "estimated_time": 20.0})


def tone(pcm: bytes) -> str:
    """What there is to hear in PCM16 samples: the frequency of the tone in Hz and its length in tenths of a second."""
    samples = np.frombuffer(pcm, "<i2").astype(float)
    if np.abs(samples).max() < 100:
        return ""
    frequency = np.abs(np.fft.rfft(samples))[1:].argmax() + 1
    return f"tone {round(frequency * RATE / len(samples))} for {round(len(samples) / RATE * 10)} tenths"


def samples_in(content: bytes) -> bytes:
    """The PCM16 samples of a WAV file."""
    expect(content[:4] == b"RIFF", "expected a WAV file")
    with wave.open(io.BytesIO(content)) as clip:
        expect((clip.getnchannels(), clip.getsampwidth()) == (1, 2), "expected mono PCM16")
        expect(clip.getframerate() == RATE and clip.getnframes(), "expected samples at 16 kHz")
        return clip.readframes(clip.getnframes())


def halves(text: str) -> list[str]:
    """A text in two, as services give it that hear a pause in it."""
    words = text.split()
    parts = words[: len(words) // 2], words[len(words) // 2 :]
    return [" ".join(part) for part in parts if part]


class Listener(Vendor):
    """A service with ears. `hear`: from PCM16 samples at 16 kHz to a text."""

    hear: Callable[[bytes], str] = staticmethod(tone)

    def heard(self, content: bytes) -> str:
        """What there is to hear in a WAV file."""
        return self.hear(samples_in(content))


class SpeechVendor(Listener):
    """What the services with one call have in common."""

    path: ClassVar[str] = ""
    query: ClassVar[dict[str, str]] = {}

    def answer(self, request: Request) -> Any:
        expect((request.method, request.path) == ("POST", self.path), "no such method and path")
        self.check_credentials(request)
        expect(request.query == self.query, "other parameters")
        text = self.transcript(request)
        self.refuse_bad([text])
        return self.answers(text)

    def check_credentials(self, request: Request) -> None:
        """None are needed."""

    def transcript(self, request: Request) -> str:
        expect(request.type == "audio/wav", "expected audio/wav")
        return self.heard(request.body)

    def answers(self, text: str) -> Any:
        return {"text": text}


def file_part(parts: dict[str, Part], name: str) -> bytes:
    """The content of the WAV file in a multipart body; these services tell the format from its name."""
    file = parts.pop(name)
    expect((file.filename, file.type) == ("clip.wav", "audio/wav"), "expected clip.wav of type audio/wav")
    return file.content


def fields(parts: dict[str, Part]) -> dict[str, str]:
    expect(all(part.filename is None for part in parts.values()), "expected fields, not files")
    return {name: part.content.decode() for name, part in parts.items()}


class HfSpeech(SpeechVendor):
    path = "/hf-inference/models/openai/whisper-large-v3"
    refusal = Reply(400, {"error": "Malformed soundfile"})

    def check_credentials(self, request):
        bearer(request, "HF_TOKEN")


class OpenAi(SpeechVendor):
    path = "/v1/audio/transcriptions"
    refusal = Reply(400, {"error": {"message": "Audio file is too short.", "code": "audio_too_short"}})

    def check_credentials(self, request):
        bearer(request, "OPENAI_API_KEY")

    def transcript(self, request):
        parts = request.parts()
        content = file_part(parts, "file")
        wanted = {"model": "whisper-1", "response_format": "json", "language": "en", "temperature": "0"}
        expect(fields(parts) == wanted, "other fields")
        return self.heard(content)


class WhisperCpp(SpeechVendor):
    path = "/inference"

    def transcript(self, request):
        parts = request.parts()
        content = file_part(parts, "file")
        expect(fields(parts) == {"response_format": "json", "temperature": "0.0"}, "other fields")
        return self.heard(content)

    def answers(self, text):
        return {"text": f" {text or '[BLANK_AUDIO]'}\n"}


class Deepgram(SpeechVendor):
    path = "/v1/listen"
    query: ClassVar = {"model": "nova-3", "language": "en-US"}
    refusal = Reply(400, {"err_code": "Bad Request", "err_msg": "failed to process audio: corrupt or unsupported data"})

    def check_credentials(self, request):
        authorized(request.headers.get("Authorization") == f"Token {secret_of('DEEPGRAM_API_KEY')}")

    def answers(self, text):
        return {"results": {"channels": [{"alternatives": [{"transcript": text, "confidence": 0.9, "words": []}]}]}}


class GoogleSpeech(SpeechVendor):
    path = "/v1/speech:recognize"
    refusal = Reply(400, {"error": {"code": 400, "message": "Sync input too long.", "status": "INVALID_ARGUMENT"}})

    def check_credentials(self, request):
        authorized(request.headers.get("X-Goog-Api-Key") == secret_of("GOOGLE_API_KEY"), 403)

    def transcript(self, request):
        data = request.json()
        wanted = {"encoding": "LINEAR16", "sampleRateHertz": RATE, "languageCode": "en-US"}
        expect(data["config"] == wanted, "other config")
        return self.heard(base64.b64decode(data["audio"]["content"], validate=True))

    def answers(self, text):
        if not text:
            return {"totalBilledTime": "1s", "requestId": "1"}
        parts = [part if n == 0 else f" {part}" for n, part in enumerate(halves(text))]
        results = [{"alternatives": [{"transcript": part, "confidence": 0.9}]} for part in parts]
        return {"results": results, "totalBilledTime": "1s"}


class AzureSpeech(SpeechVendor):
    path = "/speech/recognition/conversation/cognitiveservices/v1"
    query: ClassVar = {"language": "en-US", "format": "detailed"}
    refusal = Reply(200, {"RecognitionStatus": "Error", "Offset": 0, "Duration": 0})

    def check_credentials(self, request):
        authorized(request.headers.get("Ocp-Apim-Subscription-Key") == secret_of("AZURE_SPEECH_KEY"))

    def transcript(self, request):
        expect(request.type == "audio/wav; codecs=audio/pcm; samplerate=16000", "another type")
        return self.heard(request.body)

    def answers(self, text):
        if not text:
            return {"RecognitionStatus": "NoMatch", "Offset": 0, "Duration": 0}
        best = {"Confidence": 0.9, "Lexical": text, "Display": f"{text.capitalize()}."}
        return {"RecognitionStatus": "Success", "DisplayText": best["Display"], "NBest": [best, {"Lexical": "town"}]}


class AzureSpeechFast(SpeechVendor):
    path = "/speechtotext/transcriptions:transcribe"
    query: ClassVar = {"api-version": "2024-11-15"}
    refusal = Reply(422, {"error": {"code": "UnprocessableEntity", "message": "Audio file is corrupted."}})

    def check_credentials(self, request):
        authorized(request.headers.get("Ocp-Apim-Subscription-Key") == secret_of("AZURE_SPEECH_KEY"))

    def transcript(self, request):
        parts = request.parts()
        content = file_part(parts, "audio")
        expect(json.loads(fields(parts)["definition"]) == {"locales": ["en-US"]}, "another definition")
        return self.heard(content)

    def answers(self, text):
        return {"durationMilliseconds": 100, "combinedPhrases": [{"text": text}] if text else []}


class WatsonSpeech(SpeechVendor):
    path = "/instances/my-instance/v1/recognize"
    query: ClassVar = {"model": "en-US_Multimedia"}
    refusal = Reply(400, {"error": "unable to transcode data stream audio/wav -> audio/l16", "code": 400})

    def check_credentials(self, request):
        authorized(request.headers.get("Authorization") == basic("apikey", secret_of("WATSON_SPEECH_KEY")))

    def answers(self, text):
        finals = [{"final": True, "alternatives": [{"transcript": f"{part} ", "confidence": 0.9}]} for part in halves(text)]
        interim = [{"final": False, "alternatives": [{"transcript": "to "}]}] if finals else []
        return {"result_index": 0, "results": interim + finals}


class AssemblyAi(Listener):
    """Upload, create, poll. A transcript is ready when it is asked for the second time."""

    def __init__(self) -> None:
        super().__init__()
        self.uploads: dict[str, bytes] = {}
        self.jobs: dict[str, str] = {}  # id -> text
        self.polls: dict[str, int] = {}

    def answer(self, request):
        authorized(request.headers.get("Authorization") == secret_of("ASSEMBLYAI_API_KEY"))
        with self.lock:
            if (request.method, request.path) == ("POST", "/v2/upload"):
                expect(request.type == "application/octet-stream", "expected the bytes of a file")
                url = f"https://cdn.example/upload/{len(self.uploads)}"
                self.uploads[url] = request.body
                return {"upload_url": url}
            if (request.method, request.path) == ("POST", "/v2/transcript"):
                data = request.json()
                expect(set(data) == {"audio_url", "language_code"} and data["language_code"] == "en_us", "other keys")
                identifier = f"job-{len(self.jobs)}"
                self.jobs[identifier] = self.heard(self.uploads[data["audio_url"]])
                return {"id": identifier, "status": "queued", "text": None}
            expect(request.method == "GET" and request.path.startswith("/v2/transcript/"), "no such method and path")
            return self._polled(request.path.removeprefix("/v2/transcript/"))

    def _polled(self, identifier):
        text = self.jobs[identifier]
        self.polls[identifier] = self.polls.get(identifier, 0) + 1
        if self.polls[identifier] == 1:
            return {"id": identifier, "status": "processing", "text": None}
        if self.bad(text):
            return {"id": identifier, "status": "error", "text": None, "error": "Transcoding failed."}
        return {"id": identifier, "status": "completed", "text": text or None}


class Transcribe(Listener):
    """A bucket, jobs, and presigned addresses of transcripts, at a host of their own that takes no credentials."""

    results = "s3.eu-west-1.amazonaws.com"

    def __init__(self) -> None:
        super().__init__()
        self.objects: dict[str, bytes] = {}
        self.jobs: dict[str, str] = {}  # name -> text
        self.polls: dict[str, int] = {}

    def answer(self, request):
        if request.host == self.results:
            expect(request.method == "GET" and request.query == {"X-Amz-Signature": "0f"}, "another address")
            expect(not request.headers.get("Authorization"), "Only one auth mechanism allowed")
            return {"results": {"transcripts": [{"transcript": self.jobs[request.path[1:]]}], "items": []}}
        with self.lock:
            return self._put(request) if request.host.startswith("my-bucket.s3.") else self._called(request)

    def _put(self, request):
        signed(request, "s3")
        expect(request.headers.get("X-Amz-Content-SHA256"), "no digest of the content")
        expect((request.method, request.type) == ("PUT", "audio/wav"), "another method or type")
        self.objects[f"s3://my-bucket{request.path}"] = request.body
        return Reply(200, b"", {"ETag": '"0"', "Content-Type": ""})

    def _called(self, request):
        signed(request, "transcribe")
        expect((request.method, request.path) == ("POST", "/"), "no such method and path")
        expect(request.type == "application/x-amz-json-1.1", "another type")
        data = request.json()
        name = data["TranscriptionJobName"]
        if request.headers["X-Amz-Target"] == "Transcribe.GetTranscriptionJob":
            return {"TranscriptionJob": self._job(name)}
        expect(request.headers["X-Amz-Target"] == "Transcribe.StartTranscriptionJob", "no such target")
        keys = {"TranscriptionJobName", "LanguageCode", "MediaFormat", "MediaSampleRateHertz", "Media"}
        expect(set(data) == keys, "other keys")
        expect((data["LanguageCode"], data["MediaFormat"], data["MediaSampleRateHertz"]) == ("en-US", "wav", RATE), "format")
        expect(re.fullmatch(r"[0-9a-zA-Z._-]{1,200}", name), "an invalid name")
        expect(name not in self.jobs, "ConflictException")
        self.jobs[name] = self.heard(self.objects[data["Media"]["MediaFileUri"]])
        return {"TranscriptionJob": {"TranscriptionJobName": name, "TranscriptionJobStatus": "IN_PROGRESS"}}

    def _job(self, name):
        self.polls[name] = self.polls.get(name, 0) + 1
        if self.polls[name] == 1:
            return {"TranscriptionJobName": name, "TranscriptionJobStatus": "IN_PROGRESS"}
        if self.bad(self.jobs[name]):
            failure = {"TranscriptionJobStatus": "FAILED", "FailureReason": "Unsupported audio format."}
            return {"TranscriptionJobName": name, **failure}
        uri = f"http://{self.addresses[self.results]}/{name}?X-Amz-Signature=0f"
        done = {"TranscriptionJobStatus": "COMPLETED", "Transcript": {"TranscriptFileUri": uri}}
        return {"TranscriptionJobName": name, **done}


class Vosk(Listener):
    """A WebSocket server: config, samples, end of file; partial and final messages, then the end of the connection."""

    @contextmanager
    def serving(self) -> Iterator[str]:
        """A running server; yields its address."""
        from websockets.sync.server import serve

        with serve(self._session, "127.0.0.1", 0, process_request=self._busy) as server:
            thread = threading.Thread(target=server.serve_forever, daemon=True)
            thread.start()
            yield f"127.0.0.1:{server.socket.getsockname()[1]}"
            server.shutdown()
            thread.join()

    def _session(self, socket: Any) -> None:
        config = json.loads(socket.recv())
        if config != {"config": {"sample_rate": RATE}}:
            return
        pcm = b""
        for message in socket:
            if isinstance(message, bytes):
                pcm += message
                socket.send(json.dumps({"partial": "ton"}))
            elif json.loads(message) == {"eof": 1}:
                break
        else:
            return
        text = self.hear(pcm)
        if self.bad(text):
            return
        for part in halves(text):
            socket.send(json.dumps({"result": [], "text": part}))
        socket.send(json.dumps({"text": ""}))

    def _busy(self, connection: Any, request: Any) -> Any:
        """The next of the faults instead of a connection."""
        with self.lock:
            fault = self.faults.pop(0) if self.faults else None
        if fault is None:
            return None
        refusal = connection.respond(fault.status, json.dumps(fault.data))
        for name, value in fault.headers.items():
            refusal.headers[name] = value
        return refusal


def basic(name: str, password: str) -> str:
    """The value of an Authorization header."""
    return f"Basic {base64.b64encode(f'{name}:{password}'.encode()).decode()}"
