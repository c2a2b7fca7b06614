"""The page of a surrogate tree in a real browser: small to large trees, wide and narrow, by mouse and by keyboard."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import tree_sample as sample
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from aitest_lib.reports.html import render_html
from aitest_lib.reports.plots import LIGHT
from aitest_lib.reports.report import ColumnShift, PropertyReport, SynthesisReport, TreeNode
from aitest_lib.reports.tree_plots import front_svg
from aitest_lib.reports.tree_svg import tree_svg

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None or DRIVER is None, reason="chromium or chromedriver is not installed"),
]
SIZES = (8, 64, 300)
LONG = "W" * 90 + " " + "\u6f22\u5b57" * 40 + " \u05d0\u05d1\u05d2" * 12 + "<script>window.hacked = true</script>"
OVERLAPS = """
    const boxes = [...arguments[0].querySelectorAll("text")].filter(one => one.textContent.trim())
        .map(one => [one.textContent, one.getBoundingClientRect()]);
    const cut = 0.5;  // px that neighbours may share
    const meet = (a, b) => a.left + cut < b.right && b.left + cut < a.right && a.top + cut < b.bottom && b.top + cut < a.bottom;
    return boxes.flatMap(([text, box], i) =>
        boxes.slice(i + 1).filter(([_, other]) => meet(box, other)).map(([other]) => text + " / " + other));
"""
SPILLS = """
    return [...arguments[0].querySelectorAll("g")].flatMap(group => {
        const frames = [...group.querySelectorAll("rect")].map(one => one.getBBox());
        const frame = frames.reduce((a, b) => a.width >= b.width ? a : b);
        return [...group.querySelectorAll("text")].map(text => [text.textContent, text.getBBox()])
            .filter(([_, box]) => box.x < frame.x || box.x + box.width > frame.x + frame.width).map(([text]) => text);
    });
"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[int, str]:
    """The address of the page of each size; 0: everything has a very long name."""
    folder = tmp_path_factory.mktemp("pages")
    shifts = [ColumnShift(column="age", distance=0.4, asked=True), ColumnShift(column="hours-per-week", distance=0.02)]
    synthesis = SynthesisReport(rows=9, method="swap", from_rows=9, auc=0.6, rules=["age >= 17 and age <= 90"], shifts=shifts)
    runs = {n: sample.run_report(n, synthesis=synthesis) for n in SIZES}
    runs[0] = sample.run_report(properties=[long_names()])
    found = {}
    for n, run in runs.items():
        file = folder / f"{n}.html"
        cases = sample.cases(n, 12) if n else []
        file.write_text(render_html(run, {"tabular.tree_simulatability": cases}), encoding="utf-8")
        found[n] = file.as_uri()
    return found


def long_names() -> PropertyReport:
    """A small tree in which every name is very long."""
    ends = [
        TreeNode(answer=f"{i}{LONG}", rows=40, agree=9 * i, counts={f"{i}{LONG}": 9 * i}, examples=[{LONG: LONG}])
        for i in range(4)
    ]
    while len(ends) > 1:
        yes, no = ends.pop(0), ends.pop(0)
        fields = {"rows": yes.rows + no.rows, "agree": yes.agree + no.agree, "yes": yes, "no": no}
        ends.append(TreeNode(answer=yes.answer, test=f"{LONG} <= 1", negation=f"{LONG} > 1", **fields))
    tree = sample.tree_report(8).model_copy(
        update={"root": ends[0], "classes": [f"{i}{LONG}" for i in range(4)], "missed": LONG}
    )
    return sample.property_report(8, tree=tree)


def opened(browser: webdriver.Chrome, address: str, width: int) -> webdriver.Chrome:
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get(address)
    return browser


