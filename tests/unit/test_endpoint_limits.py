"""What one of several processes may use of an endpoint's limits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aitest_lib.config.endpoint import Endpoint
from aitest_tasks.limits import limit_name, limited, share_of


def endpoint(concurrency=8, rate=None, url="http://models.example:8080/v1/score?key=1"):
    return Endpoint.model_validate(
        {"url": url, "request": "{}", "response": {"labels": "a"}, "concurrency": concurrency, "rate_per_s": rate}
    )


def test_a_limit_is_named_after_its_address():
    name = limit_name("http://models.example:8080/v1/score?key=secret")
    assert name.startswith("aitest-models.example-8080-")
    assert "secret" not in name
    assert name == limit_name("http://models.example:8080/v1/score?key=other")
    others = ("https://models.example:8080/v1/score", "http://models.example:8080/v2/score", "http://models.example/v1/score")
    assert len({name, *map(limit_name, others)}) == 4
    assert "user" not in limit_name("http://user:pass@models.example/v1")


def test_shares():
    assert share_of(endpoint(8), 4) | {"name": ""} == {"name": "", "slots": 2, "streams": 2, "rate": None}
    assert share_of(endpoint(2), 5) | {"name": ""} == {"name": "", "slots": 1, "streams": 1, "rate": None}
    assert share_of(endpoint(8, 80), 2)["rate"] == pytest.approx(10 * 80 / 88)
    assert share_of(endpoint(8), 3, 6) | {"name": ""} == {"name": "", "slots": 6, "streams": 2, "rate": None}
    own = limited(endpoint(8, 80), share_of(endpoint(8, 80), 2))
    assert (own.concurrency, own.rate_per_s) == (4, pytest.approx(40 * 80 / 88))
    assert own.url == endpoint().url


@given(concurrency=st.integers(1, 64), processes=st.integers(1, 64), rate=st.one_of(st.none(), st.floats(0.1, 1000)))
def test_all_together_keep_the_limits(concurrency, processes, rate):
    share = share_of(endpoint(concurrency, rate), processes)
    holders = concurrency // share["slots"]  # Prefect gives away no more
    own = limited(endpoint(concurrency, rate), share)
    assert share["slots"] == share["streams"] == own.concurrency
    assert holders * own.concurrency <= concurrency
    if rate is not None:
        assert holders * own.rate_per_s <= rate * (1 + 1e-9)
        streams = holders * share["streams"]
        if rate >= concurrency:
            # So many calls of evenly spaced streams can fall into one second: with 2 streams of 50 a second, 50.
            assert streams * (int(share["rate"]) + 1) <= rate + concurrency**2 / (rate + concurrency) + 1e-6
