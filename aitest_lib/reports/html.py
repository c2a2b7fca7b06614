"""The report as one self-contained HTML page: no request leaves it, no script comes from data, and it stays below 5 MB."""

from __future__ import annotations

from base64 import b64encode
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from aitest_lib.reports import plots, tables
from aitest_lib.reports.explain import explanation_parts, headline
from aitest_lib.reports.explain_synthesis import synthesis_sentences
from aitest_lib.reports.html_attack import attack_view
from aitest_lib.reports.html_fairness import fairness_view
from aitest_lib.reports.html_images import (
    CLASS_SLICES,
    breaking_view,
    cell_words,
    depth,
    drop_words,
    gallery_view,
    in_turns,
    sweeps_view,
)
from aitest_lib.reports.html_speech import heard_cases, speech_view
from aitest_lib.reports.html_trees import tree_view
from aitest_lib.reports.image_sweeps import case_amounts
from aitest_lib.reports.report import Confusion, FailingCase, GateResult, Metric, PropertyReport, RunReport, SliceFinding
from aitest_lib.types import SEVERITY

MAX_CASES = 200  # failing cases shown per property
MAX_BYTES = 5_000_000
MAX_ROWS = 60  # rows of one table of metrics, slices or gates
MAX_SLICES = 15
EXAMPLES = ("smallest_flip", "pair_search")  # found by a search: shown as examples, counted nowhere
MAX_CELLS = 32  # columns shown of one failing case, changed ones first
MAX_CLASSES = 20  # size of a confusion matrix that is still shown as a matrix
SCRIPT_DIGEST = "sha256-of-the-script"
POLICY = (
    f"default-src 'none'; img-src data:; media-src data:; style-src 'unsafe-inline'; script-src '{SCRIPT_DIGEST}'; "
    "base-uri 'none'; form-action 'none'"
)
_COUNTED = ("passed", "failed", "skipped", "error")


def render_html(report: RunReport, failures: Mapping[str, list[FailingCase]]) -> str:
    """The page for `report`; `failures` holds failing cases by the property's shown name, of which at most 200 each are shown.

    Everything is escaped. A page that would be larger than 5 MB shows fewer cases, and says so.
    """
    limit = MAX_CASES
    while True:
        page = _render(report, failures, limit)
        if len(page.encode()) <= MAX_BYTES or limit == 0:
            return page
        limit //= 2


def _render(report: RunReport, failures: Mapping[str, list[FailingCase]], limit: int) -> str:
    template = page_environment().get_template("report.html")
    worst_first = sorted(report.named.items(), key=lambda item: SEVERITY.index(item[1].status))
    unreadable = report.provenance.unreadable
    properties = [
        _property(name, prop, failures.get(name, []), limit, i) | {"told": explanation_parts(prop, unreadable)}
        for i, (name, prop) in enumerate(worst_first)
    ]
    synthesis = synthesis_sentences(report.synthesis) if report.synthesis else []
    page = template.render(
        r=report, headline=headline(report), properties=properties, facts=_facts(report), synthesis=synthesis
    )
    return sealed(page)


def sealed(page: str) -> str:
    """A page whose policy allows its own script and data URIs, and nothing else: what escaping should ever miss cannot run,
    and nothing is asked for."""
    page = tables.printable(page)
    _, _, script = page.rpartition("<script>")
    digest = b64encode(sha256(script.partition("</script>")[0].encode()).digest()).decode()
    return page.replace(SCRIPT_DIGEST, f"sha256-{digest}", 1)


