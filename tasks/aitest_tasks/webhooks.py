"""MLflow's webhook for new model versions: the tracking server calls the receiver, which tells Prefect."""

from __future__ import annotations

from typing import Any, Final

from aitest_lib.errors import UnavailableError
from aitest_tasks.tracking import Tracking, quiet

NAME = "aitest-new-versions"
EVENT: Final = "model_version.created"


def register_webhook(tracking: Tracking, url: str, secret: str) -> bool:
    """Has the tracking server call `url` for every new model version, signed with `secret`; True where the webhook is new.

    One that calls this URL already gets this secret and is switched on. A server that takes no webhooks, or none to such a
    URL, is an `UnavailableError` that says why.
    """
    from mlflow.exceptions import MlflowException

    if not tracking.settings.tracking_uri.startswith(("http://", "https://")):
        raise UnavailableError(f"{tracking.place} is no MLflow server, and only a server calls webhooks; see `aitest up`")
    try:
        with quiet():
            known = next((one for one in _webhooks(tracking) if one.url == url and EVENT in map(str, one.events)), None)
            if known is None:
                tracking.client.create_webhook(NAME, url, [EVENT], secret=secret)
            else:
                tracking.client.update_webhook(known.webhook_id, secret=secret, status="ACTIVE")
    except MlflowException as error:
        reason = str(error).splitlines()[0][:200].removeprefix(f"{error.error_code}: ")
        raise UnavailableError(f"the MLflow server at {tracking.place} does not take the webhook to {url}: {reason}") from error
    return known is None


def _webhooks(tracking: Tracking) -> list[Any]:
    found: list[Any] = []
    token: str | None = None
    while True:
        page = tracking.client.list_webhooks(page_token=token)
        found += page
        if not (token := page.token):
            return found
