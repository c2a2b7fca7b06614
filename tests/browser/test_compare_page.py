"""The page of a comparison in a real browser: narrow and wide, light and dark, with hostile text, asking nothing of anyone."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select
from support.comparisons import WRONG, F, P, case_table, outcomes, run_of, suite_of

from aitest_lib.reports.compare import compare_runs
from aitest_lib.reports.compare_html import comparison_html
from aitest_lib.reports.report import FailingCase, Metric

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None or DRIVER is None, reason="chromium or chromedriver is not installed"),
]
EVIL = "<img src=x onerror='window.hacked=1'>"
NAME, OTHER = "tabular.robustness", "tabular.generalization"


@pytest.fixture(scope="module", params=[(900, "light"), (1400, "dark")], ids=lambda shape: f"{shape[0]}-{shape[1]}")
def page(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    width, scheme = request.param
    options = Options()
    options.binary_location = CHROMIUM or ""
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        f"--window-size={width},1000",
    ):
        options.add_argument(argument)
    options.add_argument(f"--blink-settings=preferredColorScheme={0 if scheme == 'dark' else 1}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    file = Path(tmp_path_factory.mktemp("page"), "compare.html")
    file.write_text(comparison_html(comparison()), encoding="utf-8")
    driver.get(file.as_uri())
    assert driver.execute_script("return matchMedia('(prefers-color-scheme: dark)').matches") == (scheme == "dark")
    yield driver
    driver.quit()


def comparison():
    seeds = {f"s{i:03d}": P for i in range(200)}
    worse = seeds | {f"s{i:03d}": F for i in range(12)} | {f"s{i:03d}": WRONG for i in range(12, 20)}
    explained = {"explanation": f"age 1 -> 2 {EVIL} turned the answer from a to b", "observed": EVIL}
    after = outcomes(worse, "noise", strength=0.1, **explained) + outcomes(seeds | {"s000": F}, "swap", **explained)
    shown = FailingCase(
        case_id="s000/noise/0.1",
        seed_id="s000",
        transform="noise",
        strength=0.1,
        expected="a",
        observed="b",
        score=0.7,
        explanation="",
        seed={"age": "1", EVIL: "x"},
        case={"age": "2", EVIL: "x"},
        changed=["age"],
    )
    metric = Metric(name="pass_rate", slice={"transform": "noise", "epsilon": 0.1, EVIL: "x" * 200}, value=0.9, n=200)
    gates = [suite_of({"property": NAME, "gates": {"pass_rate": {"min": edge}}}) for edge in (0.95, 0.9)]
    base = outcomes(seeds, "noise", strength=0.1) + outcomes(seeds, "swap")
    plain = case_table(outcomes(seeds))
    return compare_runs(
        run_of({NAME: case_table(base), OTHER: plain}, suite=gates[0]),
        run_of(
            {NAME: case_table(after, {"job": ["cook" if i % 200 < 40 else EVIL for i in range(400)]}), OTHER: plain},
            run_id="c" * 32,
            suite=gates[1],
            model={"name": EVIL, "version": "x" * 200},
            properties={NAME: {"metrics": [metric]}},
            failures={NAME: [shown]},
        ),
    )


def visible(page: webdriver.Chrome) -> int:
    return sum(item.is_displayed() for item in page.find_elements(By.CSS_SELECTOR, ".case"))


def test_it_says_what_changed_first(page: webdriver.Chrome) -> None:
    assert page.find_element(By.TAG_NAME, "h1").text.startswith("Regression in tabular.robustness; no evidence of a change")
    titles = [item.text for item in page.find_elements(By.TAG_NAME, "h2")]
    assert titles[:4] == ["What changed in the suite", "Properties", NAME, OTHER]
    assert page.find_element(By.CSS_SELECTOR, ".weaker").text == "weaker"


def test_nothing_is_run_or_asked_for(page: webdriver.Chrome) -> None:
    assert page.execute_script("return [window.hacked ?? null, performance.getEntriesByType('resource').length]") == [None, 0]
    assert [entry for entry in page.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")] == []


def test_nothing_overflows(page: webdriver.Chrome) -> None:
    assert page.execute_script("return document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    inside = "return [...document.querySelectorAll('.scroll')].every(box => box.scrollWidth <= box.clientWidth + 1)"
    assert page.execute_script(inside)


def test_text_stands_out_from_its_ground(page: webdriver.Chrome) -> None:
    luminance = """
        const of = (css) => css.match(/[\\d.]+/g).slice(0, 3).map(Number).reduce((sum, v, i) => sum + v * [.3, .6, .1][i], 0);
        const card = getComputedStyle(document.querySelector("section.card"));
        return Math.abs(of(card.backgroundColor) - of(getComputedStyle(document.querySelector("td.num")).color));
    """
    assert page.execute_script(luminance) > 100


def test_cases_can_be_filtered(page: webdriver.Chrome) -> None:
    assert visible(page) == 21
    assert page.find_element(By.CSS_SELECTOR, ".cell.changed ins").text == "2"
    select = Select(page.find_element(By.CSS_SELECTOR, ".filter select"))
    select.select_by_value("swap")
    assert visible(page) == 1
    select.select_by_value("")
    page.find_element(By.CSS_SELECTOR, ".filter input").send_keys("untouched seed")
    assert visible(page) == 8
