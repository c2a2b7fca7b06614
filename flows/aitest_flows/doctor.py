"""`aitest doctor`: is everything in place, and what to do where it is not."""

from __future__ import annotations

import platform
import shutil
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec

from aitest_lib.errors import AitestError
from aitest_tasks.services import services_of
from aitest_tasks.settings import Settings

Finding = tuple[str, str, str]  # what, "ok" | "missing" | "broken", detail or mend

EXTRAS = {
    "image": ("torch", "kornia", "botorch", "PIL"),
    "onnx": ("onnxruntime",),
    "speech": ("torch", "torchaudio", "jiwer", "soundfile", "regex", "pocketsphinx"),
    "s3": ("s3fs",),
    "dask": ("prefect_dask",),
    "services": ("psycopg2", "boto3"),
}
LEAST_FREE = 1 << 30


def examine(settings: Settings) -> Iterator[Finding]:
    """Every finding, one by one; `broken` ones keep aitest from working."""
    old = sys.version_info < (3, 11)
    yield "Python", "broken" if old else "ok", f"{platform.python_version()}" + ("; aitest needs 3.11 or newer" if old else "")
    yield "project", "ok", str(settings.home)
    yield _try("store", lambda: _store(settings))
    yield _try("tracking", lambda: _tracking(settings))
    yield _try("Prefect", lambda: _prefect(settings))
    yield from _services(settings)
    free = shutil.disk_usage(settings.home).free
    yield (
        "disk",
        "ok" if free > LEAST_FREE else "broken",
        f"{free / 1e9:.1f} GB free" + ("" if free > LEAST_FREE else "; make room, or move the store (AITEST_STORE)"),
    )
    for extra, modules in EXTRAS.items():
        absent = [name for name in modules if find_spec(name) is None]
        yield (
            f"extra {extra}",
            "missing" if absent else "ok",
            f"install it where you need it: pip install 'aitest[{extra}]'" if absent else "installed",
        )


def _try(what: str, check: Callable[[], str]) -> Finding:
    try:
        return what, "ok", check()
    except AitestError as error:
        return what, "broken", str(error)


def _store(settings: Settings) -> str:
    settings.store.check()
    return settings.store.url


def _tracking(settings: Settings) -> str:
    from aitest_tasks.tracking import Tracking

    tracking = Tracking(settings)
    tracking.knows("0" * 32)  # asks the server
    return tracking.place


def _prefect(settings: Settings) -> str:
    from aitest_flows.prefect_server import given_url, prefect_server

    with prefect_server(settings.prefect_home, settings.logs) as url:
        return f"the server at {url} answers" if given_url() else f"a server started and answered at {url}"


def _services(settings: Settings) -> Iterator[Finding]:
    """Those of `aitest up`; nothing where it has started none."""
    for name, process in services_of(settings.home).read().items():
        if process.alive:
            yield name, "ok", f"up: pid {process.pid}, {process.url}"
        else:
            yield name, "broken", f"it has ended; start it again with: aitest up; its log is {process.log}"
