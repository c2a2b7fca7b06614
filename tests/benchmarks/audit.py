"""What does an audit of a model behind an IBM watsonx.ai endpoint cost: all tabular properties in one run, and once more."""

from __future__ import annotations

import multiprocessing
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pandas as pd
import yaml
from project import measured_run
from trees_models import Split, split, train

from aitest_lib.properties.catalog import specs_for

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "support"))
CARD = HERE.parents[1] / "deployments" / "cards" / "ibm-wml.yaml"
ROWS = 13_000
LABEL, FAVORABLE = "income", ">50K"
DIRECTIONS = {"education-num": "increasing", "capital-gain": "increasing", "hours-per-week": "never_hurts"}
SETTINGS: dict[str, dict[str, Any]] = {"tabular.directional": {"directions": DIRECTIONS}}
Counts = Callable[[], tuple[int, int, float]]


def audit() -> None:
    """Boosted trees of Adult, asked about held-out rows by every property as it is by default; then the same again."""
    data = split("adult", 0)
    if data is None:
        print("audit: skipped, there is no Adult data (AITEST_SHARED_DATA names its folder)\n")
        return
    print(f"{'audit':<14}{'wall s':>9}{'CPU s':>9}{'peak MB':>9}{'sent':>10}{'received':>10}{'twice':>8}{'model s':>9}  status")
    with tempfile.TemporaryDirectory() as root, _service() as (addresses, key, counts):
        suite_file = _project(Path(root), data, addresses)
        before = counts()
        for name in ("first run", "second run"):
            run = measured_run(suite_file, environment={"IBM_API_KEY": key})
            after = counts()
            received, twice, seconds = (new - old for new, old in zip(after, before, strict=True))
            before = after
            print(
                f"{name:<14}{run.wall:>9.1f}{run.cpu:>9.1f}{run.peak_with_children:>9,.0f}{run.report['queries']['sent']:>10,}"
                f"{received:>10,}{twice:>8,}{seconds:>9.1f}  {run.report['status']}"
            )
            for one in run.report["properties"]:
                print(f"  {one['property']:<30}{one['status']:<14}{one['queries']['sent']:>9,} sent", flush=True)
    print()


def _project(folder: Path, data: Split, addresses: dict[str, str]) -> Path:
    """A card made of the ready one, with the service's addresses, and a suite of every property."""
    data.test.assign(**{LABEL: data.test_labels}).iloc[:ROWS].to_parquet(folder / "data.parquet", index=False)
    card = yaml.safe_load(CARD.read_text())
    for called in (card["endpoint"], *card["endpoint"]["steps"]):
        url = urlsplit(called["url"])
        called["url"] = url._replace(scheme="http", netloc=addresses[url.netloc]).geturl()
    card |= {"classes": sorted(data.labels.unique()), "inputs": {"columns": data.columns}}
    suite = {
        "suite": "audit",
        "model": {"card": "card.yaml"},
        "data": {"test": "data.parquet", "label": LABEL, "favorable": FAVORABLE, "protected": {"sex": {}, "race": {}}},
        "properties": [{"property": spec.name} | SETTINGS.get(spec.name, {}) for spec in specs_for("tabular-classifier")],
    }
    for name, content in {"card": card, "suite": suite}.items():
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    return folder / "suite.yaml"


@contextmanager
def _service() -> Iterator[tuple[dict[str, str], str, Counts]]:
    """The service in a process of its own: its addresses, its key, and a function that tells how many rows it has received, how
    many of them once more, and the CPU seconds of its model."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(there,), daemon=True)
    process.start()

    def counts() -> tuple[int, int, float]:
        here.send(None)
        received, twice, seconds = here.recv()
        return received, twice, seconds

    try:
        yield *here.recv(), counts
    finally:
        process.kill()
        process.join()


def _serve(parent: Connection) -> None:
    from vendor_server import Request, expect, secret_of, serving
    from vendor_tables import Wml

    data = split("adult", 0)
    assert data is not None
    model = train("gb", data, 0)
    types = data.test.dtypes
    asked: list[int] = []
    one_at_a_time = threading.Lock()

    class Adult(Wml):
        """The service of the tests, strict about shape and credentials, with the boosted trees in it."""

        def rows(self, request: Request) -> list[list[Any]]:
            [table] = request.json()["input_data"]
            expect(table["fields"] == data.columns, "other fields than those of the model")
            return list(table["values"])

        def answers(self, rows: list[list[Any]]) -> Any:
            with one_at_a_time:
                asked.extend(hash(tuple(row)) for row in rows)
                scores = model.scores(pd.DataFrame(rows, columns=data.columns).astype(types))
            values = [[model.classes[row.argmax()], row.tolist()] for row in scores]
            return {"predictions": [{"fields": ["prediction", "probability"], "values": values}]}

    with serving(Adult(), ["us-south.ml.cloud.ibm.com", "iam.cloud.ibm.com"]) as addresses:
        parent.send((addresses, secret_of("IBM_API_KEY")))
        while True:
            parent.recv()
            parent.send((len(asked), len(asked) - len(set(asked)), model.seconds))
