"""What is not the same in two runs, before any case is looked at: gates and data first, then settings, model, versions.

A run that passes because its gates were loosened is the first thing to be seen: such changes are marked `weaker`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from aitest_lib.canonical import canonical_json
from aitest_lib.reports.comparison import Area, SettingChange
from aitest_lib.reports.report import PropertyReport, RunReport, shown_names
from aitest_lib.reports.tables import clip, slice_label

AREAS: tuple[Area, ...] = ("gates", "data", "settings", "model", "versions")
DEFAULT = "default"
MAX_TEXT = 200
# Settings by which more passes: when they go up (+1) or down (-1).
_LENIENT = {"tolerance": 1, "max_error_rate": 1, "confidence": -1}
_MODEL = ("name", "version", "revision", "type", "digest", "epoch")


def changed_settings(
    base: tuple[Mapping[str, Any], RunReport], candidate: tuple[Mapping[str, Any], RunReport]
) -> list[SettingChange]:
    """The differences of two runs, each given as its record and its report, by area, weaker ones first."""
    (base_record, base_report), (candidate_record, candidate_report) = base, candidate
    suites = base_record["suite"], candidate_record["suite"]
    found = [
        *_gates(*suites),
        *_data(suites, base, candidate),
        *_settings(*suites),
        *_properties(base_report, candidate_report),
        *_transforms(base_report, candidate_report),
        *_model(base_report, candidate_report),
        *_versions(base, candidate),
    ]
    return sorted(found, key=lambda change: (AREAS.index(change.area), not change.weaker))


def _gates(base: Mapping[str, Any], candidate: Mapping[str, Any]) -> Iterator[SettingChange]:
    """Bounds of the properties that both suites have, by property, metric, slice and side."""
    before, after = _bounds(base), _bounds(candidate)
    shared = _entries(base).keys() & _entries(candidate).keys()
    for key in dict.fromkeys([*before, *after]):
        old, new = before.get(key), after.get(key)
        name, metric, where, side = key
        if name not in shared or old == new:
            continue
        words = "at least" if side == "min" else "at most"
        looser = new is None or (old is not None and (new < old if side == "min" else new > old))
        yield SettingChange(
            area="gates",
            name=f"{name} {metric}{where}",
            base=None if old is None else f"{words} {old:g}",
            candidate=None if new is None else f"{words} {new:g}",
            weaker=looser,
        )


def _bounds(suite: Mapping[str, Any]) -> dict[tuple[str, str, str, str], float]:
    found = {}
    for name, item in _entries(suite).items():
        for metric, given in item.get("gates", {}).items():
            for gate in given if isinstance(given, list) else [given]:
                where = gate.get("slice")
                shown = "" if where is None else f", {slice_label(where)}"
                side = "min" if gate.get("min") is not None else "max"
                found[name, metric, shown, side] = float(gate[side])
    return found


def _data(
    suites: tuple[Mapping[str, Any], Mapping[str, Any]],
    base: tuple[Mapping[str, Any], RunReport],
    candidate: tuple[Mapping[str, Any], RunReport],
) -> Iterator[SettingChange]:
    pairs = [(record, report.provenance) for record, report in (base, candidate)]
    for name in ("test_digest", "train_digest"):
        yield from _changed("data", f"content of {name.removesuffix('_digest')}", *(record[name] for record, _ in pairs))
    for name in ("rows", "seeds"):
        yield from _changed("data", name, *(getattr(origin, name) for _, origin in pairs))
    same = {name for name in ("test", "train") if base[0][f"{name}_digest"] == candidate[0][f"{name}_digest"]}
    # Where the same table was read from is no change: a run on a pool reads a copy in the store.
    first, second = ({key: value for key, value in suite["data"].items() if key not in same} for suite in suites)
    yield from _differences("data", first, second)


def _settings(base: Mapping[str, Any], candidate: Mapping[str, Any]) -> Iterator[SettingChange]:
    """Everything of the suites but gates, data, model and transforms."""
    apart = ("properties", "data", "model")
    first, second = ({name: value for name, value in suite.items() if name not in apart} for suite in (base, candidate))
    yield from _differences("settings", first, second)
    before, after = (_entries(suite) for suite in (base, candidate))
    for name in before:
        if name in after:
            own = {key for one in (before, after) for key in one[name]} - {"property", "gates", "transforms"}
            # What one suite says of the property stands against what the other says of them all.
            old, new = (
                {key: one[name].get(key, suite.get(key)) for key in sorted(own)}
                for one, suite in ((before, base), (after, candidate))
            )
            yield from _differences("settings", old, new, name)


def _properties(base: RunReport, candidate: RunReport) -> Iterator[SettingChange]:
    before, after = base.named, candidate.named
    for name in sorted(before.keys() ^ after.keys()):
        was, now = ("run" if name in names else None for names in (before, after))
        yield SettingChange(area="settings", name=name, base=was, candidate=now, weaker=now is None)
    for name, old in before.items():
        new = after.get(name)
        if new is not None:
            # A model's own errors give the default: the yardstick moves with the model.
            yield from _changed("settings", f"{name} seed_tolerance in effect", old.seed_tolerance, new.seed_tolerance)


def _transforms(base: RunReport, candidate: RunReport) -> Iterator[SettingChange]:
    for name, item in base.named.items():
        if name not in candidate.named:
            continue
        before, after = _components(item), _components(candidate.named[name])
        for part in dict.fromkeys([*before, *after]):
            was, now = ("asked" if part in parts else None for parts in (before, after))
            if was != now:
                yield SettingChange(
                    area="settings", name=f"{name} transform {part}", base=was, candidate=now, weaker=now is None
                )


def _components(report: PropertyReport) -> list[str]:
    return list(dict.fromkeys(slice_label(m.slice) for m in report.metrics if "transform" in m.slice))


def _model(base: RunReport, candidate: RunReport) -> Iterator[SettingChange]:
    for name in _MODEL:
        yield from _changed("model", name, getattr(base.model, name), getattr(candidate.model, name))


def _versions(
    base: tuple[Mapping[str, Any], RunReport], candidate: tuple[Mapping[str, Any], RunReport]
) -> Iterator[SettingChange]:
    (base_record, base_report), (candidate_record, candidate_report) = base, candidate
    yield from _changed("versions", "aitest", base_report.provenance.aitest, candidate_report.provenance.aitest)
    yield from _differences("versions", base_report.provenance.packages, candidate_report.provenance.packages)
    # The places in the suite may have moved; what is compared is a property's transforms and the versions of their code.
    before, after = (_fingerprints(record["fingerprints"]) for record in (base_record, candidate_record))
    for name in before:
        if name in after:
            yield from _changed("versions", f"{name} transforms (fingerprint)", before[name], after[name])


def _entries(suite: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """What a suite says of each of its properties, by shown name."""
    properties = suite["properties"]
    return dict(zip(shown_names(item["property"] for item in properties), properties, strict=True))


def _fingerprints(found: Mapping[str, str]) -> dict[str, str]:
    """The fingerprints of transforms by shown name, from those by place and property (`0.tabular.robustness`)."""
    places = sorted((key for key in found if key != "aitest"), key=lambda key: int(key.partition(".")[0]))
    return dict(zip(shown_names(key.partition(".")[2] for key in places), (found[key] for key in places), strict=True))


def _differences(
    area: Area, base: Mapping[str, Any], candidate: Mapping[str, Any], within: str = ""
) -> Iterator[SettingChange]:
    """The leaves of two trees that differ, by dotted name."""
    for name in dict.fromkeys([*base, *candidate]):
        old, new = base.get(name), candidate.get(name)
        path = f"{within} {name}" if within else name
        if isinstance(old, Mapping) or isinstance(new, Mapping):
            first, second = (value if isinstance(value, Mapping) else {} for value in (old, new))
            yield from _differences(area, first, second, path)
        else:
            yield from _changed(area, path, old, new, _LENIENT.get(name, 0), more_passes=_passes_more(name, old, new))


def _passes_more(name: str, old: Any, new: Any) -> bool:
    """Point estimates instead of intervals, and fixed samples instead of sequential ones, ask for less."""
    return (name == "decide" and new == "point") or (name == "sequential" and bool(old) and not new)


def _changed(
    area: Area, name: str, old: Any, new: Any, lenient: int = 0, *, more_passes: bool = False
) -> Iterator[SettingChange]:
    if old == new:
        return
    further = lenient and isinstance(old, int | float) and isinstance(new, int | float) and (new - old) * lenient > 0
    yield SettingChange(area=area, name=name, base=_text(old), candidate=_text(new), weaker=bool(further) or more_passes)


def _text(value: Any) -> str | None:
    if value is None:
        return None
    return clip(value if isinstance(value, str) else canonical_json(value), MAX_TEXT)
