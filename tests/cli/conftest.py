"""Projects for the command as a process, on the session's Prefect server."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from model_server import serving
from projects import income, new_project


@pytest.fixture
def project(tmp_path):
    return new_project(tmp_path / "project")


@pytest.fixture
def server():
    with serving(income) as running:
        yield running
