"""MLflow's model registry: cards as versions of registered models, cards attached to models of MLflow's own, and verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from aitest_lib.canonical import digest, digest_bytes
from aitest_lib.config.card import LoadedCard, card_error, load_card_data, registered_version
from aitest_lib.errors import InputError, unknown
from aitest_tasks.tracking import Tracking, quiet

CARD_FILE = "model.yaml"
CARDS = "aitest-cards"
CARD_TAG = "aitest.card"  # of a registered model whose versions are MLflow models
PLACE_TAG = "aitest.place"  # of a version: digest of where its model is reached


@dataclass(frozen=True)
class Registered:
    """A registered version and its card. `new`: whether it was made just now."""

    name: str
    version: str
    card: LoadedCard
    new: bool = True


def register_card(tracking: Tracking, loaded: LoadedCard) -> Registered:
    """Records a card as a new version of the registered model of its name; the version's source is the card.

    The same card of the same revision is the version that it was. A card of a registered MLflow model makes no version: it is
    attached to that model, whose versions are audited through it.
    """
    name = loaded.card.name
    content = yaml.safe_dump(loaded.raw, sort_keys=False, allow_unicode=True)
    resolved, registered = resolve_card(tracking, loaded)
    if registered is not None:
        with quiet():
            setter = partial(tracking.client.set_registered_model_tag, registered["name"], CARD_TAG, content)
            tracking.do("attach the card", setter)
        return Registered(registered["name"], registered["version"], resolved)
    with quiet():
        known = max(_versions(tracking, name), key=_number, default=None)
        if known is not None and loaded.card.revision and known.tags.get("aitest.digest") == resolved.digest:
            return Registered(name, str(known.version), resolved, new=False)
        run_id = tracking.start_run(CARDS, {"mlflow.runName": name, "aitest.card": name}, {"type": loaded.card.type})
        tracking.text(run_id, content, f"card/{CARD_FILE}")
        tracking.end(run_id)
        tags = {
            "aitest.type": loaded.card.type,
            "aitest.revision": loaded.card.revision or "",
            "aitest.digest": resolved.digest,
            PLACE_TAG: _place(loaded),
            "aitest.base_dir": str(loaded.base_dir),
        }
        version = tracking.do("register the model", lambda: _create(tracking, name, run_id, tags))
    return Registered(name, version, resolved)


def find_version(tracking: Tracking, name: str, version: str) -> Registered:
    """A registered version by number, `latest`, or `@alias`, with its card: the version's own, or the one attached to the
    model, with this version put in."""
    with quiet():
        found = tracking.do("find the model", lambda: _find(tracking, name, version))
        if found.tags.get("aitest.type"):
            text = tracking.do("read the card", lambda: _read_card(tracking, found.run_id))
            card = load_card_data(yaml.safe_load(text), found.tags.get("aitest.base_dir") or ".")
        else:
            text = tracking.do("read the card", lambda: tracking.client.get_registered_model(name)).tags.get(CARD_TAG)
            if text is None:
                raise InputError(f"model {name} version {found.version} has no card; register one with `aitest register CARD`")
            card = load_card_data({**yaml.safe_load(text), "mlflow": f"models:/{name}/{found.version}"}, ".")
    return Registered(name, str(found.version), resolve_card(tracking, card)[0])


def resolve_card(tracking: Tracking, loaded: LoadedCard) -> tuple[LoadedCard, dict[str, str] | None]:
    """A card with the version of its MLflow model put in, and the name and version of a registered one.

    Other cards come back as they are. The columns of the model's signature are put in, too, where the card names none; the
    digest covers what the version is, so that a number used again for another model shares no answers.
    """
    uri = loaded.card.mlflow
    if uri is None:
        return loaded, None
    named = registered_version(uri)
    registered = None
    try:
        with quiet():
            if named is not None:
                version = tracking.do("find the model", lambda: _find(tracking, named.name, named.version)).version
                registered = {"name": named.name, "version": str(version)}
                uri = f"models:/{named.name}/{version}"
            description = tracking.do("read the model", lambda: _description(tracking, uri))
            schema = tracking.do("read the signature", lambda: _signature(description))
    except InputError as error:
        raise card_error(loaded, ("mlflow",), str(error)) from error
    raw = {**loaded.raw, "mlflow": uri}
    if schema is not None:
        columns = loaded.card.inputs.columns or tuple(schema.input_names())
        _check_columns(loaded, columns, schema)
        raw["inputs"] = {**(raw.get("inputs") or {}), "columns": list(columns)}
    resolved = load_card_data(raw, loaded.base_dir)
    identity = digest({"card": resolved.digest, "model": digest_bytes(description)})
    return replace(resolved, path=loaded.path, digest=identity), registered


def _check_columns(loaded: LoadedCard, columns: Sequence[str], schema: Any) -> None:
    """The card's columns must be the signature's: MLflow would drop others in silence."""
    names = schema.input_names()
    for place, name in enumerate(columns):
        if name not in names:
            text = f"{unknown('input', name, names)} (of the signature of {loaded.card.mlflow})"
            raise card_error(loaded, ("inputs", "columns", place), text)
    if missing := [name for name in schema.required_input_names() if name not in columns]:
        text = f"the signature of {loaded.card.mlflow} also has the input {missing[0]!r}; add it, or leave `columns` out"
        raise card_error(loaded, ("inputs", "columns"), text)


def tag_version(tracking: Tracking, registered: dict[str, str], suite: str, status: str, run_id: str) -> None:
    """Writes a suite's verdict on a version, for promotion scripts to gate on."""
    with quiet():
        for key, value in ((f"aitest.{suite}", status), (f"aitest.{suite}.run_id", run_id)):
            setter = tracking.client.set_model_version_tag
            tracking.do("tag the version", partial(setter, registered["name"], registered["version"], key, value))


