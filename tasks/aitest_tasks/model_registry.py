"""MLflow's model registry: cards as versions of registered models, and the verdicts written on them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from aitest_lib.config.card import LoadedCard, load_card_data
from aitest_lib.errors import InputError
from aitest_tasks.tracking import Tracking, quiet

CARD_FILE = "model.yaml"
CARDS = "aitest-cards"


@dataclass(frozen=True)
class Registered:
    """A registered version and its card."""

    name: str
    version: str
    card: LoadedCard


def register_card(tracking: Tracking, loaded: LoadedCard) -> Registered:
    """Records a card as a new version of the registered model of its name; the version's source is the card."""
    name = loaded.card.name
    with quiet():
        run_id = tracking.start_run(CARDS, {"mlflow.runName": name, "aitest.card": name}, {"type": loaded.card.type})
        content = yaml.safe_dump(loaded.raw, sort_keys=False, allow_unicode=True)
        tracking.text(run_id, content, f"card/{CARD_FILE}")
        tracking.end(run_id)
        tags = {
            "aitest.type": loaded.card.type,
            "aitest.revision": loaded.card.revision or "",
            "aitest.digest": loaded.digest,
            "aitest.base_dir": str(loaded.base_dir),
        }
        version = tracking.do("register the model", lambda: _create(tracking, name, run_id, tags))
    return Registered(name, version, loaded)


def find_version(tracking: Tracking, name: str, version: str) -> Registered:
    """A registered version by number, `latest`, or `@alias`, with its card."""
    with quiet():
        found = tracking.do("find the model", lambda: _find(tracking, name, version))
        if not found.tags.get("aitest.type"):
            raise InputError(f"model {name} version {found.version} has no card; register one with `aitest register CARD`")
        text = tracking.do("read the card", lambda: _read_card(tracking, found.run_id))
    card = load_card_data(yaml.safe_load(text), found.tags.get("aitest.base_dir") or ".")
    return Registered(name, str(found.version), card)


def tag_version(tracking: Tracking, registered: dict[str, str], suite: str, status: str, run_id: str) -> None:
    """Writes a suite's verdict on a version, for promotion scripts to gate on."""
    with quiet():
        for key, value in ((f"aitest.{suite}", status), (f"aitest.{suite}.run_id", run_id)):
            setter = tracking.client.set_model_version_tag
            tracking.do("tag the version", partial(setter, registered["name"], registered["version"], key, value))


def list_models(tracking: Tracking) -> list[dict[str, Any]]:
    """All registered models with a card: name, versions, type, tier, revision, and the verdicts on the newest version."""
    rows = []
    with quiet():
        models = tracking.do("list the models", lambda: list(tracking.client.search_registered_models(max_results=1000)))
        for model in models:
            versions = tracking.do("list versions", partial(tracking.client.search_model_versions, f"name='{model.name}'"))
            ours = sorted((one for one in versions if one.tags.get("aitest.type")), key=lambda one: int(one.version))
            if not ours:
                continue
            newest = ours[-1]
            verdicts = {
                key.removeprefix("aitest."): value for key, value in newest.tags.items() if f"{key}.run_id" in newest.tags
            }
            card = yaml.safe_load(tracking.do("read the card", partial(_read_card, tracking, str(newest.run_id))))
            rows.append(
                {
                    "name": model.name,
                    "versions": len(ours),
                    "latest": str(newest.version),
                    "type": newest.tags["aitest.type"],
                    "revision": newest.tags.get("aitest.revision") or None,
                    "tier": (card.get("info") or {}).get("tier"),
                    "verdicts": verdicts,
                    "overdue": not verdicts,
                }
            )
    return rows


def _create(tracking: Tracking, name: str, run_id: str, tags: dict[str, str]) -> str:
    from mlflow.exceptions import MlflowException

    try:
        tracking.client.create_registered_model(name)
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise
    return str(tracking.client.create_model_version(name, f"runs:/{run_id}/card", run_id=run_id, tags=tags).version)


def _find(tracking: Tracking, name: str, version: str) -> Any:
    from mlflow.exceptions import MlflowException

    try:
        if version.startswith("@"):
            return tracking.client.get_model_version_by_alias(name, version[1:])
        if version != "latest":
            return tracking.client.get_model_version(name, version)
        versions = tracking.client.search_model_versions(f"name='{name}'")
        if not versions:
            raise InputError(
                f"there is no registered model {name!r}; see `aitest models`, or register it with `aitest register CARD`"
            )
        return max(versions, key=lambda one: int(one.version))
    except MlflowException as error:
        if error.error_code in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):
            raise InputError(f"there is no version {version!r} of a registered model {name!r}; see `aitest models`") from error
        raise


def _read_card(tracking: Tracking, run_id: str) -> str:
    with TemporaryDirectory() as folder:
        return Path(tracking.client.download_artifacts(run_id, f"card/{CARD_FILE}", folder)).read_text(encoding="utf-8")
