"""Services that classify texts and conversations."""

from __future__ import annotations

from typing import Any, ClassVar

from vendor_server import Refusal, Reply, Request, Vendor, authorized, bearer, expect, secret_of, signed
from vendor_speech import basic

LOADING = Reply(503, {"error": "Model is currently loading", "estimated_time": 20.0})


def intent(text: str) -> str | None:
    """The model of these tests."""
    return "book_flight" if "fly" in text else "cancel" if "cancel" in text else None


class HfText(Vendor):
    """A list of one text is answered by its scores, without a list around them, as some versions do; others are `nested`."""

    nested = False
    refusal = Reply(400, {"error": "The size of tensor a must match the size of tensor b"})

    def answer(self, request: Request) -> Any:
        path = "/hf-inference/models/distilbert/distilbert-base-uncased-finetuned-sst-2-english"
        expect((request.method, request.path) == ("POST", path), "no such method and path")
        bearer(request, "HF_TOKEN")
        data = request.json()
        expect(set(data) == {"inputs", "parameters"} and data["parameters"] == {"top_k": None}, "other parameters")
        self.refuse_bad(data["inputs"])
        answers = [scores("POSITIVE" if "good" in text else "NEGATIVE", "NEGATIVE", "POSITIVE") for text in data["inputs"]]
        return answers[0] if len(answers) == 1 and not self.nested else answers


def scores(label: str, *classes: str) -> list[dict[str, Any]]:
    return [{"label": name, "score": 0.75 if name == label else 0.25} for name in classes]


class TextVendor(Vendor):
    """What the assistants have in common."""

    def answer(self, request: Request) -> Any:
        text = self.text(request)
        self.refuse_bad([text])
        return self.answers(intent(text), text)

    def text(self, request: Request) -> str:
        raise NotImplementedError

    def answers(self, found: str | None, text: str) -> Any:
        raise NotImplementedError

    def session(self, request: Request, start: str, end: str) -> None:
        """Refuses another path; a session serves one conversation only."""
        expect(request.method == "POST" and request.path.startswith(start) and request.path.endswith(end), "no such path")
        name = request.path.removeprefix(start).removesuffix(end)
        expect(name.isalnum() and 2 <= len(name) <= 36, "an invalid session id")
        with self.lock:
            self.sessions.append(name)

    def __init__(self) -> None:
        super().__init__()
        self.sessions: list[str] = []


class WatsonAssistant(TextVendor):
    base: ClassVar[str] = "/instances/my-instance/v2/assistants/my-assistant/sessions"
    refusal = Reply(400, {"error": "input.text cannot be longer than 2048 characters", "code": 400})

    def __init__(self) -> None:
        super().__init__()
        self.open: set[str] = set()

    def answer(self, request):
        authorized(request.headers.get("Authorization") == basic("apikey", secret_of("WATSON_ASSISTANT_KEY")))
        expect(request.query == {"version": "2021-11-27"}, "no version")
        if (request.method, request.path) == ("POST", self.base):
            with self.lock:
                self.sessions.append(f"s{len(self.sessions)}")
                self.open.add(self.sessions[-1])
                return Reply(201, {"session_id": self.sessions[-1]})
        return super().answer(request)

    def text(self, request):
        name = request.path.removeprefix(f"{self.base}/").removesuffix("/message")
        with self.lock:
            if name not in self.open:
                raise Refusal(Reply(404, {"error": "Invalid Session", "code": 404}))
            self.open.remove(name)
        data = request.json()["input"]
        expect(data["message_type"] == "text", "another type of message")
        return data["text"]

    def answers(self, found, text):
        intents = [{"intent": found, "confidence": 0.9}, {"intent": "other", "confidence": 0.1}] if found else []
        return {"output": {"intents": intents, "entities": [], "generic": []}}


class Rasa(TextVendor):
    refusal = Reply(500, {"status": "failure", "reason": "ParsingError", "code": 500})

    def text(self, request):
        expect((request.method, request.path) == ("POST", "/model/parse"), "no such method and path")
        authorized(request.query == {"token": secret_of("RASA_TOKEN")})
        data = request.json()
        expect(set(data) == {"text"}, "other keys")
        return data["text"]

    def answers(self, found, text):
        name = found or "nlu_fallback"
        return {"text": text, "intent": {"name": name, "confidence": 0.9}, "entities": [], "intent_ranking": []}


class DialogflowEs(TextVendor):
    refusal = Reply(400, {"error": {"code": 400, "message": "Input text not set.", "status": "INVALID_ARGUMENT"}})

    def text(self, request):
        bearer(request, "GOOGLE_TOKEN")
        self.session(request, "/v2/projects/my-project/agent/sessions/", ":detectIntent")
        query = request.json()["queryInput"]
        expect(set(query) == {"text"} and query["text"]["languageCode"] == "en", "another query")
        return query["text"]["text"]

    def answers(self, found, text):
        named = {"displayName": found or "Default Fallback Intent", **({} if found else {"isFallback": True})}
        matched = {} if "?" in text else {"intent": named, "intentDetectionConfidence": 0.9}
        return {"responseId": "1", "queryResult": {"queryText": text, **matched}}


class DialogflowCx(TextVendor):
    refusal = Reply(
        400, {"error": {"code": 400, "message": "Input text exceeds 256 characters.", "status": "INVALID_ARGUMENT"}}
    )

    def text(self, request):
        bearer(request, "GOOGLE_TOKEN")
        base = "/v3/projects/my-project/locations/europe-west1/agents/my-agent/sessions/"
        self.session(request, base, ":detectIntent")
        query = request.json()["queryInput"]
        expect(query["languageCode"] == "en", "another query")
        return query["text"]["text"]

    def answers(self, found, text):
        match = {"matchType": "INTENT", "intent": {"displayName": found}} if found else {"matchType": "NO_MATCH"}
        return {"queryResult": {"text": text, "match": {**match, "confidence": 0.9}}}


class LexV2(TextVendor):
    refusal = Reply(400, {"message": "Text must have length less than or equal to 1024"})

    def text(self, request):
        signed(request, "lex")
        self.session(request, "/bots/MYBOTID/botAliases/MYALIASID/botLocales/en_US/sessions/", "/text")
        return request.json()["text"]

    def answers(self, found, text):
        fallback = {"intent": {"name": "FallbackIntent", "state": "ReadyForFulfillment"}}
        known = [{"intent": {"name": found}, "nluConfidence": {"score": 0.9}}] if found else []
        return {"sessionId": self.sessions[-1], "interpretations": [] if "?" in text else [*known, fallback]}
