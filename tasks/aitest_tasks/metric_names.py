"""Names that MLflow takes, for metrics, parameters and files: legal, and one for each thing that is named."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from hashlib import sha256

from aitest_lib.canonical import canonical_json
from aitest_lib.reports.report import Metric

LONGEST = 150  # characters of a slice or parameter: MLflow takes 250 with what is put before and after it
_DIGITS = 8
_COMPARED = re.compile(r"[\s_]*(<=|>=|<|>|≤|≥)[\s_]*")
_WORDS = {"<": "lt", ">": "gt", "<=": "le", ">=": "ge", "≤": "le", "≥": "ge"}


def slug(text: str) -> str:
    """`text` as a name: letters, digits, `_`, `.`, `-` and `/` stay, comparison signs become words, all else `_`.

    It is never empty and has no part that a path would swallow (MLflow may keep it as a file). Different texts may get the
    same name: see `distinct_names`.
    """
    parts = (re.sub(r"[^A-Za-z0-9_.\-]+", "_", part) for part in _worded(text).split("/") if part)
    return "/".join(part if part.strip("_.") else "value" for part in parts).strip("_") or "value"


def distinct_names(texts: Mapping[str, str]) -> dict[str, str]:
    """A name for each key, from its text: the slug, at most 150 characters long.

    Where the texts of several keys have the same slug, those that lost something on the way get a digest of their key, and so
    does each that is too long: a name depends on its own key alone, whatever the order.
    """
    slugs = {key: slug(text) for key, text in texts.items()}
    sharing: dict[str, list[str]] = defaultdict(list)
    for key, name in slugs.items():
        sharing[name].append(key)
    names = {}
    for key, name in slugs.items():
        whole = [one for one in sharing[name] if _worded(texts[one]) == name]
        if len(name) > LONGEST or (len(sharing[name]) > 1 and whole != [key]):
            digest = sha256(key.encode()).hexdigest()[:_DIGITS]
            name = f"{name[: LONGEST - _DIGITS - 1].rstrip('/')}-{digest}"
        names[key] = name
    return names


def metric_values(metrics: list[Metric]) -> dict[str, float]:
    """Metrics and their bounds under MLflow names: `pass_rate`, `numeric_noise_0.1/pass_rate`, …; undefined ones left out."""
    names = distinct_names({_identity(metric): _slice_text(metric) for metric in metrics if metric.slice})
    values: dict[str, float] = {}
    for metric in metrics:
        name = f"{names[_identity(metric)]}/{metric.name}" if metric.slice else metric.name
        for suffix, value in (("", metric.value), ("_low", metric.low), ("_high", metric.high)):
            if value is not None:
                values[name + suffix] = value
    return values


def _worded(text: str) -> str:
    return _COMPARED.sub(lambda found: f"_{_WORDS[found[1]]}_", text)


def _identity(metric: Metric) -> str:
    """What tells a slice from others: a gate may say 1 where the data say "1"."""
    return canonical_json({key: str(value) for key, value in metric.slice.items()})


def _slice_text(metric: Metric) -> str:
    where = dict(metric.slice)
    if "transform" in where:  # comes first, whatever the order in which the report was read
        return "_".join(str(value) for value in (where.pop("transform"), *where.values()))
    return "/".join(f"{key}_{value}" for key, value in where.items())
