"""The receiver of MLflow's webhooks: a small server that turns "there is a new model version" into an event of Prefect's.

    AITEST_WEBHOOK_SECRET=... PREFECT_API_URL=http://127.0.0.1:4200/api python -m aitest_flows.receiver --port 8090

A delivery is believed if it is signed with the secret, young, and new. It is answered 202 once Prefect has taken the event,
and 503 before that, so that MLflow sends it again. Bodies and signatures are never logged.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import binascii
import hashlib
import hmac
import json
import os
import sys
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Annotated, Any
from uuid import NAMESPACE_URL, uuid5

from fastapi import FastAPI, Header, HTTPException, Request, Response
from starlette.requests import ClientDisconnect

from aitest_flows.alerts import VERSION_CREATED, model_resource, new_event

AGE_S = 300.0  # of a delivery, in both directions: clocks differ
BODY_BYTES = 1 << 20
BODY_S = 10.0  # for all of a body: a client that stops in the middle would keep its connection for ever
NAME_LETTERS = 256  # as many as MLflow's database keeps of the name of a registered model
SERVING: dict[str, Any] = {"log_level": "warning", "access_log": False, "server_header": False, "limit_concurrency": 50}
DELIVERIES = 10_000  # remembered while they are young; a signed one each, so nobody without the secret can fill it
PREFECT_S = 10.0  # MLflow waits 30 s for an answer
EXAMPLE = "example_model"  # what MLflow names in a test of a webhook

Tell = Callable[[str, str, str], Awaitable[None]]  # model, version, delivery; returns once Prefect knows


class Deliveries:
    """The deliveries of the last minutes, each of which counts once.

    They are kept in memory: after a restart one may come again, with the id of the same event, which Prefect and the audit
    both take once.
    """

    def __init__(self, most: int = DELIVERIES) -> None:
        self._until: OrderedDict[str, float] = OrderedDict()  # by id, the time from which it is too old anyway
        self._most = most

    def is_full(self, now: float) -> bool:
        """Is there no room; old ones make some first."""
        while self._until and next(iter(self._until.values())) < now:
            self._until.popitem(last=False)
        return len(self._until) >= self._most

    def add(self, delivery: str, now: float) -> bool:
        """Takes note of one; False where it is there already."""
        if delivery in self._until:
            return False
        self._until[delivery] = now + 2 * AGE_S  # its timestamp may lie ahead by the age that it may have
        return True

    def forget(self, delivery: str) -> None:
        """Prefect did not take it: it may come again."""
        self._until.pop(delivery, None)


def make_app(secret: str, tell: Tell, clock: Callable[[], float] = time.time) -> FastAPI:
    """The server: `POST /webhooks/mlflow` and `GET /health`."""
    app = FastAPI(title="aitest receiver", docs_url=None, redoc_url=None, openapi_url=None)
    deliveries = Deliveries()

    @app.get("/health")
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    @app.post("/webhooks/mlflow")
    async def receive(
        request: Request,
        delivery: Annotated[str, Header(alias="X-MLflow-Delivery-Id", max_length=200)] = "",
        timestamp: Annotated[str, Header(alias="X-MLflow-Timestamp", max_length=20)] = "",
        signature: Annotated[str, Header(alias="X-MLflow-Signature", max_length=200)] = "",
    ) -> Response:
        body = await read_body(request)
        now = clock()
        if not is_signed(secret, delivery, timestamp, body, signature) or not is_young(timestamp, now):
            return Response(status_code=401)
        found = new_version(body)
        if found is None:
            return Response(status_code=204)  # something else happened in MLflow
        if not all(is_name(one) for one in found):
            return Response(status_code=422)
        model, version = found
        if model == EXAMPLE:
            return Response(status_code=200)
        if deliveries.is_full(now):
            return Response(status_code=503)
        if not deliveries.add(delivery, now):
            return Response(status_code=409)
        try:
            await asyncio.wait_for(tell(model, version, delivery), PREFECT_S)
        except Exception as error:  # noqa: BLE001 -- whatever keeps Prefect from taking it, MLflow is to send it again
            deliveries.forget(delivery)
            log(f"Prefect did not take the event of {model} version {version}: {type(error).__name__}")
            return Response(status_code=503)
        log(f"{model} version {version} is new")
        return Response(status_code=202)

    return app


async def read_body(request: Request) -> bytes:
    """The body. Raises `HTTPException`: 413 where it is larger than a webhook's is, 408 where it takes too long, 400 where the
    client goes away before its end; the connection ends with the answer, for the rest of the body is not read."""
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_S):
            async for part in request.stream():
                body += part
                if len(body) > BODY_BYTES:
                    raise _refused(413)
    except TimeoutError:
        raise _refused(408) from None
    except ClientDisconnect:
        raise _refused(400) from None
    return bytes(body)


def is_signed(secret: str, delivery: str, timestamp: str, body: bytes, signature: str) -> bool:
    """Is it signed as MLflow signs (Standard Webhooks): HMAC-SHA256 of id, time and body, in base64, after `v1,`."""
    signed = f"{delivery}.{timestamp}.".encode() + body
    expected = hmac.digest(secret.encode(), signed, hashlib.sha256)
    version, _, given = signature.partition(",")
    try:
        found = base64.b64decode(given, validate=True)
    except (binascii.Error, ValueError):
        return False
    return hmac.compare_digest(expected, found) and version == "v1" and bool(delivery)


def is_young(timestamp: str, now: float) -> bool:
    """Was it signed within the last minutes; `timestamp` in seconds since 1970."""
    return timestamp.isascii() and timestamp.isdigit() and abs(now - int(timestamp)) <= AGE_S


def new_version(body: bytes) -> tuple[Any, Any] | None:
    """Model and version that a webhook says are new, as they stand there; None where it says something else."""
    try:
        message = json.loads(body)
        if (message["entity"], message["action"]) != ("model_version", "created"):
            return None
        return message["data"]["name"], message["data"]["version"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def is_name(value: Any) -> bool:
    """Can it be the name of a model or a version: text that is not empty, not too long, and without lone surrogates."""
    return isinstance(value, str) and 0 < len(value) <= NAME_LETTERS and not any("\ud800" <= one <= "\udfff" for one in value)


async def tell_prefect(model: str, version: str, delivery: str) -> None:
    """Sends the event to Prefect; the same delivery is the same event."""
    from prefect.client.orchestration import get_client

    event_id = uuid5(NAMESPACE_URL, f"{model_resource(model)}/{version}/{delivery}")
    event = new_event(VERSION_CREATED, model_resource(model), model, {"name": model, "version": version}, event_id)
    async with get_client() as client:
        response = await client.request("POST", "/events", json=[event.model_dump(mode="json")])
        response.raise_for_status()


def log(line: str) -> None:
    """One line to the log; a name is somebody else's text."""
    sys.stderr.write("".join(letter if letter.isprintable() else "?" for letter in line) + "\n")


def main() -> int:
    """Serves until it is stopped; 2 where it is not told what it needs."""
    import uvicorn

    from aitest_flows.prefect_server import given_url
    from aitest_lib.errors import AitestError
    from aitest_tasks.settings import open_settings

    parser = argparse.ArgumentParser(prog="python -m aitest_flows.receiver", description=__doc__.splitlines()[0])
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8090)
    options = parser.parse_args()
    try:
        open_settings()
        secret, prefect = os.environ.get("AITEST_WEBHOOK_SECRET", ""), given_url()
    except AitestError as error:
        log(f"error: {error}")
        return error.exit_code
    if not secret or not prefect:
        missing = "AITEST_WEBHOOK_SECRET" if not secret else "PREFECT_API_URL"
        log(f"error: {missing} is not set; expected the secret that MLflow signs with, and the Prefect server to tell")
        return 2
    uvicorn.run(make_app(secret, tell_prefect), host=options.host, port=options.port, **SERVING)
    return 0


def _refused(status: int) -> HTTPException:
    return HTTPException(status, headers={"Connection": "close"})


if __name__ == "__main__":
    sys.exit(main())
