"""An endpoint's limits over all processes: a global concurrency limit of Prefect's, each slot of which is one stream of calls.

A slot is the right to one call at a time and to an equal share of the card's calls a second. A process holds its slots while
it asks, and waits for one call's distance before it uses them: whoever held them before may just have called. So the limits
hold whoever asks, and no call has to ask the Prefect server first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from urllib.parse import urlsplit

from aitest_lib.canonical import digest
from aitest_lib.config.card import Card
from aitest_lib.config.endpoint import Endpoint
from aitest_lib.errors import UnavailableError
from aitest_tasks import live
from aitest_tasks.runs import Run

LEASE_S = 60  # after which Prefect gives away the slots of a process that is gone; its least
LOOKS_UP_S = 5.0


def limit_name(endpoint_url: str) -> str:
    """The name of an endpoint's limit: its host to read, the digest of its address (without the query) to tell it apart."""
    parts = urlsplit(endpoint_url)
    host = "".join(letter if letter.isalnum() or letter in ".-" else "-" for letter in parts.netloc.rpartition("@")[2])
    return f"aitest-{host}-{digest([parts.scheme, host, parts.path])[:8]}"


def ensure_limit(card: Card) -> str | None:
    """Creates or updates the limit of a card's endpoint on the current Prefect server; returns its name."""
    if card.endpoint is None:
        return None
    from prefect.client.orchestration import get_client

    name = limit_name(card.endpoint.url)
    with get_client(sync_client=True) as client:
        client.upsert_global_concurrency_limit_by_name(name, card.endpoint.concurrency)
    return name


def share_of(endpoint: Endpoint, processes: int, threads: int = 1) -> dict[str, Any]:
    """What one of so many processes may use of an endpoint: slots to hold, streams of calls, calls a second of a stream.

    `threads`: those of all processes together that take shards, where one process holds the slots for all (Dask).
    """
    streams = max(1, endpoint.concurrency // processes)
    return {
        "name": limit_name(endpoint.url),
        "slots": streams if threads == 1 else min(endpoint.concurrency, streams * processes),
        "streams": streams,
        "rate": _stream_rate(endpoint.rate_per_s, endpoint.concurrency),
    }


def _stream_rate(rate: float | None, streams: int) -> float | None:
    """Calls a second of one of so many streams. Evenly spaced ones put one call more than their rate into some second: where
    that would show, all are slowed down by so much."""
    if rate is None:
        return None
    each = rate / streams
    return each * rate / (rate + streams) if each >= 1 else each


def limited(endpoint: Endpoint, share: dict[str, Any]) -> Endpoint:
    """The endpoint as one process may use it."""
    rate = share["rate"] * share["streams"] if share["rate"] is not None else None
    return endpoint.model_copy(update={"concurrency": share["streams"], "rate_per_s": rate})


_holding: set[str] = set()  # runs whose slots this process holds


@contextmanager
def slots(run: Run, needed: Callable[[], bool] = lambda: True) -> Iterator[bool]:
    """Holds this process's slots of the run's endpoint while it asks; waits for them as long as they are `needed`.

    Yields whether it may ask. Only a run that several processes share has slots to wait for.
    """
    share = run.options.get("share")
    if share is None or run.run_id in _holding:
        yield True
        return
    from prefect.concurrency._asyncio import ConcurrencySlotAcquisitionError  # has no public name
    from prefect.concurrency.sync import concurrency

    if run.options.get("scheduler"):
        ensure_limit(run.card.card)  # its Prefect server may have been started just now
    with ExitStack() as stack:
        while needed():
            live.check_stopped()
            try:
                stack.enter_context(
                    concurrency(
                        share["name"],
                        occupy=share["slots"],
                        strict=True,
                        lease_duration=LEASE_S,
                        timeout_seconds=LOOKS_UP_S,
                        raise_on_lease_renewal_failure=False,
                    )
                )
            except ConcurrencySlotAcquisitionError as error:
                raise UnavailableError(
                    f"the limit {share['name']} has fewer slots than this run needs ({share['slots']}): another card of this "
                    "endpoint has another `concurrency`; give both the same, and deploy or run again"
                ) from error
            except TimeoutError:
                continue  # Prefect would not notice a stop, and grows ever slower in asking again
            if share["rate"]:
                live.pause(1 / share["rate"])
            _holding.add(run.run_id)
            stack.callback(_holding.discard, run.run_id)
            yield True
            return
        yield False
