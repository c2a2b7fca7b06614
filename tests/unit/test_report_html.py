"""The HTML page: self-contained, escaped, bounded, complete."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path

import pytest
import report_sample as sample

from aitest_lib.reports import plots
from aitest_lib.reports.html import MAX_BYTES, MAX_CASES, render_html
from aitest_lib.reports.report import (
    CaseCounts,
    Confusion,
    FailingCase,
    FeatureFlip,
    GateResult,
    Metric,
    PropertyReport,
    RunReport,
)

EVIL = "<script>alert(1)</script>\"'&{{7*7}}\x00\x1b[31m\ud800"
VOID = {"meta", "input", "br", "hr", "link", "img"}


class Page(HTMLParser):
    """Tags, attributes and text of a page; fails on tags that are not closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.open: list[str] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] not in ("script", "style"):
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())


def evil_report() -> tuple[RunReport, dict[str, list[FailingCase]]]:
    metrics = [
        Metric(name=EVIL, value=None, n=3, reason=EVIL),
        Metric(name=EVIL, slice={EVIL: EVIL}, value=0.5, low=0.4, high=0.6, n=3, unit=EVIL),
        Metric(name="pass_rate", slice={"transform": EVIL, EVIL: 0.1}, value=0.5, low=0.4, high=None, n=3),
        Metric(name="pass_rate", slice={"transform": EVIL, EVIL: 0.2}, value=0.4, low=None, high=0.6, n=3),
    ]
    prop = PropertyReport(
        property=EVIL,
        status="failed",
        cases=CaseCounts(total=4, passed=1, failed=1, skipped=1, error=1),
        skipped={EVIL: 1},
        errors={EVIL: 1},
        metrics=metrics,
        gates=[GateResult(metric=m.name, slice=m.slice, min=0.9, verdict="failed", reason=EVIL) for m in metrics],
        explanation=EVIL,
        artifacts={"cases": EVIL},
        slices=[sample.finding(EVIL, EVIL, 40, 20, 0.5, 0.1, 0.2, 0.6, 0.001, True)],
        confusion=Confusion(classes=[EVIL, "b"], counts=[[1, 1], [1, 1]]),
        flips=[FeatureFlip(column=EVIL, seeds=2, flipped=1)],
        reason=EVIL,
    )
    case = FailingCase(
        case_id=EVIL,
        seed_id=EVIL,
        transform=EVIL,
        strength=None,
        expected=EVIL,
        observed=EVIL,
        score=0.5,
        explanation=EVIL,
        seed={EVIL: EVIL},
        case={EVIL: "x" + EVIL},
        changed=[EVIL],
    )
    other = case.model_copy(update={"transform": "b"})
    model = sample.report().model.model_copy(update={"name": EVIL, "version": EVIL, "revision": EVIL})
    run = sample.report(suite=EVIL, properties=[prop], info={EVIL: {EVIL: [EVIL]}}, warnings=[EVIL], model=model)
    return run, {EVIL: [case, other]}


def test_the_page_tells_the_whole_story() -> None:
    text = Page(render_html(sample.report(), sample.failures())).text
    for expected in (
        "2 of 7 gates failed, in tabular.robustness.",
        "adult-gbm",
        "16,281 rows, 6,000 seeds",
        "12,358",
        "31 of 16,281 rows were left out: label missing",
        "0.902 [0.884, 0.920] is below 0.95",
        "Failed, waived",
        "misclassified seed: 735",
        "timeout after 30 s: 2",
        "a label is zero, and the error relative to it has no meaning",
        "relationship = Husband",
        "94.3 %",
        "96 of 905, smallest 0.015 sd",
        "Failing cases: 30 of 287",
        "257 more failing cases are in the table of cases",
        "Where everything is tabular.robustness cases s3://audits/adult/7f3a/cases.parquet",
        "−0.024 [−0.049, 0.007]",
        "Weak spots What broke most was category_swap",
        "Gates 2 of 7 gates passed.",
        "Left out 1,269 of 5,800 cases were skipped",
        "hours-per-week 40 -> 39 (-0.08 sd)",
        "credit-risk",
        "20261129",
    ):
        assert expected in text


def test_changed_cells_are_marked_with_both_values() -> None:
    page = render_html(sample.report(), sample.failures(1))
    assert re.search(r'class="cell changed"><dt>hours-per-week, changed</dt><dd><del>40</del> → <ins>39</ins>', page)
    assert page.count('class="cell changed"') == 2
    assert '<div class="cell"><dt>race</dt><dd>White</dd>' in page


def test_everything_is_escaped() -> None:
    page = Page(render_html(*evil_report()))
    assert page.tags.count("script") == 1
    assert page.text.count("<script>alert(1)</script>") > 20
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    assert "{{7*7}}" in page.text
    assert "\x00" not in page.text
    assert "\x1b" not in page.text


def test_the_page_asks_for_nothing() -> None:
    page = render_html(sample.report(), sample.failures())
    assert not re.search(r"https?:|@import|url\(|\bfetch\b|XMLHttpRequest|localStorage|sessionStorage|document\.cookie", page)
    references = [
        value for name, value in Page(page).attributes if name in ("src", "href", "action", "srcset", "data", "xlink:href")
    ]
    assert references
    assert all(value.startswith("#") for value in references)


def test_a_hundred_thousand_failures_stay_small() -> None:
    run, cases = sample.report(), sample.failures(50)["tabular.robustness"] * 2000
    page = render_html(run, {"tabular.robustness": cases})
    assert len(page.encode()) < 1_000_000
    assert page.count('<article class="case"') == MAX_CASES
    assert "99,800 more failing cases are in" in page


