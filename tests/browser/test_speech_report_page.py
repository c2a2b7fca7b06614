"""The page of speech in a real browser: players that play, wide and narrow, light and dark, framed, with hostile names."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from html import escape
from typing import Any

import pytest
import speech_sample as sample
from browsing import show
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

from aitest_lib.reports.html import render_html

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None or DRIVER is None, reason="chromium or chromedriver is not installed"),
]
LONG = "W" * 60 + "<script>window.hacked = true</script>"
WAITS_S = 30
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
PLAYERS = "return [...document.querySelectorAll('audio')].map(one => [one.readyState, one.duration, one.error])"


@pytest.fixture(scope="module")
def browser() -> Iterator[webdriver.Chrome]:
    options = Options()
    options.binary_location = CHROMIUM or ""
    muted = ("--mute-audio", "--autoplay-policy=no-user-gesture-required")  # a script may start a player
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", *muted):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def cases() -> dict[str, Any]:
    return {sample.ROBUSTNESS: sample.cases(10, 6), sample.FAIRNESS: sample.cases(3, 3, sample.FAIRNESS)}


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory, cases: dict[str, Any]) -> dict[str, str]:
    """The addresses of a page, of the same one in a sandboxed frame, and of one in which every name is hostile."""
    folder = tmp_path_factory.mktemp("pages")
    plain = render_html(sample.run_report(sample.robustness(), sample.fairness(), sample.generalization()), cases)
    framed = f'<iframe sandbox="allow-scripts" width="900" height="800" srcdoc="{escape(plain)}"></iframe>'
    found = {}
    for name, page in {"plain": plain, "framed": framed, "hostile": render_html(*sample.hostile(LONG))}.items():
        file = folder / f"{name}.html"
        file.write_text(page, encoding="utf-8")
        found[name] = file.as_uri()
    return found


def players(browser: webdriver.Chrome) -> list[tuple[float, Any]]:
    """The durations and errors of the players, once each of them knows its own."""
    WebDriverWait(browser, WAITS_S).until(lambda b: all(state >= 1 for state, *_ in b.execute_script(PLAYERS)))
    return [(duration, error) for _, duration, error in browser.execute_script(PLAYERS)]


def test_both_players_of_every_case_hold_their_clips(
    browser: webdriver.Chrome, pages: dict[str, str], cases: dict[str, Any]
) -> None:
    show(browser, pages["plain"], 1400)
    expected = [s.seconds for name in (sample.FAIRNESS, sample.ROBUSTNESS) for case in cases[name] for s in case.sounds]
    found = players(browser)
    assert [error for _, error in found] == [None] * 18
    assert [duration for duration, _ in found] == pytest.approx(expected, abs=0.15)


def test_a_player_plays_to_its_end(browser: webdriver.Chrome, pages: dict[str, str]) -> None:
    show(browser, pages["plain"], 1400)
    browser.execute_script("const one = document.querySelector('audio'); one.playbackRate = 4; one.play()")
    ended = "const one = document.querySelector('audio'); return one.ended && one.currentTime > 1"
    WebDriverWait(browser, WAITS_S).until(lambda b: b.execute_script(ended))


def test_players_work_in_a_sandboxed_frame(browser: webdriver.Chrome, pages: dict[str, str]) -> None:
    show(browser, pages["framed"], 1000)
    browser.switch_to.frame(0)
    assert len(players(browser)) == 18
    drawn = "return [...document.images].every(image => image.complete && image.naturalWidth === 240)"
    assert browser.execute_script(drawn)
    browser.switch_to.default_content()


@pytest.mark.parametrize("width", [390, 700, 1400])
@pytest.mark.parametrize("name", ["plain", "hostile"])
def test_nothing_overflows_and_no_labels_meet(browser: webdriver.Chrome, pages: dict[str, str], name: str, width: int) -> None:
    show(browser, pages[name], width)
    wide, inner = browser.execute_script("return [document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    assert wide <= inner
    cut = """return [...document.querySelectorAll(".heard, .duo figure, .words, .facts dd, .panels figure, .hearing .tile")]
        .filter(box => box.offsetParent && box.scrollWidth > box.clientWidth + 1).map(box => box.className + box.textContent)"""
    assert browser.execute_script(cut) == []
    figures = browser.find_elements(By.CSS_SELECTOR, ".noises > figure > svg")
    panels = browser.find_elements(By.CSS_SELECTOR, ".curves svg") if name == "plain" else []  # 60 letters W have no room
    assert (len(figures), len(panels)) == ((3, 5) if name == "plain" else (2, 0))
    assert [browser.execute_script(OVERLAPS, figure) for figure in figures + panels] == [[]] * len(figures + panels)
    if name == "plain":
        assert [browser.execute_script(CUT, figure) for figure in figures] == [[]] * len(figures)
    assert browser.execute_script("return window.hacked") is None
    assert [entry for entry in browser.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")] == []


def test_seed_and_case_stand_side_by_side_where_there_is_room(browser: webdriver.Chrome, pages: dict[str, str]) -> None:
    for width, beside in ((1400, True), (390, False)):
        show(browser, pages["plain"], width)
        seed, case = browser.find_elements(By.CSS_SELECTOR, ".duo")[0].find_elements(By.TAG_NAME, "figure")
        assert (seed.location["y"] == case.location["y"]) is beside
        assert seed.find_element(By.TAG_NAME, "audio").size["width"] >= 250


def test_errors_are_seen_without_colour(browser: webdriver.Chrome, pages: dict[str, str]) -> None:
    style = "const style = getComputedStyle(document.querySelector(arguments[0])); return style[arguments[1]]"
    for dark in (False, True):
        show(browser, pages["plain"], 1200, dark)
        borders = [browser.execute_script(style, f".words .{name}", "borderLeftStyle") for name in ("lost", "added", "swapped")]
        assert borders == ["dashed", "dotted", "solid"]
        assert "line-through" in browser.execute_script(style, ".words .lost del", "textDecorationLine")


def test_cases_are_found_by_their_words(browser: webdriver.Chrome, pages: dict[str, str]) -> None:
    show(browser, pages["plain"], 1200)
    boxes = browser.find_elements(By.CSS_SELECTOR, ".filter")
    boxes[1].find_element(By.TAG_NAME, "input").send_keys("invoice")
    assert boxes[1].find_element(By.TAG_NAME, "output").text == "1 of 1 shown"