def verdict_on(tracking: Tracking, name: str, version: str, suite: str) -> str | None:
    """A suite's verdict on a registered version; None where it was not audited."""
    with quiet():
        found = tracking.do("find the model", lambda: _find(tracking, name, version))
    verdict: str | None = found.tags.get(f"aitest.{suite}")
    return verdict


def unaudited_versions(tracking: Tracking, name: str, suite: str) -> list[str]:
    """The versions of a registered model without a verdict of this suite, the oldest first; superseded ones are left out."""
    with quiet():
        found = _versions(tracking, name)
    open_ = [one for one in found if f"aitest.{suite}" not in one.tags and _successor(one, found) is None]
    return [str(one.version) for one in sorted(open_, key=_number)]


def superseded_by(tracking: Tracking, name: str, version: str) -> str | None:
    """The newest version that is reached where this one was: whoever asks there now asks that one. None where there is none."""
    with quiet():
        found = _versions(tracking, name)
    [this, *_] = [one for one in found if str(one.version) == version] or [None]
    return None if this is None else _successor(this, found)


def _successor(version: Any, every: Sequence[Any]) -> str | None:
    place = version.tags.get(PLACE_TAG)
    later = [one for one in every if place and one.tags.get(PLACE_TAG) == place and _number(one) > _number(version)]
    return str(max(later, key=_number).version) if later else None


def _versions(tracking: Tracking, name: str) -> list[Any]:
    return tracking.do("list versions", lambda: list(tracking.client.search_model_versions(f"name='{name}'")))


def _number(version: Any) -> int:
    return int(version.version)


def _place(loaded: LoadedCard) -> str:
    """Digest of where a card's model is reached: its address, or its code or file."""
    card = loaded.card
    if card.endpoint is not None:
        return digest(card.endpoint.url)
    return digest([str(loaded.base_dir), *(loaded.raw.get(name) for name in ("python", "onnx", "predictions"))])


def list_models(tracking: Tracking) -> list[dict[str, Any]]:
    """All registered models with a card: name, versions, type, tier, revision, and the verdicts on the newest version.

    One is overdue where a suite that judged an earlier version has not judged the newest, or where none ever did.
    """
    rows = []
    with quiet():
        models = tracking.do("list the models", lambda: list(tracking.client.search_registered_models(max_results=1000)))
        for model in models:
            versions = tracking.do("list versions", partial(tracking.client.search_model_versions, f"name='{model.name}'"))
            attached = model.tags.get(CARD_TAG)
            ours = sorted(
                (one for one in versions if attached or one.tags.get("aitest.type")), key=lambda one: int(one.version)
            )
            if not ours:
                continue
            newest = ours[-1]
            verdicts = _verdicts(newest)
            suites = {suite for version in ours for suite in _verdicts(version)}
            text = attached or tracking.do("read the card", partial(_read_card, tracking, str(newest.run_id)))
            card = yaml.safe_load(text)
            rows.append(
                {
                    "name": model.name,
                    "versions": len(ours),
                    "latest": str(newest.version),
                    "type": card["type"],
                    "revision": newest.tags.get("aitest.revision") or None,
                    "tier": (card.get("info") or {}).get("tier"),
                    "verdicts": verdicts,
                    "overdue": not verdicts or suites > verdicts.keys(),
                }
            )
    return rows


