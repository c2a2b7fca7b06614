"""A run in the real MLflow server and a real browser: the run's page, the report inside it, the failing cases as a table."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from model_server import serving
from projects import income, new_project, people

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None or DRIVER is None, reason="chromium or chromedriver is not installed"),
]


@pytest.fixture(scope="module")
def run_page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL that `aitest open` prints after an audit."""
    project = new_project(tmp_path_factory.mktemp("pages") / "project")
    with serving(income) as server:
        project.fill(server, people(300))
        assert project.cli("run", "suite.yaml").code in (0, 1, 4)
    opened = project.cli("open", "last", "--no-browser")
    assert opened.code == 0, opened.text
    url = opened.out.splitlines()[0]
    yield url
    project.cli("down")


@pytest.fixture(scope="module")
def browser() -> Iterator[webdriver.Chrome]:
    options = Options()
    options.binary_location = CHROMIUM or ""
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1400,1000"):
        options.add_argument(argument)
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield driver
    driver.quit()


def shown(find: Callable[[], Any], seconds: float = 90) -> Any:
    """What `find` gives once it gives something; the page's scripts take their time."""
    deadline = time.monotonic() + seconds
    while not (found := find()) and time.monotonic() < deadline:
        time.sleep(0.3)
    return found


def text_of(browser: webdriver.Chrome) -> str:
    return browser.find_element(By.TAG_NAME, "body").text


def test_the_run_page_names_suite_model_and_properties(browser: webdriver.Chrome, run_page: str) -> None:
    browser.get(run_page)
    assert shown(lambda: "tabular.robustness" in text_of(browser))
    text = text_of(browser)
    assert "aitest.suite" in text
    assert "aitest.status" in text
    assert "Model training" in text


def test_the_report_shows_inside_mlflow(browser: webdriver.Chrome, run_page: str) -> None:
    browser.get(run_page.replace("?", "/artifacts/report.html?"))
    frame = shown(lambda: browser.find_elements(By.CSS_SELECTOR, "iframe"))
    assert frame
    browser.switch_to.frame(frame[0])
    assert shown(lambda: "tabular.robustness" in text_of(browser))
    assert "gates" in text_of(browser)
    browser.switch_to.default_content()