@lru_cache(maxsize=1)
def page_environment() -> Environment:
    """The templates of the pages, with everything escaped and figures worded as in `tables`."""
    environment = Environment(
        autoescape=True,
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["policy"] = Markup(POLICY)  # noqa: S704 -- ours, quotes and all
    environment.filters.update(
        number=lambda *figure: tables.minus_signs(tables.number(*figure)),
        interval=lambda *bounds: tables.minus_signs(tables.interval(*bounds)),
        signed=lambda figure: tables.minus_signs(f"{figure:+.3f}"),
        cell=lambda item: cell_words(*item),
        slice_label=tables.slice_label,
        bound=tables.bound,
        clip=tables.clip,
        skip_reason=tables.skip_reason,
        p_value=tables.p_value,
        when=_when,
        took=tables.duration,
        drop=drop_words,
        depth=depth,
    )
    return environment


def _facts(report: RunReport) -> list[tuple[str, str]]:
    model, origin = report.model, report.provenance
    changed = " (changed behind its version)" if model.changed else ""
    noun = {"image-classifier": "image", "speech-to-text": "clip"}.get(model.type, "row")
    flips = f", answers flip by themselves at {tables.number(model.self_flip_rate)}" if model.self_flip_rate else ""
    pairs = [
        ("Model", model.name),
        ("Version", model.version),
        ("Revision", model.revision),
        ("Type", model.type),
        ("Behaviour", f"{'deterministic' if model.deterministic else 'not deterministic'}{flips}{changed}"),
        ("Data", f"{tables.count(origin.rows, noun)}, {tables.count(origin.seeds, 'seed')}"),
        ("Converted", ", ".join(f"{what}: {n:,}" for what, n in origin.converted.items())),
        ("Started", _when(report.started)),
        ("Took", tables.duration(report.seconds)),
        ("Earlier looks", f"{origin.previous_looks:,} at this version" if origin.previous_looks else None),
        *((tables.clip(key, 40), tables.clip(value, 160)) for key, value in list(report.info.items())[:20]),
    ]
    return [(name, value) for name, value in pairs if value]


def _property(name: str, prop: PropertyReport, failing: list[FailingCase], limit: int, index: int) -> dict[str, Any]:
    examples = [case for case in failing if case.transform in EXAMPLES]
    cases = [case for case in failing if case.transform not in EXAMPLES]
    images = prop.property.startswith("image.")
    gallery = gallery_view(prop, cases, min(limit, MAX_CASES))
    failed = [case for case in cases if case.outcome == "failed"]
    speech, fairness = speech_view(prop), fairness_view(prop)
    turns = in_turns(failed, min(limit, MAX_CASES), case_amounts(prop)) if gallery is None and speech is None else []
    shown = [failed[place] for place in sorted(turns)]
    heard = [] if speech is None else heard_cases(prop, failed, min(limit, MAX_CASES))
    by_class = [found for found in prop.slices if images and found.name in CLASS_SLICES]
    total, verdicts = prop.cases.total, Counter(gate.verdict for gate in prop.gates)
    return {
        "id": f"p{index}",
        "name": name,
        "p": prop,
        "bar": [(name, getattr(prop.cases, name), 100 * getattr(prop.cases, name) / total) for name in _COUNTED]
        if total
        else [],
        "gates": _gates(prop),
        "verdicts": dict(sorted(verdicts.items(), key=lambda item: SEVERITY.index(item[0]))),
        "more_gates": max(0, len(prop.gates) - MAX_ROWS),
        "tree": tree_view(prop, limit),
        "attack": attack_view(prop),
        "speech": speech,
        "fairness": fairness,
        "groups": _metric_tables(prop),
        "sweeps": sweeps_view(prop) if images else None,
        "curves": [] if images or speech or fairness else _curves(prop),
        "breaking": breaking_view(prop),
        "classes": _slices(by_class),
        "slices": _slices([found for found in prop.slices if found not in by_class]),
        "flips": _markup(plots.flips_plot(prop, plots.PAGE)),
        "confusion": _confusion(prop.confusion),
        "confused": _confused(prop.confusion),
        "cases": heard or [_case(case) for case in shown],
        "examples": [_case(case) for case in examples[:limit]],
        "gallery": gallery,
        "failed": max(prop.cases.failed, len(failed)),
        "transforms": sorted({case.transform for case in (shown if speech is None else failed) if case.transform}),
    }


def _gates(prop: PropertyReport) -> list[dict[str, Any]]:
    """The gates by metric, each with its row of the forest plot; one scale a metric."""
    shown = prop.gates[:MAX_ROWS]
    panels = []
    for name in dict.fromkeys(gate.metric for gate in shown):
        domain = plots.gates_domain(prop, name)
        rows = [_gate(prop, gate, domain) for gate in shown if gate.metric == name]
        panels.append({"metric": name, "rows": rows, "axis": _markup(plots.axis(domain, plots.PAGE))})
    return panels


def _gate(prop: PropertyReport, gate: GateResult, domain: tuple[float, float]) -> dict[str, Any]:
    metric = tables.gate_metric(prop, gate)
    value, low, high = (metric.value, metric.low, metric.high) if metric else (None, None, None)
    edges = [edge for edge in (gate.min, gate.max) if edge is not None]
    mark = plots.interval_mark(value, low, high, edges, domain, plots.PAGE.of(gate.verdict), plots.PAGE)
    return {"gate": gate, "metric": metric, "mark": _markup(mark)}


def _metric_tables(prop: PropertyReport) -> list[dict[str, Any]]:
    """The whole as one row a metric; every other cut as one row a slice and one column a metric."""
    found = tables.metric_groups(prop.metrics)
    whole = found.pop((), [])
    result: list[dict[str, Any]] = []
    if whole:
        result.append({"title": "Overall", "rows": [(m, _strip(m)) for m in whole], "columns": None, "more": 0})
    for key, metrics in found.items():
        columns = list(dict.fromkeys(m.name for m in metrics))
        rows: dict[str, dict[str, Metric]] = {}
        for m in metrics:
            label = tables.clip(m.slice[key[0]], 60) if len(m.slice) == 1 else tables.slice_label(m.slice)
            rows.setdefault(label, {})[m.name] = m
        shown = list(rows.items())[:MAX_ROWS]
        more = len(rows) - len(shown)
        of = tables.clip(key[0], 40) if len(key) == 1 else "slice"
        result.append({"title": tables.group_title(key), "of": of, "rows": shown, "columns": columns, "more": more})
    return result


def _strip(metric: Metric) -> Markup:
    if metric.value is None or metric.unit != "1" or not -1 <= metric.value <= 1:
        return Markup("")
    domain = (0.0, 1.0) if metric.value >= 0 and (metric.low is None or metric.low >= 0) else (-1.0, 1.0)
    mark = plots.interval_mark(metric.value, metric.low, metric.high, [], domain, plots.PAGE.accent, plots.PAGE)
    return _markup(mark)


def _curves(prop: PropertyReport) -> list[tuple[str, Markup]]:
    """Metrics over the components, those with gates first; two at most, more would repeat the table."""
    gated = [gate.metric for gate in prop.gates]
    cut = [m.name for m in prop.metrics if "transform" in m.slice and m.value is not None]
    names = [name for name in dict.fromkeys(gated + cut) if cut.count(name) > 1][:2]
    return [(name, _markup(plots.metrics_plot(prop, name, plots.PAGE))) for name in names]


def _slices(slices: list[SliceFinding]) -> dict[str, Any]:
    ranked = sorted(slices, key=lambda s: (not s.flagged, -s.difference))
    shown = ranked[:MAX_SLICES]
    low, high = plots.span([v for s in shown for v in (s.low, s.high, 0.0)])
    rows = []
    for s in shown:
        colour = plots.PAGE.failed if s.flagged else plots.PAGE.muted
        mark = plots.interval_mark(s.difference, s.low, s.high, [0.0], (low, high), colour, plots.PAGE)
        rows.append((s, _markup(mark)))
    return {"rows": rows, "more": len(ranked) - len(shown), "axis": _markup(plots.axis((low, high), plots.PAGE))}


def _confusion(confusion: Confusion | None) -> list[tuple[str, int, list[tuple[int, float, bool]]]]:
    if confusion is None or len(confusion.classes) > MAX_CLASSES:
        return []
    return [
        (name, sum(row), [(n, n / sum(row) if sum(row) else 0.0, i == j) for j, n in enumerate(row)])
        for i, (name, row) in enumerate(zip(confusion.classes, confusion.counts, strict=True))
    ]


def _confused(confusion: Confusion | None) -> list[tuple[int, str, str]]:
    """The most frequent confusions (count, label, answer), where the matrix is too large to be shown."""
    if confusion is None or len(confusion.classes) <= MAX_CLASSES:
        return []
    classes = confusion.classes
    pairs = [(n, classes[i], classes[j]) for i, row in enumerate(confusion.counts) for j, n in enumerate(row) if i != j and n]
    return sorted(pairs, key=lambda pair: -pair[0])[:MAX_CLASSES]


def _case(case: FailingCase) -> dict[str, Any]:
    changed = [name for name in case.changed if name in case.case or name in case.seed]
    others = [name for name in case.case if name not in set(changed)]
    shown = (changed + others)[:MAX_CELLS]
    cells = [(name, case.seed.get(name, ""), case.case.get(name, ""), name in set(changed)) for name in shown]
    return {"case": case, "cells": cells, "more": len(changed) + len(others) - len(shown)}


def _when(moment: str) -> str:
    """ISO 8601 in UTC as people read it."""
    return moment[:16].replace("T", " ") + " UTC" if moment[10:11] == "T" else moment


def _markup(svg: str) -> Markup:
    # The plots escape their text themselves; nothing else is ever marked as safe.
    return Markup(svg)  # noqa: S704