def _verdicts(version: Any) -> dict[str, str]:
    """The verdicts on a version, by suite."""
    return {key.removeprefix("aitest."): value for key, value in version.tags.items() if f"{key}.run_id" in version.tags}


def _create(tracking: Tracking, name: str, run_id: str, tags: dict[str, str]) -> str:
    from mlflow.exceptions import MlflowException

    try:
        tracking.client.create_registered_model(name)
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise
    return str(tracking.client.create_model_version(name, f"runs:/{run_id}/card", run_id=run_id, tags=tags).version)


def _find(tracking: Tracking, name: str, version: str) -> Any:
    """A registered version; one that is not there is an `InputError` that names what is."""
    from mlflow.exceptions import MlflowException

    client = tracking.client
    try:
        if version.startswith("@"):
            return client.get_model_version_by_alias(name, version[1:])
        if version != "latest":
            return client.get_model_version(name, version)
        if versions := client.search_model_versions(f"name='{name}'"):
            return max(versions, key=lambda one: int(one.version))
    except MlflowException as error:
        if error.error_code not in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):
            raise
    known = [model.name for model in client.search_registered_models(max_results=1000)]
    if name not in known:
        raise InputError(f"{unknown('registered model', name, known)}; see `aitest models`, or `aitest register CARD`")
    if version.startswith("@"):
        aliases = client.get_registered_model(name).aliases
        raise InputError(f"{unknown(f'alias of the model {name}', version[1:], aliases)}; set it in MLflow")
    numbers = sorted(int(one.version) for one in client.search_model_versions(f"name='{name}'"))
    have = f"it has {', '.join(map(str, numbers))}" if numbers else "it has none yet"
    alias = f"; did you mean '@{version}'?" if version in client.get_registered_model(name).aliases else ""
    raise InputError(f"the model {name} has no version {version!r}; {have}; see `aitest models`{alias}")


def _description(tracking: Tracking, uri: str) -> bytes:
    """The MLmodel file of a model: what it is, and its signature."""
    from mlflow.artifacts import download_artifacts
    from mlflow.exceptions import MlflowException

    try:
        location = _location(tracking, uri)
        with TemporaryDirectory() as folder:
            file = download_artifacts(
                artifact_uri=f"{location}/MLmodel", dst_path=folder, tracking_uri=tracking.settings.tracking_uri
            )
            return Path(file).read_bytes()
    except (MlflowException, OSError) as error:
        code = getattr(error, "error_code", "RESOURCE_DOES_NOT_EXIST" if isinstance(error, FileNotFoundError) else "")
        if code not in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE", "NOT_FOUND"):
            raise
        raise InputError(f"there is no MLflow model at {uri}: {str(error).splitlines()[0][:200]}") from error


def _location(tracking: Tracking, uri: str) -> str:
    """Where the files of a model stand. (MLflow's own look-up goes by a global tracking URI.)"""
    client = tracking.client
    if uri.startswith("runs:/"):
        run_id, _, path = uri.removeprefix("runs:/").partition("/")
        run = client.get_run(run_id)
        for output in run.outputs.model_outputs if run.outputs else ():
            model = client.get_logged_model(output.model_id)
            if model.name == path:
                return str(model.artifact_location)
        return f"{run.info.artifact_uri}/{path}"
    named = registered_version(uri)
    source = uri if named is None else str(client.get_model_version_download_uri(named.name, named.version))
    if source.startswith("models:/"):
        return str(client.get_logged_model(source.removeprefix("models:/")).artifact_location)
    return source


def _signature(description: bytes) -> Any:
    """The input schema of an MLmodel file, None where it has none with names."""
    from mlflow.models import Model

    signature = Model.from_dict(yaml.safe_load(description)).signature
    schema = signature.inputs if signature else None
    return schema if schema is not None and schema.has_input_names() else None


def _read_card(tracking: Tracking, run_id: str) -> str:
    with TemporaryDirectory() as folder:
        return Path(tracking.client.download_artifacts(run_id, f"card/{CARD_FILE}", folder)).read_text(encoding="utf-8")
