"""Takes the pictures of the README, from a real installation: `python tests/browser/pictures.py` (some minutes; Chromium).

A census model behind an endpoint is registered, deployed and audited at night; its next version has a planted weakness. The
report of images is that of `aitest demo --only image`, tree and groups are those of `aitest demo`.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pandas as pd
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from projects import Project, until

from aitest_lib.demo.census import CLASSES, DATA, LABEL, BrittleModel, SoundModel

PICTURES = Path(__file__).parents[2] / "deployments" / "pictures"
WIDTH = 1200  # pixels
SUITE = "income-nightly"
DATA_FILE = "test.csv"
TRANSFORMS = [{"name": "numeric_noise", "epsilon": 0.1}, {"name": "category_swap"}]
GATES = {"pass_rate": {"min": 0.95}, "robust_accuracy_drop": {"max": 0.05}}
ASSISTANT = "[data-component-id='mlflow.assistant.chat_panel.close']"  # MLflow opens it at the first visit
TO_TOP = "[...document.querySelectorAll('h4, h3, span')].find(one => one.textContent === arguments[0]).scrollIntoView()"
WITHOUT_PATH = """
    const lines = [...document.querySelectorAll("main *, div")].filter(one => one.textContent.startsWith("Path:"));
    lines.forEach(one => { one.style.visibility = "hidden"; });
"""  # of the temporary folder
WAITS_S = 300
SETTLES_S = 5  # in which a page loads its figures and comes to rest


def main() -> None:
    """Audits two versions and writes what the pages then show."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, serving() as url:
        project = Project(Path(folder), {"LOGNAME": "auditor"})
        fill(project, url)
        try:
            said = command(project, "up", "--with-webhook")
            [prefect] = re.findall(r"http://\S+(?=/api)", said)
            command(project, "register", "model.yaml", "--data", DATA_FILE)
            nightly = ("--cron", "0 2 * * *", "--timezone", "Europe/Berlin", "--on-new-version", "income")
            command(project, "deploy", "suite.yaml", "--pool", "aitest", *nightly)
            start_audit(prefect)
            ended_audit(prefect, f"audit of {SUITE}")
            Handler.model = BrittleModel()
            project.change("model.yaml", revision="2")
            command(project, "register", "model.yaml", "--data", DATA_FILE)
            ended_audit(prefect, f"audit of {SUITE} on version 2")
            photograph(project, prefect)
            photograph_images(project)
            photograph_speech(project)
            photograph_tree(project)
        finally:
            command(project, "down")


