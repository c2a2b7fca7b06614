"""The page in a real browser, inside a sandboxed frame as MLflow shows it: scripts run, nothing else is allowed."""

from __future__ import annotations

import html
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select

from aitest_lib.reports.html import render_html
from aitest_lib.reports.report import (
    CaseCounts,
    FailingCase,
    GateResult,
    Metric,
    ModelReport,
    PropertyReport,
    Provenance,
    Queries,
    RunReport,
)

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None or DRIVER is None, reason="chromium or chromedriver is not installed"),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[webdriver.Chrome]:
    options = Options()
    options.binary_location = CHROMIUM or ""
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=900,1000"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture(params=["srcdoc", "blob"])
def page(request: pytest.FixtureRequest, browser: webdriver.Chrome, tmp_path: Path) -> webdriver.Chrome:
    text = render_html(run_report(), {"tabular.robustness": [case(i) for i in range(12)]})
    frame = f'<iframe sandbox="allow-scripts" width="880" height="900" srcdoc="{html.escape(text)}"></iframe>'
    if request.param == "blob":
        frame = (
            '<iframe sandbox="allow-scripts" width="880" height="900"></iframe>'
            f"<template>{html.escape(text)}</template><script>"
            'const text = document.querySelector("template").content.textContent;'
            'document.querySelector("iframe").src = URL.createObjectURL(new Blob([text], {type: "text/html"}));</script>'
        )
    host = tmp_path / "host.html"
    host.write_text(f"<!doctype html><meta charset=utf-8><title>host</title>{frame}", encoding="utf-8")
    browser.get(host.as_uri())
    browser.switch_to.frame(browser.find_element(By.TAG_NAME, "iframe"))
    return browser


def run_report() -> RunReport:
    where = {"transform": "numeric_noise", "epsilon": 0.1}
    prop = PropertyReport(
        property="tabular.robustness",
        status="failed",
        cases=CaseCounts(total=500, passed=450, failed=50),
        metrics=[Metric(name="pass_rate", slice=where, value=0.9, low=0.87, high=0.92, n=500)],
        gates=[
            GateResult(metric="pass_rate", slice=where, min=0.95, verdict="failed", reason="0.900 [0.870, 0.920] is below 0.95")
        ],
    )
    origin = Provenance(aitest="0", suite_digest="s", data_digest="d", random_seed=1, confidence=0.95, started_by="a test")
    return RunReport(
        suite="<script>window.hacked = true</script>",
        run_id="r",
        status="failed",
        model=ModelReport(name="m", type="tabular-classifier", digest="d"),
        provenance=origin,
        started="2026-11-29T02:00:00Z",
        seconds=1.0,
        queries=Queries(planned=1, sent=1),
        properties=[prop, prop.model_copy(update={"property": "tabular.other", "gates": [], "status": "unjudged"})],
    )


def case(i: int) -> FailingCase:
    name = "numeric_noise" if i % 3 else "category_swap"
    return FailingCase(
        case_id=f"c{i}",
        seed_id=f"s{i}",
        transform=name,
        strength=0.1,
        expected="a",
        observed="b",
        score=0.7,
        explanation=f"case number {i} turned",
        seed={"age": str(i), "<img src=x onerror='window.hacked=1'>": "x"},
        case={"age": str(i + 1), "<img src=x onerror='window.hacked=1'>": "x"},
        changed=["age"],
    )


def visible(page: webdriver.Chrome) -> int:
    return sum(item.is_displayed() for item in page.find_elements(By.CSS_SELECTOR, ".case"))


def test_the_page_works_in_a_sandboxed_frame(page: webdriver.Chrome) -> None:
    assert page.find_element(By.TAG_NAME, "h1").text == "1 of 1 gate failed, in tabular.robustness."
    assert page.execute_script("return [window.origin, window.hacked ?? null]") == ["null", None]
    assert page.execute_script("return performance.getEntriesByType('resource').map(entry => entry.name)") == []
    problems = [entry for entry in page.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]
    assert problems == []


def test_nothing_overflows_at_880_px(page: webdriver.Chrome) -> None:
    width, inner = page.execute_script("return [document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    assert width <= inner
    scrolled = "return [...document.querySelectorAll('.scroll')].filter(box => box.scrollWidth > box.clientWidth + 1).length"
    assert page.execute_script(scrolled) == 0


def test_the_filter_finds_cases_by_text_and_transform(page: webdriver.Chrome) -> None:
    assert visible(page) == 12
    box = page.find_element(By.CSS_SELECTOR, ".filter input")
    output = page.find_element(By.CSS_SELECTOR, ".filter output")
    box.send_keys("Number 11")
    assert visible(page) == 1
    assert output.text == "1 of 12 shown"
    box.clear()
    box.send_keys("case")
    Select(page.find_element(By.CSS_SELECTOR, ".filter select")).select_by_value("category_swap")
    assert visible(page) == 4
    box.send_keys(" nowhere")
    assert visible(page) == 0


def test_links_lead_inside_the_frame(page: webdriver.Chrome) -> None:
    page.find_element(By.LINK_TEXT, "tabular.other").click()
    assert page.execute_script("return document.querySelector('#p1').getBoundingClientRect().top < window.innerHeight")
