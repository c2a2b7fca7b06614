"""What the page and the pictures show of trees and of synthesized rows: complete, escaped, bounded."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import pytest
import report_sample
import tree_sample as sample

from aitest_lib.reports import plots, tree_plots, tree_svg, tree_view
from aitest_lib.reports.explain_synthesis import synthesis_sentences
from aitest_lib.reports.html import MAX_BYTES, render_html
from aitest_lib.reports.html_trees import tree_view as view_of
from aitest_lib.reports.report import ColumnShift, FrontPoint, PropertyReport, RunReport, SynthesisReport, TreeNode, TreeReport

EVIL = "<script>alert(1)</script>\"'&{{7*7}}\x00\x1b[31m\ud800\u202e\u05d0"
NAME = "tabular.tree_simulatability"
VOID = {"meta", "input", "br", "hr", "link", "img"}


class Page(HTMLParser):
    """The tags of a page, which must be closed in order, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] not in ("script", "style"):
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())

    def with_class(self, name: str) -> list[dict[str, str | None]]:
        return [attributes for _, attributes in self.tags if name in (attributes.get("class") or "").split()]


def deep(text: str, leaves: int, rows: int = 3) -> TreeNode:
    """A tree of so many leaves in which everything is `text`, all but balanced."""
    if leaves == 1:
        examples = [{f"{text}{i}": text for i in range(40)}] * 9
        return TreeNode(answer=text, rows=rows, agree=1, counts={f"{text}{i}": 1 for i in range(40)}, examples=examples)
    yes, no = deep(text, leaves // 2, rows), deep(text, leaves - leaves // 2, rows)
    inner = {"rows": yes.rows + no.rows, "agree": yes.agree + no.agree, "yes": yes, "no": no}
    return TreeNode(answer=text, test=text, negation=text, counts={}, **inner)


def hostile(text: str, leaves: int) -> PropertyReport:
    fields = {"fidelity": 0.4, "low": 0.3, "high": 0.5, "apl": 2.0, "epl": 2.0, "mpl": 3}
    tree = TreeReport(
        root=deep(text, leaves),
        columns=[text] * 40,
        classes=[text, "b"],
        front=[FrontPoint(leaves=n, chosen=n == 3, **fields) for n in (1, 3)],
        generation=text,
        grown_on=3,
        generated=4,
        pruned_on=5,
        held_out=3 * leaves,
        missed=text,
        repeated=2,
    )
    return sample.property_report(8, tree=tree, artifacts={text: text})


@pytest.mark.parametrize("leaves", [1, 8, 64, 300])
def test_the_page_shows_the_whole_tree(leaves: int) -> None:
    run = sample.run_report(leaves)
    prop = run.properties[0]
    assert prop.tree is not None
    found = tree_view.places(prop.tree.root)
    page = Page(render_html(run, {NAME: sample.cases(leaves, 3)}))
    nodes = [attributes for tag, attributes in page.tags if tag == "details" and "node" in (attributes.get("class") or "")]
    assert len(nodes) == len(found)
    assert len(page.with_class("leaf")) == found[0].leaves
    opened = sum("open" in attributes for attributes in nodes)
    assert opened == (found[0].leaves - 1 if leaves <= 16 else 9)
    for place in found:
        assert tree_view.condition(place.rule[-1] if place.rule else "every row") in page.text
    for words in ("Fidelity 0.", "Majority class alone 0.789", "class_fidelity", "stability", "held-out rows. Agrees"):
        assert words in page.text
    assert f"Leaves {found[0].leaves} Longest path" in page.text
    assert "Rows on which tree and model differ: 3 of" in page.text
    assert "the tree says " in page.text
    assert page.with_class("worst") != [] and 0 < page.text.count("what the model answers") <= 15
    assert len(page.with_class("chosen")) == 1


def test_limits_missed_and_repeats_stand_where_they_are_seen() -> None:
    tree = sample.tree_report(64).model_copy(update={"missed": "the nearest has mpl 15", "repeated": 75})
    few = tree.model_copy(update={"repeated": 74})
    calm = Page(render_html(sample.run_report(64, properties=[sample.property_report(64, tree=few)]), {})).text
    assert "Before you rely" not in calm and "74 of 1,500 held-out rows" in calm
    text = Page(render_html(sample.run_report(64, properties=[sample.property_report(64, tree=tree)]), {})).text
    assert "Gates The gates are missed: the nearest has mpl 15." in text
    assert "Before you rely on the fidelity 75 of 1,500 held-out rows equal rows" in text
    assert "breaks mpl" in text and "breaks fidelity" in text and "kept" in text


def test_hostile_names_stay_text_in_the_page_and_the_pictures() -> None:
    prop = hostile(EVIL, 40)
    synthesis = SynthesisReport(
        rows=3,
        method=EVIL,
        from_rows=4,
        rules=[EVIL],
        tied=[[EVIL]],
        found_tied=[[EVIL]],
        shifts=[ColumnShift(column=EVIL, distance=1)],
    )
    text = render_html(sample.run_report(properties=[prop], synthesis=synthesis), {NAME: sample.cases(8, 2)})
    page = Page(text)
    assert [tag for tag, _ in page.tags].count("script") == 1
    assert "<script>alert" not in text
    assert "{{7*7}}" in page.text
    assert not re.search("[\x00-\x08\x0b-\x1f\ud800]", text)
    assert prop.tree is not None
    for svg in (tree_svg.tree_svg(prop.tree), tree_plots.front_svg(prop)):
        assert {element.tag.rpartition("}")[2] for element in ET.fromstring(svg).iter()} <= {
            *("svg", "g", "rect", "text", "title", "path", "line", "circle")
        }


@pytest.mark.parametrize("text", ["", "x" * 3000, "\u05d0" * 400])
def test_the_page_of_the_largest_tree_stays_small(text: str) -> None:
    page = render_html(sample.run_report(properties=[hostile(text, 512)]), {})
    assert len(page.encode()) <= MAX_BYTES
    assert len(Page(page).with_class("leaf")) == 512


def test_a_page_that_must_shrink_leaves_out_the_rows_of_the_leaves_then_the_text_of_the_tree() -> None:
    prop = sample.property_report(8)
    full, small, none = (view_of(prop, limit) or {} for limit in (200, 40, 0))
    assert [max(len(line["examples"]) for line in view["lines"]) for view in (full, small)] == [2, 0]
    assert none["lines"] == []
    assert len(none["worst"]) == len(full["worst"])


def test_a_property_without_a_tree_has_no_section() -> None:
    assert view_of(report_sample.robustness(), 200) is None
    assert Page(render_html(report_sample.report(), {})).with_class("tree") == []


@pytest.mark.parametrize("leaves", [1, 8, 64, 300])
@pytest.mark.parametrize("palette", [plots.LIGHT, plots.DARK, plots.PAGE])
def test_the_picture_is_folded_and_says_so(leaves: int, palette: plots.Palette) -> None:
    tree = sample.tree_report(leaves)
    picture = ET.fromstring(tree_svg.tree_svg(tree, palette))
    titles = ["".join(title.itertext()) for title in picture.iter() if title.tag.endswith("title")]
    ends = [title for title in titles if not re.search(r"\? \d+ lea", title)]
    folded = [int(n) for text in texts(picture) for n in re.findall(r"^(\d+) leaves folded$", text)]
    assert len(ends) + len(folded) <= tree_svg.MAX_ENDS
    assert len(ends) + sum(folded) == tree_view.places(tree.root)[0].leaves
    assert bool(folded) == (leaves > tree_svg.MAX_ENDS)
    assert (picture.tag == "{http://www.w3.org/2000/svg}svg") == palette.standalone
    assert float(picture.get("width", "0")) == pytest.approx(tree_svg.picture_width(tree), abs=1)
    for words in ("upper branch: yes", "<=50K", "all rows, agrees "):
        assert any(words in text for text in texts(picture))


def texts(picture: ET.Element) -> list[str]:
    return ["".join(text.itertext()) for text in picture.iter() if text.tag.endswith("text")]


def test_the_bands_are_as_wide_as_their_share_of_the_rows() -> None:
    tree = sample.tree_report(8)
    picture = ET.fromstring(tree_svg.tree_svg(tree, plots.PAGE))
    widths = [float(re.findall(r"stroke-width:([\d.]+)", path.get("style", ""))[0]) for path in picture.iter("path")]
    root = tree.root
    assert root.yes is not None and root.no is not None
    assert sum(widths[:2]) == pytest.approx(tree_svg.BAND, abs=0.05)
    assert widths[0] / widths[1] == pytest.approx(root.yes.rows / root.no.rows, rel=0.01)


@pytest.mark.parametrize(
    "text", ["marital-status is Married-civ-spouse", "W" * 200, "\u6f22" * 90, "a", "", "x " * 80, "\u05d0\u05d1" * 70]
)
def test_text_is_cut_to_its_box(text: str) -> None:
    lines = tree_svg.wrapped(text, 148)
    assert 1 <= len(lines) <= 2
    assert all(tree_svg.text_width(line, 12) <= 148 for line in lines)
    assert tree_svg.text_width(tree_svg.fitted(text, 148, 13), 13, bold=True) <= 148


def test_a_regressor_has_a_legend_of_its_range_and_no_counts() -> None:
    low, high = (TreeNode(answer=answer, rows=50, agree=40) for answer in ("12.5", "99"))
    root = TreeNode(answer="50", rows=100, agree=80, test="x <= 1", negation="x > 1", yes=low, no=high)
    tree = sample.tree_report(8).model_copy(update={"root": root, "classes": [], "front": []})
    prop = sample.property_report(8, tree=tree)
    words = texts(ET.fromstring(tree_svg.tree_svg(tree)))
    assert {"lowest 12.5", "highest 99"} <= set(words)
    text = Page(render_html(sample.run_report(properties=[prop]), {})).text
    assert "The tree answers 12.5: it differs on 10 of 50 held-out rows." in text
    assert "Smaller and larger trees" not in text
    assert tree_plots.front_svg(prop) == ""


def test_the_front_shows_every_tree_the_chosen_one_and_the_limits() -> None:
    prop = sample.property_report(64)
    assert prop.tree is not None
    for size, limits in (("mpl", 2), ("leaves", 1)):  # a limit on the fidelity, and one on mpl
        panel = ET.fromstring(tree_plots.front_panel(prop, size, plots.PAGE))
        assert len(list(panel.iter("circle"))) == len(prop.tree.front) + 1
        dashes = [line.get("style", "").rpartition(":")[2] for line in panel.iter("line")]
        assert (dashes.count("5 3"), dashes.count("1 4")) == (limits, 1)
        hollow = [c for c in panel.iter("circle") if "fill:var(--surface)" in c.get("style", "")]
        assert len(hollow) == sum(bool(tree_view.broken_limits(point, prop)) for point in prop.tree.front)
    assert tree_plots.front_svg(prop).count("<circle") == 2 * (len(prop.tree.front) + 1)
    assert tree_plots.front_svg(report_sample.robustness()) == ""


@pytest.mark.parametrize("front", [[(1, 0, 0.5)], [(1, 0, 1.0), (512, 40, 1.0)], [(2, 1, 0.0)]])
def test_the_front_of_few_trees_is_drawn(front: list[tuple[int, int, float]]) -> None:
    points = [FrontPoint(leaves=n, mpl=m, fidelity=f, low=f, high=f, apl=m, epl=m) for n, m, f in front]
    tree = sample.tree_report(8).model_copy(update={"front": points})
    ET.fromstring(tree_plots.front_svg(sample.property_report(8).model_copy(update={"tree": tree, "metrics": [], "gates": []})))


def synthesized() -> RunReport:
    found = SynthesisReport(
        rows=10_000,
        method="swap",
        from_rows=6_000,
        auc=0.62,
        auc_low=0.61,
        auc_high=0.63,
        rules=["age >= 17"],
        tied=[["education", "education-num"]],
        found_tied=[["relationship", "sex"]],
        rule_violations=1,
        paths=64,
        feasible=60,
        reached=58,
        shifts=[ColumnShift(column="sex", distance=0.02), ColumnShift(column="age", distance=0.4, asked=True)],
    )
    return sample.run_report(8, synthesis=found)


def test_synthesized_rows_are_told_in_sentences_and_shown_with_their_shifts() -> None:
    run = synthesized()
    assert run.synthesis is not None
    told = synthesis_sentences(run.synthesis)
    assert told == [
        "The seeds are 10,000 rows synthesized from 6,000 real rows by swapping cells between alike rows; each keeps the label "
        "of the row that it descends from, which what was changed may have made wrong.",
        "A classifier tells them from real rows with difficulty: its AUC is 0.620 [0.610, 0.630] "
        "(0.5: not at all, 1: always; the columns that were asked to drift aside).",
        "1 row breaks a rule (1 rule) and no row breaks a tie of columns (2 groups, 1 of them found in the data).",
        "They take 58 of the 60 feasible paths of the surrogate tree; the other 4 no row can take.",
    ]
    page = Page(render_html(run, {}))
    assert all(sentence in page.text for sentence in told)
    assert page.text.index("age asked for 0.400") < page.text.index("sex 0.020")
    assert "education, education-num" in page.text


def test_little_to_say_of_synthesized_rows_is_little_said() -> None:
    [only] = synthesis_sentences(SynthesisReport(rows=1, method="coverage", from_rows=1, labels=False))
    assert only.endswith("so that every path of the surrogate tree is taken; they have no labels.")
