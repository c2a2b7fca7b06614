"""Projects for runs in this process, on the session's Prefect server."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))


@pytest.fixture
def project(tmp_path):
    from projects import new_project

    return new_project(tmp_path / "project")


@pytest.fixture
def server():
    from model_server import serving
    from projects import income

    with serving(income) as running:
        yield running
