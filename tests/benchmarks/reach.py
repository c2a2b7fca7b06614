"""What it costs to reach a model over HTTP, and to keep everything on S3 instead of a local disk."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pandas as pd
from project import project

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "support"))
CALLS, BATCH = 2_000, 16
SERVER = """
import sys, time
sys.path.insert(0, sys.argv[1])
from model_server import serving
with serving(lambda row: "yes" if row[0] > 0 else "no") as server:
    print(server.url, flush=True)
    sys.stdin.read()
"""


def endpoint() -> None:
    """The endpoint backend against a bare httpx client with the same threads, in turn, on the same server process."""
    print(f"{'endpoint':<14}{'calls at once':>14}{'calls/s':>10}{'CPU s':>10}{'rows':>10}")
    frame = pd.DataFrame({"a": range(CALLS * BATCH), "b": [f"t{n}" for n in range(CALLS * BATCH)]})
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER, str(HERE.parent / "support")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        for at_once in (1, 8):
            found = {}
            for name, ask in (("httpx", _bare), ("aitest", _ours)) * 2:
                start, cpu = time.perf_counter(), time.process_time()
                rows = ask(url, frame, at_once)
                found[name] = (CALLS / (time.perf_counter() - start), time.process_time() - cpu)
                print(f"{name:<14}{at_once:>14}{found[name][0]:>10,.0f}{found[name][1]:>10.2f}{rows:>10,}", flush=True)
            ours, bare = found["aitest"], found["httpx"]
            print(f"aitest / httpx, {at_once} at once: calls a second x {ours[0] / bare[0]:.2f}, CPU x {ours[1] / bare[1]:.2f}")
    finally:
        server.kill()
    print()


def _ours(url: str, frame: pd.DataFrame, at_once: int) -> int:
    from model_server import REQUEST

    from aitest_lib.config.card import load_card_data
    from aitest_lib.models.opening import open_model

    endpoint = {"url": url, "request": REQUEST, "response": {"labels": "predictions[*].label"}}
    endpoint |= {"batch_size": BATCH, "concurrency": at_once}
    model = open_model(load_card_data({"name": "m", "type": "tabular-classifier", "endpoint": endpoint}, "."))
    try:
        return int((~model.predict(frame).errors.astype(bool)).sum())
    finally:
        model.close()


def _bare(url: str, frame: pd.DataFrame, at_once: int) -> int:
    with httpx.Client(trust_env=False) as client, ThreadPoolExecutor(at_once) as pool:

        def ask(start: int) -> int:
            part = frame.iloc[start : start + BATCH]
            body = {"fields": list(part.columns), "rows": part.to_numpy().tolist()}
            return len([one["label"] for one in client.post(url, json=body).json()["predictions"]])

        return sum(pool.map(ask, range(0, len(frame), BATCH)))


def s3() -> None:
    """The same suite twice on a local disk and on a real S3 server: the first run asks, the second finds its answers."""
    from s3_server import s3_server

    server = s3_server()
    print(f"{'store':<14}{'run':>10}{'wall s':>10}{'CPU s':>10}")
    for name in ("local", "s3"):
        with tempfile.TemporaryDirectory() as root:
            suite_file = project(Path(root), 20_000, "instant", [{"name": "numeric_noise", "epsilon": [0.1, 0.2]}])
            env = dict(os.environ)
            if name == "s3":
                env |= server.environment() | {"AITEST_STORE": server.prefix()}
            for run in ("first", "second"):
                start = time.perf_counter()
                process = subprocess.Popen(
                    [sys.executable, "-m", "aitest_flows.cli", "run", suite_file.name, "--json", "report.json"],
                    cwd=root,
                    env=env,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
                _, _, usage = os.wait4(process.pid, 0)
                wall, cpu = time.perf_counter() - start, usage.ru_utime + usage.ru_stime
                json.loads(Path(root, "report.json").read_text())
                print(f"{name:<14}{run:>10}{wall:>10.1f}{cpu:>10.1f}", flush=True)
    print()
