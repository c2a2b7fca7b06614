"""How much memory there is, and how much a process holds."""

from __future__ import annotations

import os

import pytest

from aitest_lib.models.processes import memory


@pytest.fixture
def groups(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "CGROUP", tmp_path)
    memory.available.cache_clear()
    yield tmp_path
    memory.available.cache_clear()


def test_this_process_holds_something():
    assert 1_000_000 < memory.resident(os.getpid()) < memory.available()
    assert memory.resident(2**22 + 1) == 0
    assert memory.gigabytes(3_249_000_000) == "3.2 GB"


def test_a_group_may_have_less_than_the_machine(groups):
    whole = memory.available()
    for text, expected in (("max", whole), ("123000000", 123_000_000), ("9" * 18, whole)):
        (groups / "memory.max").write_text(text)
        memory.available.cache_clear()
        assert memory.available() == expected
    (groups / "memory").mkdir()
    (groups / "memory/memory.limit_in_bytes").write_text("45000000")
    memory.available.cache_clear()
    assert memory.available() == 45_000_000
