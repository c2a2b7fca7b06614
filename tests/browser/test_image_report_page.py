"""The page of an image model in a real browser: the pictures are there, the filters work by mouse and by keyboard."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import report_sample as sample
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import Select

from aitest_lib.reports.html import render_html

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None or DRIVER is None, reason="chromium or chromedriver is not installed"),
]
CARDS = 24  # shown at first
TRANSFORMS = ("rotate", "gaussian_noise", "inverse")


@pytest.fixture
def page(browser: webdriver.Chrome, tmp_path: Path) -> webdriver.Chrome:
    """8 cases of each of 4 outcomes of each of 3 transforms."""
    file = tmp_path / "report.html"
    prop = sample.image_robustness()
    where = {"cases": "s3://audits/digits/cases.parquet"}
    graded = [m for m in prop.metrics if m.slice.get("severity") in (1, 3) and m.value is not None]
    other = prop.model_copy(update={"property": "image.other", "metrics": [*graded, *prop.metrics[:5]], "gates": []})
    run = sample.image_report(properties=[prop.model_copy(update={"artifacts": where}), other])
    file.write_text(render_html(run, {"image.robustness": sample.image_cases(8)}), encoding="utf-8")
    resize(browser, 1200)
    browser.get(file.as_uri())
    return browser


def resize(browser: webdriver.Chrome, width: int) -> None:
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def cards(page: webdriver.Chrome) -> list[WebElement]:
    return [card for card in page.find_elements(By.CSS_SELECTOR, ".shot") if card.is_displayed()]


def button(page: webdriver.Chrome, outcome: str) -> WebElement:
    return page.find_element(By.CSS_SELECTOR, f".outcomes button[data-outcome='{outcome}']")


def test_the_pictures_are_drawn_and_nothing_is_asked_for(page: webdriver.Chrome) -> None:
    drawn = "return [...document.images].map(image => image.complete && image.naturalWidth === 28 && image.alt.length > 8)"
    assert page.execute_script(drawn) == [True] * (24 * 3 * 2 + 48)
    assert page.execute_script("return getComputedStyle(document.images[0]).imageRendering") == "pixelated"
    assert page.execute_script("return performance.getEntriesByType('resource').map(entry => entry.name)") == []
    assert [entry for entry in page.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")] == []


def test_the_first_cards_are_the_first_failures_of_every_transform(page: webdriver.Chrome) -> None:
    shown = [(card.get_attribute("data-transform"), card.get_attribute("data-outcome")) for card in cards(page)[:3]]
    assert shown == [("rotate", "failed"), ("gaussian_noise", "failed"), ("inverse", "failed")]


def test_outcome_and_transform_filter_together_with_their_counts(page: webdriver.Chrome) -> None:
    output = page.find_element(By.CSS_SELECTOR, ".filter output")
    select = Select(page.find_element(By.CSS_SELECTOR, ".filter select"))
    assert (len(cards(page)), output.text) == (CARDS, "24 of 96 shown")
    button(page, "failed").click()
    assert {card.get_attribute("data-outcome") for card in cards(page)} == {"failed"}
    assert [option.text for option in select.options] == ["All transforms (24)", *(f"{n} (8)" for n in sorted(TRANSFORMS))]
    select.select_by_value("inverse")
    assert (len(cards(page)), output.text) == (8, "8 of 8 shown")
    assert button(page, "").text == "All 32"
    assert button(page, "skipped").text == "Skipped 8"
    page.find_element(By.CSS_SELECTOR, ".filter input").send_keys("1/3.png")
    assert len(cards(page)) == 1
    assert button(page, "error").text == "Errors 1"


def test_the_filter_works_by_keyboard(page: webdriver.Chrome) -> None:
    page.execute_script("arguments[0].focus()", button(page, ""))
    page.switch_to.active_element.send_keys(Keys.TAB)
    assert page.switch_to.active_element.get_attribute("data-outcome") == "failed"
    page.switch_to.active_element.send_keys(Keys.SPACE)
    pressed = [b.get_attribute("data-outcome") for b in page.find_elements(By.CSS_SELECTOR, "button[aria-pressed='true']")]
    assert pressed == ["failed"]
    assert {card.get_attribute("data-outcome") for card in cards(page)} == {"failed"}


def test_the_other_cards_are_shown_when_they_are_asked_for(page: webdriver.Chrome) -> None:
    more = page.find_element(By.CSS_SELECTOR, ".more")
    assert more.text == "Show all 96"
    page.execute_script("arguments[0].focus()", more)
    more.send_keys(Keys.ENTER)
    assert len(cards(page)) == 96
    more.send_keys(Keys.ENTER)
    assert len(cards(page)) == CARDS
    button(page, "skipped").click()
    assert not more.is_displayed()


def test_every_tile_names_its_strength_once(page: webdriver.Chrome) -> None:
    labels = page.find_elements(By.CSS_SELECTOR, ".headed .label")
    assert {label.get_attribute("textContent") for label in labels} == {"severity 1", "severity 3"}
    assert not any(label.is_displayed() for label in labels)
    resize(page, 390)
    assert all(label.is_displayed() for label in labels)


def test_the_place_of_the_cases_is_one_click_away(page: webdriver.Chrome) -> None:
    place = page.find_element(By.CSS_SELECTOR, "#places code")
    assert not place.is_displayed()
    page.find_element(By.LINK_TEXT, "the table of cases").click()
    assert (place.is_displayed(), place.text) == (True, "s3://audits/digits/cases.parquet")


@pytest.mark.parametrize("width", [360, 880, 1400])
def test_nothing_overflows(page: webdriver.Chrome, width: int) -> None:
    resize(page, width)
    wide, inner = page.execute_script("return [document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    assert wide <= inner
    scrolled = """return [...document.querySelectorAll(".properties, .accuracy, .metrics, .slices")]
        .filter(table => table.parentElement.scrollWidth > table.parentElement.clientWidth + 1).map(table => table.className)"""
    assert page.execute_script(scrolled) == []
    hidden = """return [...document.querySelectorAll(".metrics .between, .slices .between, .properties .gates")]
        .filter(cell => !cell.offsetParent).length"""
    assert page.execute_script(hidden) == 0
    cut = """return [...document.querySelectorAll(".accuracy .tile, .shot")]
        .filter(box => box.offsetParent && box.scrollWidth > box.clientWidth + 1).map(box => box.textContent)"""
    assert page.execute_script(cut) == []
