"""Puts the shared test servers on the path, and closes what a test has opened."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))


@pytest.fixture(autouse=True)
def closed_models():
    from opening import close_all

    yield
    close_all()