def test_a_page_too_large_shows_fewer_cases() -> None:
    case = sample.failing_cases(1)[0]
    wide = {f"column {i}": "ü" * 5000 for i in range(500)}
    cases = [case.model_copy(update={"seed": wide, "case": wide, "changed": list(wide), "explanation": "x" * 100_000})] * 300
    names = [f"tabular.p{i}" for i in range(4)]
    run = sample.report(properties=[sample.robustness().model_copy(update={"property": name}) for name in names])
    page = render_html(run, dict.fromkeys(names, cases))
    assert len(page.encode()) <= MAX_BYTES
    assert 0 < page.count('<article class="case"') < 4 * MAX_CASES


def test_many_classes_gates_and_slices_stay_small() -> None:
    n = 300
    classes = [f"class {i}" for i in range(n)]
    prop = PropertyReport(
        property="image.generalization",
        status="failed",
        metrics=[sample.rate("recall", {"class": c}, 0.5, 0.1, 50) for c in classes],
        gates=[GateResult(metric="recall", slice={"class": c}, min=0.9, verdict="failed", reason="below") for c in classes],
        slices=[sample.finding("class", c, 50, 25, 0.5, 0.1, 0.3, 0.5, 0.001, True) for c in classes],
        confusion=Confusion(classes=classes, counts=[[int(j == i + 1) * (i + 1) for j in range(n)] for i in range(n)]),
    )
    page = render_html(sample.report(properties=[prop]), {})
    assert len(page.encode()) < 500_000
    text = Page(page).text
    assert "240 more gates are in report.json" in text
    assert "Most frequent confusions" in text
    assert "class 298 class 299 299" in text


@pytest.mark.parametrize("status", ["passed", "failed", "inconclusive", "unjudged", "error", "skipped"])
def test_an_empty_property_of_any_status_renders(status: str) -> None:
    prop = PropertyReport(property="tabular.robustness", status=status, reason="nothing to do")
    page = render_html(sample.report(status=status, properties=[prop]), {})
    assert f"<title>{status.capitalize()}: " in page
    assert "nothing to do" in Page(page).text


@pytest.mark.parametrize("palette", [plots.LIGHT, plots.DARK, plots.PAGE])
def test_figures_are_valid_xml_whatever_the_text(palette: plots.Palette) -> None:
    prop = evil_report()[0].properties[0]
    assert prop.confusion is not None
    figures = [
        plots.gates_plot(prop, palette),
        plots.metrics_plot(prop, "pass_rate", palette),
        plots.metrics_plot(prop, EVIL, palette),
        plots.flips_plot(prop, palette),
        plots.confusion_plot(prop.confusion, palette),
    ]
    for figure in figures:
        root = ET.fromstring(figure)
        assert root.tag == ("{http://www.w3.org/2000/svg}svg" if palette.standalone else "svg")
        assert not [e for e in root.iter() if e.tag.endswith("script")]
        assert ("var(--" in figure) is not palette.standalone


def test_figures_with_nothing_to_show_are_empty() -> None:
    prop = PropertyReport(property="tabular.robustness", status="skipped")
    assert plots.gates_plot(prop) == plots.metrics_plot(prop, "pass_rate") == plots.flips_plot(prop) == ""
    assert plots.confusion_plot(Confusion(classes=[], counts=[])) == ""


def test_a_whisker_lies_where_its_figures_are() -> None:
    root = ET.fromstring(plots.interval_mark(0.5, 0.25, 0.75, [1.0], (0.0, 1.0), "red", plots.LIGHT))
    space = "{http://www.w3.org/2000/svg}"
    dot = root.find(f"{space}circle")
    assert dot is not None
    assert dot.get("cx") == "130.0"
    whisker = [(e.get("x1"), e.get("x2")) for e in root.iter(f"{space}line") if "stroke:red" in (e.get("style") or "")]
    assert whisker == [("69.0", "191.0"), ("69.0", "69.0"), ("191.0", "191.0")]
    threshold = [e.get("x1") for e in root.iter(f"{space}line") if "3 2" in (e.get("style") or "")]
    assert threshold == ["252.0"]


def test_a_sweep_is_joined_and_other_components_are_points() -> None:
    root = ET.fromstring(plots.metrics_plot(sample.robustness(), "pass_rate"))
    space = "{http://www.w3.org/2000/svg}"
    lines = list(root.iter(f"{space}polyline"))
    assert len(lines) == 1
    heights = [float(point.split(",")[1]) for point in (lines[0].get("points") or "").split()]
    assert heights == sorted(heights)
    assert len(heights) == 3
    assert len(list(root.iter(f"{space}circle"))) == 5


def luminance(colour: str) -> float:
    """Relative luminance of `#rrggbb` (WCAG 2.2)."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("palette", [plots.LIGHT, plots.DARK])
def test_text_is_readable_in_both_themes(palette: plots.Palette) -> None:
    for name in ("ink", "muted", "accent", "passed", "failed", "inconclusive"):
        lights = sorted((luminance(getattr(palette, name)), luminance(palette.surface)))
        assert (lights[1] + 0.05) / (lights[0] + 0.05) >= 4.5, name


def test_figures_alone_and_in_the_page_have_the_same_colours() -> None:
    css = (Path(plots.__file__).parent / "templates" / "report.css").read_text()
    light, dark = css.split("@media (prefers-color-scheme: dark)")[:2]
    for palette, block in ((plots.LIGHT, light), (plots.DARK, dark)):
        for name in ("ink", "muted", "grid", "surface", "accent", "passed", "failed", "inconclusive"):
            assert f"--{name}: {getattr(palette, name)};" in block
