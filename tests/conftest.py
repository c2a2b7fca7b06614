"""What every test starts from."""

import pytest

from aitest_lib.config import secrets


@pytest.fixture(autouse=True)
def no_secret_is_known(monkeypatch):
    """What one test made a secret, a host name say, must not be masked in the messages of the next."""
    monkeypatch.setattr(secrets, "_memory", secrets._Memory())