class Handler(BaseHTTPRequestHandler):
    """Answers `{"records": [...]}` with `{"labels": [...]}`."""

    protocol_version = "HTTP/1.1"
    model = SoundModel()

    def do_POST(self) -> None:
        records = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["records"]
        body = json.dumps({"labels": self.model.predict(pd.DataFrame(records)).tolist()}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Says nothing."""


@contextmanager
def serving() -> Iterator[str]:
    """The address of the model."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/score"
    finally:
        server.shutdown()
        server.server_close()


def fill(project: Project, url: str) -> None:
    """Writes data, card and suite."""
    table = pd.read_parquet(DATA / "census_test.parquet").drop(columns="fnlwgt")
    table.to_csv(project.folder / DATA_FILE, index=False)
    card = {
        "name": "income",
        "revision": "1",
        "type": "tabular-classifier",
        "classes": list(CLASSES),
        "inputs": {"columns": [name for name in table.columns if name != LABEL]},
        "endpoint": {"url": url, "request": '{"records": {{ records|tojson }}}', "response": {"labels": "labels"}},
    }
    project.write("model.yaml", card)
    suite = {
        "suite": SUITE,
        "random_seed": 20261129,
        "model": {"name": "income", "version": "latest"},
        "data": {
            "test": DATA_FILE,
            "label": LABEL,
            "protected": {"sex": {}, "race": {}},
            "schema": {name: {"missing": True} for name in ("workclass", "occupation", "native-country")},
        },
        "properties": [
            {"property": "tabular.generalization", "gates": {"accuracy": {"min": 0.8}}},
            {"property": "tabular.robustness", "transforms": TRANSFORMS, "gates": GATES},
        ],
    }
    project.write("suite.yaml", suite)


def command(project: Project, *args: str) -> str:
    """Runs an `aitest` command, which must succeed; what it printed."""
    done = project.cli(*args)
    if done.code != 0:
        raise RuntimeError(f"aitest {' '.join(args)}: exit {done.code}: {done.text}")
    return done.text


def start_audit(prefect: str) -> None:
    """Starts the audit as its schedule would."""
    httpx.post(f"{deployment(prefect)}/create_flow_run", json={}, trust_env=False, timeout=30).raise_for_status()


def deployment(prefect: str) -> str:
    """The address of the audit's deployment in Prefect's API."""
    answer = httpx.get(f"{prefect}/api/deployments/name/audit/{SUITE}", trust_env=False, timeout=30)
    return f"{prefect}/api/deployments/{answer.raise_for_status().json()['id']}"


def flow_runs(prefect: str, wanted: dict[str, Any]) -> list[dict[str, Any]]:
    """The flow runs that pass a filter, the newest first."""
    asked = {"flow_runs": wanted, "sort": "START_TIME_DESC"}
    answer = httpx.post(f"{prefect}/api/flow_runs/filter", json=asked, trust_env=False, timeout=30)
    return list(answer.raise_for_status().json())


def ended_audit(prefect: str, name: str) -> None:
    """Waits for the end of the flow run of a name."""
    wanted = {"name": {"any_": [name]}, "state": {"type": {"any_": ["COMPLETED", "FAILED", "CRASHED"]}}}
    if not until(lambda: flow_runs(prefect, wanted), WAITS_S):
        raise RuntimeError(f"{name} has not ended within {WAITS_S} s")


def photograph(project: Project, prefect: str) -> None:
    """Writes the pictures of the last audit."""
    reports = [json.loads(path.read_text()) for path in (project.store / "runs").glob("*/report.json")]
    first, second = (report["run_id"] for report in sorted(reports, key=lambda report: report["started"]))
    page = project.folder / "compare.html"
    command(project, "compare", first, second, "-o", str(page))
    run = command(project, "open", second, "--no-browser").splitlines()[0]
    [suite] = flow_runs(prefect, {"name": {"any_": [f"suite {second[:8]}"]}})
    with chromium() as browser:
        browser.get(f"{prefect}/v2/deployments/deployment/{deployment(prefect).rpartition('/')[2]}?tab=Runs")
        save(browser, "prefect-audits.png", "Gates failed", 700)
        browser.get(f"{prefect}/v2/runs/flow-run/{suite['id']}?tab=SubflowRuns")
        save(browser, "prefect-run.png", "tabular-generalization", 515)
        browser.get(run)
        until(lambda: browser.find_elements(By.CSS_SELECTOR, ASSISTANT), WAITS_S)[0].click()
        search = until(lambda: browser.find_elements(By.CSS_SELECTOR, "input[placeholder='Search metrics']"), WAITS_S)[0]
        search.send_keys("pass_rate")
        browser.execute_script(TO_TOP, "Datasets")
        save(browser, "mlflow-run.png", "aitest.status", 800)
        browser.get(run.replace("?", "/artifacts/report.html?"))
        until(lambda: browser.find_elements(By.CSS_SELECTOR, "iframe"), WAITS_S)
        browser.execute_script(WITHOUT_PATH)
        save(browser, "mlflow-report.png", "report.html", 900)
        browser.get(page.as_uri())
        save(browser, "compare.png", "What changed", 900)


def photograph_images(project: Project) -> None:
    """Audits the demonstration's digits, and writes the pictures of the report."""
    command(project, "demo", "--only", "image")
    page = project.folder / "images.html"
    command(project, "report", "last", "-o", str(page))
    with chromium() as browser:
        browser.get(page.as_uri())
        browser.execute_script(TO_TOP, "Accuracy per transform")
        save(browser, "report-images.png", "Accuracy per transform", 800)
        browser.execute_script(TO_TOP, "Images broken against queries")
        save(browser, "report-attack.png", "Images broken against queries", 560)


def photograph_speech(project: Project) -> None:
    """Audits the demonstration's recogniser, and writes the pictures of the report."""
    command(project, "demo", "--only", "speech")
    page = project.folder / "speech.html"
    command(project, "report", "last", "-o", str(page))
    with chromium() as browser:
        browser.get(page.as_uri())
        browser.execute_script(TO_TOP, "WER against noise")
        save(browser, "report-speech.png", "WER against noise", 385)


def photograph_tree(project: Project) -> None:
    """Audits the demonstration's census models, and writes the pictures of the sound one's tree and of its groups."""
    command(project, "demo")
    [run] = re.findall(r"([0-9a-f]{12}) .* census-sound ", command(project, "list", "runs"))
    page = project.folder / "tree.html"
    command(project, "report", run, "-o", str(page))
    with chromium() as browser:
        browser.get(page.as_uri())
        browser.execute_script(TO_TOP, "The tree")
        save(browser, "report-tree.png", "The whole tree", 900)
        browser.execute_script(TO_TOP, "By sex")
        save(browser, "report-fairness.png", "bias-audit table", 900)


@contextmanager
def chromium() -> Iterator[webdriver.Chrome]:
    """A browser without a window."""
    options = Options()
    options.binary_location = shutil.which("chromium") or ""
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"):
        options.add_argument(argument)
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    driver.set_window_size(WIDTH, 1000)
    try:
        yield driver
    finally:
        driver.quit()


def save(browser: webdriver.Chrome, name: str, text: str, height: int) -> None:
    """Writes what the browser shows, so many pixels of it, once it shows a text and moves no more."""
    browser.set_window_size(WIDTH, height + browser.execute_script("return outerHeight - innerHeight"))
    shown = until(lambda: text in browser.find_element(By.TAG_NAME, "body").text, WAITS_S)
    if not shown:
        raise RuntimeError(f"{browser.current_url} does not show {text!r}")
    time.sleep(SETTLES_S)
    picture = browser.get_screenshot_as_png()
    (PICTURES / name).write_bytes(picture)
    print(f"{name}: {len(picture) / 1000:.0f} kB")


if __name__ == "__main__":
    main()