@pytest.mark.parametrize("width", [390, 880, 1400])
@pytest.mark.parametrize("leaves", [0, *SIZES])
def test_nothing_overflows_and_nothing_is_complained_of(
    browser: webdriver.Chrome, pages: dict[int, str], leaves: int, width: int
) -> None:
    page = opened(browser, pages[leaves], width)
    page.execute_script("document.querySelectorAll('.tree details, .worst details').forEach(one => { one.open = true; })")
    wide, inner = page.execute_script("return [document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    assert wide <= inner
    cut = """return [...document.querySelectorAll(".tree, .inside, .worst, .shifts, .front, .facts")]
        .filter(box => [box, box.parentElement].some(one => one.scrollWidth > one.clientWidth + 1))
        .map(box => box.className)"""
    assert page.execute_script(cut) == []
    assert page.execute_script("return window.hacked") is None
    assert page.execute_script("return performance.getEntriesByType('resource').map(entry => entry.name)") == []
    assert [entry for entry in page.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")] == []


@pytest.mark.parametrize("leaves", [0, *SIZES])
def test_the_text_of_the_pictures_never_overlaps(browser: webdriver.Chrome, pages: dict[int, str], leaves: int) -> None:
    page = opened(browser, pages[leaves], 1400)
    pictures = page.find_elements(By.CSS_SELECTOR, ".picture svg, .front svg")
    assert len(pictures) == 3
    assert [page.execute_script(OVERLAPS, picture) for picture in pictures] == [[], [], []]
    assert page.execute_script(SPILLS, pictures[0]) == []


def test_the_pictures_that_stand_alone_are_read_as_well(browser: webdriver.Chrome, tmp_path: Path) -> None:
    for name, text in (("tree", tree_svg(sample.tree_report(300), LIGHT)), ("front", front_svg(sample.property_report(64)))):
        file = tmp_path / f"{name}.svg"
        file.write_text(text, encoding="utf-8")
        picture = opened(browser, file.as_uri(), 1400).find_element(By.CSS_SELECTOR, "svg")
        assert browser.execute_script(OVERLAPS, picture) == []


@pytest.mark.parametrize("leaves", SIZES)
def test_the_tree_unfolds_by_keyboard(browser: webdriver.Chrome, pages: dict[int, str], leaves: int) -> None:
    page = opened(browser, pages[leaves], 880)
    first = page.find_element(By.CSS_SELECTOR, ".tree summary")
    visible = "return [...document.querySelectorAll('.tree summary')].filter(one => one.checkVisibility()).length"
    before = page.execute_script(visible)
    assert 15 <= before <= 31
    page.execute_script("arguments[0].focus()", first)
    page.switch_to.active_element.send_keys(Keys.ENTER)
    assert page.execute_script(visible) == 1
    page.switch_to.active_element.send_keys(Keys.SPACE)
    assert page.execute_script(visible) == before
    page.switch_to.active_element.send_keys(Keys.TAB)
    focused = page.switch_to.active_element
    assert (focused.tag_name, focused.text.split("\n")[0]) == ("summary", "marital-status is Married-civ-spouse")


def test_a_leaf_shows_its_rows_when_it_is_opened(browser: webdriver.Chrome, pages: dict[int, str]) -> None:
    page = opened(browser, pages[8], 1400)
    leaf = next(one for one in page.find_elements(By.CSS_SELECTOR, ".tree .leaf") if one.is_displayed())
    inside = leaf.find_element(By.CSS_SELECTOR, ".inside")
    assert not inside.is_displayed()
    leaf.find_element(By.TAG_NAME, "summary").click()
    assert "held-out rows" in inside.text
    assert "marital-status Married-civ-spouse" in inside.text.replace("\n", " ")


def test_the_picture_is_reached_by_keyboard_and_scrolls_inside_the_page(
    browser: webdriver.Chrome, pages: dict[int, str]
) -> None:
    page = opened(browser, pages[64], 390)
    picture = page.find_element(By.CSS_SELECTOR, ".picture")
    wide, inner = page.execute_script("return [arguments[0].scrollWidth, arguments[0].clientWidth]", picture)
    assert wide > inner
    assert picture.get_attribute("tabindex") == "0"
    opened(browser, pages[64], 1400)
    picture = browser.find_element(By.CSS_SELECTOR, ".picture")
    wide, inner = browser.execute_script("return [arguments[0].scrollWidth, arguments[0].clientWidth]", picture)
    assert wide <= inner
