"""The page of tabular fairness in a real browser: wide and narrow, light and dark, everything open, with hostile names."""

from __future__ import annotations

import shutil

import fairness_sample as sample
import pytest
from browsing import show
from fairness_cases import cases, hostile
from selenium import webdriver
from selenium.webdriver.common.by import By

from aitest_lib.reports.html import render_html

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None or DRIVER is None, reason="chromium or chromedriver is not installed"),
]
LONG = "W" * 60 + "<script>window.hacked = true</script>"
COUNTRIES = [f"Country number {place} of the very long names of this world" for place in range(50)]
OPEN = "document.querySelectorAll('details').forEach(one => { one.open = true; })"
WIDE = "return [document.documentElement.scrollWidth, document.documentElement.clientWidth]"
OUTSIDE = """
    const edge = document.documentElement.clientWidth + 1;
    return [...document.querySelectorAll("main *")].filter(one => one.offsetParent && !one.closest(".scroll")
        && one.getBoundingClientRect().right > edge).map(one => one.tagName + one.className + one.textContent);
"""
BEYOND = """
    const edges = one => one.getBoundingClientRect();
    return [...document.querySelectorAll(".scale svg text")].filter(one => edges(one).width
        && (edges(one).right > edges(one.ownerSVGElement).right + 0.5
            || edges(one).left < edges(one.ownerSVGElement).left - 0.5)).map(one => one.textContent);
"""
OVERLAPS = """
    const boxes = [...arguments[0].querySelectorAll("text")].map(one => [one.textContent, one.getBoundingClientRect()]);
    const meet = (a, b) => a.left < b.right && b.left < a.right && a.top + 1 < b.bottom && b.top + 1 < a.bottom;
    return boxes.flatMap(([text, box], i) =>
        boxes.slice(i + 1).filter(([_, other]) => meet(box, other)).map(([other]) => text + " / " + other));
"""
CUT = """
    const edge = arguments[0].getBoundingClientRect();
    return [...arguments[0].querySelectorAll("text")].map(one => [one.textContent, one.getBoundingClientRect()])
        .filter(([_, box]) => box.right > edge.right + 1 || box.left < edge.left - 1).map(([text]) => text);
"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The addresses of a page, of one with many groups and what is undefined, and of one in which every name is hostile."""
    folder = tmp_path_factory.mktemp("pages")
    others = [sample.numbers(), sample.classes(), sample.undefined(), sample.blind(), sample.many(COUNTRIES)]
    made = {
        "plain": render_html(sample.run_report(), cases()),
        "many": render_html(sample.run_report(*others), {}),
        "hostile": render_html(*hostile(LONG)),
    }
    found = {}
    for name, page in made.items():
        file = folder / f"{name}.html"
        file.write_text(page, encoding="utf-8")
        found[name] = file.as_uri()
    return found


@pytest.mark.parametrize("width", [390, 560, 700, 900, 1400])
@pytest.mark.parametrize("name", ["plain", "many", "hostile"])
def test_nothing_overflows_closed_or_open(browser: webdriver.Chrome, pages: dict[str, str], name: str, width: int) -> None:
    show(browser, pages[name], width)
    for _ in range(2):
        wide, inner = browser.execute_script(WIDE)
        assert wide <= inner
        assert browser.execute_script(OUTSIDE) == []
        browser.execute_script(OPEN)
    assert browser.execute_script("return window.hacked") is None
    assert [entry for entry in browser.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")] == []


@pytest.mark.parametrize("width", [390, 700, 1400])
def test_no_labels_of_a_curve_meet_or_are_cut(browser: webdriver.Chrome, pages: dict[str, str], width: int) -> None:
    show(browser, pages["plain"], width)
    figures = browser.find_elements(By.CSS_SELECTOR, ".moved svg, .searched svg")
    assert len(figures) == 4
    assert [browser.execute_script(OVERLAPS, figure) for figure in figures] == [[]] * 4
    assert [browser.execute_script(CUT, figure) for figure in figures] == [[]] * 4


@pytest.mark.parametrize("width", [390, 1400])
def test_a_group_has_its_bars_and_its_figures(browser: webdriver.Chrome, pages: dict[str, str], width: int) -> None:
    show(browser, pages["plain"], width)
    rows = browser.find_elements(By.CSS_SELECTOR, ".fair")[0].find_elements(By.CSS_SELECTOR, "tbody tr:not(.scale)")
    assert len(rows) == 2
    women = rows[1]
    bars = [mark.size["width"] for mark in women.find_elements(By.CSS_SELECTOR, ".plot svg")]
    assert len(bars) == 2
    assert min(bars) >= 110
    assert "0.294" in women.text
    assert women.is_displayed()


def test_the_story_can_be_read_in_both_schemes(browser: webdriver.Chrome, pages: dict[str, str]) -> None:
    colour = "return getComputedStyle(document.querySelector('.fair .plot rect + g rect, .fair .plot rect + rect')).fill"
    seen = set()
    for dark in (False, True):
        show(browser, pages["plain"], 1200, dark)
        seen.add(browser.execute_script(colour))
    assert len(seen) == 2


def test_pairs_are_found_by_their_values(browser: webdriver.Chrome, pages: dict[str, str]) -> None:
    show(browser, pages["plain"], 1200)
    box = browser.find_elements(By.CSS_SELECTOR, ".filter")[0]
    box.find_element(By.TAG_NAME, "input").send_keys("White")
    assert box.find_element(By.TAG_NAME, "output").text == "4 of 4 shown"
    changed = browser.find_elements(By.CSS_SELECTOR, ".case")[0].find_elements(By.CSS_SELECTOR, ".cell.changed")
    assert [cell.find_element(By.TAG_NAME, "dt").text for cell in changed] == ["sex, changed", "race, changed"]


def test_no_label_of_a_scale_is_cut_at_its_edge(browser: webdriver.Chrome, pages: dict[str, str]) -> None:
    show(browser, pages["plain"], 1100)
    browser.execute_script(OPEN)
    assert browser.execute_script(BEYOND) == []
