"""The page of an adversarial search in a real browser: wide and narrow, light, dark and printed, with hostile names."""

from __future__ import annotations

import shutil
from base64 import b64decode
from pathlib import Path

import attack_sample as sample
import pytest
from browsing import show
from selenium import webdriver
from selenium.webdriver.common.by import By

from aitest_lib.reports.attack_plots import attack_figures
from aitest_lib.reports.html import render_html

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None or DRIVER is None, reason="chromium or chromedriver is not installed"),
]
LONG = "W" * 60 + "<script>window.hacked = true</script>"
OVERLAPS = """
    const boxes = [...arguments[0].querySelectorAll("text")].map(one => [one.textContent, one.getBoundingClientRect()]);
    const meet = (a, b) => a.left < b.right && b.left < a.right && a.top + 1 < b.bottom && b.top + 1 < a.bottom;
    return boxes.flatMap(([text, box], i) =>
        boxes.slice(i + 1).filter(([_, other]) => meet(box, other)).map(([other]) => text + " / " + other));
"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The address of a page of many images and one of a thousand queries, and of one in which every name is hostile."""
    folder = tmp_path_factory.mktemp("pages")
    few = sample.property_report(20, 10_000)
    assert few.adversarial is not None
    varied = few.model_copy(
        update={"adversarial": few.adversarial.model_copy(update={"norms": [9 - i % 7 for i in range(20)]})}
    )
    hostile, cases = sample.hostile(LONG)
    runs = {
        "plain": (sample.run_report(), sample.cases(20)),
        "long": (sample.run_report(varied), sample.cases(2, 20)),
        "hostile": (hostile, cases),
    }
    found = {}
    for name, (run, shown) in runs.items():
        file = folder / f"{name}.html"
        file.write_text(render_html(run, {sample.PROPERTY: shown}), encoding="utf-8")
        found[name] = file.as_uri()
    return found


@pytest.mark.parametrize("width", [390, 880, 1400])
@pytest.mark.parametrize("name", ["plain", "long", "hostile"])
def test_nothing_overflows_and_no_labels_meet(browser: webdriver.Chrome, pages: dict[str, str], name: str, width: int) -> None:
    show(browser, pages[name], width)
    wide, inner = browser.execute_script("return [document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    assert wide <= inner
    cut = """return [...document.querySelectorAll(".attacks .tile, .shot, .facts dd, .attack figure")]
        .filter(box => box.offsetParent && box.scrollWidth > box.clientWidth + 1).map(box => box.textContent)"""
    assert browser.execute_script(cut) == []
    figures = browser.find_elements(By.CSS_SELECTOR, ".attack svg")
    assert len(figures) == (3 if name == "long" else 2)
    assert [browser.execute_script(OVERLAPS, figure) for figure in figures] == [[]] * len(figures)
    assert all(min(figure.size["width"], inner) >= 300 for figure in figures)
    assert browser.execute_script("return window.hacked") is None
    assert [entry for entry in browser.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")] == []


def test_the_table_is_whole_at_every_width(browser: webdriver.Chrome, pages: dict[str, str]) -> None:
    for width in (390, 880, 1400):
        show(browser, pages["plain"], width)
        table = browser.find_element(By.CSS_SELECTOR, ".attacks")
        shown = [tile.text.split("\n")[-2:] for tile in table.find_elements(By.CSS_SELECTOR, "tbody tr:first-child .tile")]
        assert [value for value, _ in shown] == ["0.592", "0.842", "0.929", "0.980", "0.985"]
        labels = [label.is_displayed() for label in table.find_elements(By.CSS_SELECTOR, ".label")]
        assert labels == [width < 900] * 15


def test_curves_and_legend_are_seen_in_the_dark(browser: webdriver.Chrome, pages: dict[str, str]) -> None:
    strokes = """return [...document.querySelectorAll(arguments[0])].map(line => {
        const style = getComputedStyle(line);
        return [style.stroke, style.strokeDasharray, style.strokeWidth];
    })"""
    seen = {}
    for dark in (False, True):
        show(browser, pages["plain"], 1200, dark)
        curves = browser.execute_script(strokes, ".attack polyline")
        assert curves[-1:] + curves[:-1] == browser.execute_script(strokes, ".keys line")
        seen[dark] = curves
    assert all(light[0] != dark[0] for light, dark in zip(seen[False], seen[True], strict=True))


def test_broken_and_resisted_images_are_one_click_apart(browser: webdriver.Chrome, pages: dict[str, str]) -> None:
    show(browser, pages["plain"], 1200)
    drawn = "return [...document.images].every(image => image.complete && image.naturalWidth === 28 && image.alt.length > 8)"
    assert browser.execute_script(drawn)
    buttons = {button.text: button for button in browser.find_elements(By.CSS_SELECTOR, ".outcomes button")}
    assert list(buttons) == ["All 42", "Broken 20", "Resisted 20", "Skipped 2"]
    buttons["Resisted 20"].click()
    cards = [card for card in browser.find_elements(By.CSS_SELECTOR, ".shot") if card.is_displayed()]
    assert len(cards) == 20
    assert all("Nearest attempt" in card.text and "Resisted this attack at 250 queries" in card.text for card in cards)


def test_the_printed_page_holds_every_figure(browser: webdriver.Chrome, pages: dict[str, str]) -> None:
    show(browser, pages["long"], 1200)
    pdf = b64decode(browser.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"])
    assert pdf.startswith(b"%PDF")
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        assert [figure.is_displayed() for figure in browser.find_elements(By.CSS_SELECTOR, ".attack svg")] == [True] * 3
        assert not any(box.is_displayed() for box in browser.find_elements(By.CSS_SELECTOR, ".filter"))
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_the_figures_stand_alone(browser: webdriver.Chrome, tmp_path: Path) -> None:
    attack = sample.attack_report(20)
    varied = attack.model_copy(update={"norms": list(range(20))})
    for name, figure in attack_figures(varied).items():
        file = tmp_path / f"{name}.svg"
        file.write_text(figure, encoding="utf-8")
        browser.get(file.as_uri())
        root = browser.find_element(By.CSS_SELECTOR, "svg")
        assert browser.execute_script(OVERLAPS, root) == []
        outside = """const frame = document.documentElement.getBoundingClientRect();
            return [...document.querySelectorAll("text")].map(one => [one.textContent, one.getBoundingClientRect()])
                .filter(([_, box]) => box.left < frame.left || box.right > frame.right || box.bottom > frame.bottom)
                .map(([text]) => text)"""
        assert browser.execute_script(outside) == []
