"""What people see of tabular fairness: the page, the terminal, Markdown and the table of a bias audit."""

from __future__ import annotations

import csv
import re
from html import unescape
from io import StringIO

import fairness_sample as sample
import pytest
from fairness_cases import cases, hostile
from fairness_records import attribute
from rich.console import Console

from aitest_flows.render import print_report
from aitest_lib.reports.bias_audit import COLUMNS, bias_audit_csv
from aitest_lib.reports.explain import explain_property
from aitest_lib.reports.fairness_text import NARROWEST, fairness_lines
from aitest_lib.reports.html import MAX_BYTES, render_html
from aitest_lib.reports.records_fairness import Attribute, GroupReport
from aitest_lib.reports.report import CaseCounts, PropertyReport, SliceFinding
from aitest_lib.reports.tables import to_markdown

EVIL = "<script>alert(1)</script>\"'&{{7*7}}\x00\x1b[31m\ud800"
LONG = [f"Country number {place} of the very long names of this world" for place in range(50)]


def text_of(page: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", re.sub(r"(?s)<(script|style)>.*?</\1>", "", page))).split())


def shown(prop: PropertyReport) -> str:
    return text_of(render_html(sample.run_report(prop), {}))


# The page


def test_the_page_tells_of_groups() -> None:
    text = shown(sample.groups())
    for expected in (
        "Selected: the answer >50K. Reference: Male, named in the suite. p of “all groups are served alike”: <0.001.",
        "Dashed: 0.8, the gate.",
        "Female 4,902 rows, 32.1 %",
        "0.294 [0.270, 0.321]",
        "Left out by request: Unknown (3 rows).",
        "Not compared: sex × age: 94 of its 118 groups",
        "Unjudged Female × Other has 7 rows, and at least 10 are needed",
        "Category Applicants Selected Selection rate Impact ratio Male 10,380 2,667 0.257 1.000 Female 4,902 370 0.075 0.294",
        "average odds difference",
        "gap −0.130 [−0.168, −0.093]",
        "each group against all other rows",
        "all pairs of groups",
        "By sex, on the scores Selected: a score above the median of all rows.",
        "Group Scoring rate",
        "Female against Male Flagged education = Masters 212 540 0.335 0.744 −0.410 [−0.468, −0.346]",
        "native-country",
    ):
        assert expected in text, expected
    assert "Where it breaks" not in text


def test_slices_by_wrong_answers_are_headed_as_such_on_the_page_and_in_markdown() -> None:
    cut = SliceFinding(
        name="sex",
        value="Female",
        seeds=100,
        failing=30,
        rate=0.3,
        rest_rate=0.1,
        difference=0.2,
        low=0.1,
        high=0.3,
        q_value=0.001,
        flagged=True,
    )
    prop = sample.groups(slices=[cut], cases=CaseCounts(total=1400, passed=1400))
    text, markdown = shown(prop), to_markdown(sample.run_report(prop))
    assert "Slices by wrong answers, worst first Share of rows answered otherwise than labelled in the slice and in" in text
    assert "Answered otherwise Here" in text
    assert "1,400 answered" in text and "1,400 passed" not in text
    assert "### Slices by wrong answers, worst first" in markdown
    assert "| slice | answered otherwise than labelled | rate |" in markdown
    for told in (text, explain_property(prop, 0.95)):
        assert "fails more" not in told and "It fails" not in told
    assert "Rows are answered otherwise than labelled more often in sex = Female" in explain_property(prop, 0.95)
    quiet = sample.groups(slices=[cut.model_copy(update={"flagged": False})])
    assert "No slice is answered otherwise than labelled more than the rest" in explain_property(quiet, 0.95)


def test_the_page_says_what_is_assumed_cut_and_undefined() -> None:
    assert "Nobody named the favourable answer: each answer is looked at against the rest" in shown(sample.classes())
    assert "Groups: age was cut into 2 groups of about equal size." in shown(sample.numbers())
    nobody = Attribute(name="sex", columns=["sex"], favorable="yes", reference=None, groups=[])
    lone = sample.groups(groups=GroupReport(selection="decision", assumed=True, rows=9, attributes=[nobody]))
    assert "Nobody named the favourable answer: the answer yes is assumed to be it." in shown(lone)
    text = shown(sample.undefined())
    assert "undefined the reference group's rate is 0" in text
    assert "Unjudged there is one group" in text
    assert not re.search(r"\bnan\b|\bNone\b", text)


def test_the_page_tells_of_pairs() -> None:
    prop = sample.pairs()
    page = render_html(sample.run_report(prop), cases())
    text = text_of(page)
    for expected in (
        "Prevalence on real rows 0.091 [0.081, 0.103], 183 of 2,000 rows",
        "Without contradicted counterparts 0.046 [0.037, 0.057], 57 of 1,240 rows",
        "because the data contradict them: relationship = Husband goes with sex = Male; relationship = Wife",
        "race = Black with sex = Female 118 of 1,902 rows",
        "undefined no row got these values",
        "Per 1,000 queries 55.2",
        "Regions reached 37 of 64",
        "how common they are is not",
        "Pairs decided differently: 4 of 183",
        "as it is >50K with the other values <=50K (0.440)",
        "sex, changed Male → Female",
        "Pairs that the search found",
        "they are no cases and count in no figure above",
    ):
        assert expected in text, expected
    assert "Not changed, because the model is not sent them: sex and race." in shown(sample.blind())


def test_the_page_tells_of_directions() -> None:
    page = render_html(sample.run_report(sample.directions()), cases())
    text = text_of(page)
    for expected in (
        "hours-per-week ↗ more of it should never lower the score of >50K",
        "0.424 [0.388, 0.461] 212 of 500 rows",
        "age ↗ more of it should never hurt undefined no row was answered",
        "hours-per-week 40 45 166 of 500 0.061 0.190",
        "capital-loss 500 2000 31 of 400 – –",
        "Moves against the expectation: 6 of 243",
        "before 0.61 after 0.42",
    ):
        assert expected in text, expected
    assert page.count('aria-label="hours-per-week: mean of the score of &gt;50K at 20 0.180') == 1


def test_a_page_of_fifty_groups_stays_small_and_shows_the_worst() -> None:
    prop = sample.many(LONG)
    page = render_html(sample.run_report(prop), {})
    assert len(page.encode()) < MAX_BYTES
    assert "Country number 49 of the very long names of this world" in page
    more = shown(sample.many([f"{name}{place}" for place in range(4) for name in LONG]))
    assert "140 more groups, served better than the last of these, are in report.json." in more
    assert "this world3" in more


def test_everything_on_the_page_is_escaped() -> None:
    page = render_html(*hostile(EVIL))
    assert page.count("<script>") == 1
    assert page.count("&lt;script&gt;alert(1)") > 60
    assert "{{7*7}}" in page
    assert "\x00" not in page
    assert not re.search(r"https?:|@import|url\(|\bfetch\b", page)


# The bias audit, the terminal, Markdown


def rows_of(groups: GroupReport | None) -> list[dict[str, str]]:
    assert groups is not None
    return list(csv.DictReader(StringIO(bias_audit_csv(groups))))


def test_the_bias_audit_has_a_line_a_group() -> None:
    found = rows_of(sample.groups().groups)
    assert tuple(found[0]) == COLUMNS
    assert len(found) == 2 + 5 + 1 + 8
    assert list(found[1].values()) == [
        *("sex", "Female", "4902", "370", "0.0754794", "0.0695048", "0.0819223"),
        *("0.293767", "0.269689", "0.320705", "Male"),
    ]
    [left_out] = [row for row in found if row["category"] == "Unknown"]
    assert (left_out["applicants"], left_out["selected"], left_out["impact_ratio"]) == ("3", "", "")


def test_what_is_undefined_is_empty_in_the_bias_audit() -> None:
    women = rows_of(sample.undefined().groups)[1]
    assert (women["selected"], women["rate"], women["impact_ratio"], women["impact_ratio_low"]) == ("0", "0", "", "")
    assert {row["attribute"] for row in rows_of(sample.classes().groups)} == {
        f"sex, {answer} against the rest" for answer in ("approved", "referred", "refused")
    }


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@SUM(A1)", "  =1+1", "\t=1", 'a,b\n"c"', "é", "=" * 3])
def test_no_cell_of_the_bias_audit_is_a_formula(name: str) -> None:
    item = attribute(name, {name: (10, 0, 0, 5), "b": (10, 0, 0, 2)}, labelled=False, excluded={name: 1})
    found = rows_of(GroupReport(selection="decision", rows=20, attributes=[item]))
    for row in found:
        for key in ("attribute", "category", "reference"):
            assert row[key].lstrip()[:1] not in ("=", "+", "-", "@")
    assert found[0]["category"].removeprefix("'") == name


@pytest.mark.parametrize("width", [20, 70, 80, 200])
def test_the_terminal_shows_a_line_a_group_and_a_column(width: int) -> None:
    lines = [
        line
        for prop in (sample.groups(), sample.pairs(), sample.directions(), sample.many(LONG))
        for line in fairness_lines(prop, width)
    ]
    assert max(map(len, lines)) <= max(width, NARROWEST)
    text = "\n".join(lines)
    assert re.search(r"Female +4,902 +0\.075 +0\.294 \[0\.270, 0\.321\]", text)
    assert re.search(r"Male +10,380 +0\.257 +reference", text)
    assert "decided otherwise: 0.091 [0.081, 0.103] of 2,000 rows" in text
    assert "found by a search: 1,104 more with 20,000 queries" in text
    assert re.search(r"hours-per-week +0\.424 \[0\.388, 0\.461\] of 500 rows", text)
    assert re.search(r"age +no row was answered", text)
    assert "and 20 more groups" in text
    assert re.search("Country number 49", text)


def test_the_terminal_prints_the_groups_below_the_paragraph() -> None:
    console = Console(width=100, record=True, file=StringIO())
    print_report(sample.run_report(sample.undefined(), sample.blind()), console)
    said = console.export_text()
    assert re.search(r"Female +3 +0\.000 +undefined", said)
    assert "unjudged: there is one group" in said
    assert "decided otherwise" not in said  # nobody was asked


def test_markdown_has_the_paragraph_and_the_figures() -> None:
    said = to_markdown(sample.run_report())
    assert "the lowest impact ratio is 0.294 [0.270, 0.321], of Female (4,902 rows)" in said
    assert "| violation_rate | column = hours-per-week | 0.424 | [0.388, 0.461] |" in said
