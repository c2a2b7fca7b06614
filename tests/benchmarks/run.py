"""Benchmarks of the whole: `python tests/benchmarks/run.py [NAME]...`; the README beside it says what each asks."""

from __future__ import annotations

import argparse
import itertools
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from adversarial import PARTS as ATTACKS
from adversarial import adversarial
from attack_memory import attack_memory
from audio import audio
from audit import audit
from compare import compare
from discrimination import discrimination
from group_fairness import group_fairness
from growth import growth, memory
from idle import idle
from image_memory import image_memory
from image_transforms import images
from project import project
from reach import endpoint, s3
from speech_memory import speech_memory
from spread import spread
from synthesis import synthesis
from trees import trees
from trees_models import DATA, MODELS


def plain_loop(suite_file: Path) -> dict[str, float]:
    """The same work without Prefect, MLflow, caching or a report: sample, generate, ask, score, count."""
    from functools import partial

    from aitest_lib.config.card import load_card, model_info
    from aitest_lib.config.suite import load_suite, transforms_of
    from aitest_lib.data.sampling import StratifiedSampler
    from aitest_lib.data.schema import build_profile
    from aitest_lib.data.table import TableSource, to_frame
    from aitest_lib.models.opening import open_model
    from aitest_lib.rng import rng_for
    from aitest_lib.transforms.base import TableBatch

    loaded = load_suite(suite_file)
    source = TableSource(str(suite_file.parent / "data.parquet"))
    card = load_card(suite_file.parent / "card.yaml")
    model = open_model(card, model_info(card))
    started, cpu = time.perf_counter(), _cpu()
    profile = build_profile(source, None, {}, [], {"label"})
    names = [column.name for column in profile.columns]
    seeds = StratifiedSampler().choose(source, source.schema.names, [], "label", 0)
    frame = to_frame(source.take(seeds.positions, names))
    shard = 2_500  # what a run makes of 2 ms a row
    baseline = np.concatenate([model.predict(frame.iloc[at : at + shard]).labels for at in range(0, len(frame), shard)])
    kept = total = 0
    for component in transforms_of(loaded.suite.properties[0], loaded.document, ("properties", 0)):
        for at in range(0, len(frame), shard):
            part, ids = frame.iloc[at : at + shard], seeds.seed_ids[at : at + shard]
            drawn = component.draw(ids, TableBatch(part, profile, tuple(names)), partial(rng_for, 0, component.key))
            changed = component.apply(part, drawn.params)
            moved = (changed != part).any(axis=1).to_numpy()
            answers = model.predict(changed[moved]).labels
            kept += int((answers == baseline[at : at + shard][moved]).sum())
            total += int(moved.sum())
    model.close()
    return {"wall": time.perf_counter() - started, "cpu": _cpu() - cpu, "cases": total, "kept": kept}


def _cpu() -> float:
    return sum(
        usage.ru_utime + usage.ru_stime
        for usage in (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    )


def in_flow(suite_file: Path) -> dict[str, float]:
    """The flow itself, its start-up (imports, Prefect server, MLflow's database) apart; the server's CPU included."""
    os.chdir(suite_file.parent)
    from aitest_tasks.settings import open_settings

    settings = open_settings()
    from aitest_flows import runner
    from aitest_flows.prefect_server import prefect_server
    from aitest_flows.suite import suite
    from aitest_lib.config.suite import load_suite

    with prefect_server(settings.prefect_home, settings.logs):
        run = runner.start(settings, runner.request_run(settings, load_suite(suite_file), runner.Options()))
        assert suite
        server = _server_cpu(settings.prefect_home)
        started, cpu = time.perf_counter(), _cpu()
        report = runner.execute(settings, run)
        wall, own = time.perf_counter() - started, _cpu() - cpu
        return {
            "wall": wall,
            "cpu": own + _server_cpu(settings.prefect_home) - server,
            "cases": report.properties[0].cases.total,
        }


def _server_cpu(home: Path) -> float:
    """CPU seconds of the Prefect server's processes so far."""
    supervisor = int((home / "supervisor.pid").read_text())
    total = 0.0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == supervisor:
            total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total


def _apart(name: str, suite_file: Path) -> dict[str, float]:
    """Runs one of the functions above in a process of its own."""
    done = subprocess.run([sys.executable, __file__, "--part", name, str(suite_file)], capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def overhead() -> None:
    """Flow against plain loop, in turn, twice, at two sizes: their difference is the work, what is left is start-up."""
    sizes, found = (2_000, 22_000), {}
    print(f"{'overhead':<14}{'rows':>10}{'wall s':>10}{'CPU s':>10}{'cases':>10}")
    with tempfile.TemporaryDirectory() as root:
        for turn, rows in itertools.product(range(2), sizes):
            folder = Path(root, f"{turn}-{rows}")
            folder.mkdir()
            suite_file = project(folder, rows, "Slow", [{"name": "numeric_noise", "epsilon": 0.1}])
            for name in ("plain_loop", "in_flow"):
                figures = found[turn, rows, name] = _apart(name, suite_file)
                print(
                    f"{name:<14}{rows:>10,}{figures['wall']:>10.1f}{figures['cpu']:>10.1f}{figures['cases']:>10,.0f}",
                    flush=True,
                )
    for what in ("wall", "cpu"):
        small, large = ([{n: found[t, s, n][what] for n in ("plain_loop", "in_flow")} for t in range(2)] for s in sizes)
        work = [{n: big[n] - little[n] for n in big} for big, little in zip(large, small, strict=True)]
        ratio = np.mean([one["in_flow"] for one in work]) / np.mean([one["plain_loop"] for one in work])
        fixed = np.mean([one["in_flow"] - one["plain_loop"] for one in small])
        print(f"{what}: flow / plain loop x {ratio:.3f} on 20,000 rows of work; start-up {fixed:.1f} s")
    print()


def sample_table(suite_file: Path) -> dict[str, float]:
    """Schema, digests and a stratified sample of a large Parquet file."""
    from aitest_lib.artifacts.store import Store
    from aitest_lib.config.suite import DataConfig
    from aitest_lib.data.table import TableSource
    from aitest_tasks.sampling import write_seeds

    source = TableSource(str(suite_file.parent / "data.parquet"))
    data = DataConfig.model_validate({"test": source.url, "label": "label", "sample": 2_000})
    started, cpu = time.perf_counter(), _cpu()
    found = write_seeds(Store(str(suite_file.parent / "store")), source, None, data, [*"abcdef", "kind", "count"], 0, True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    return {"wall": time.perf_counter() - started, "cpu": _cpu() - cpu, "peak": peak, "seeds": found["seeds"]}


def table() -> None:
    """A million rows."""
    with tempfile.TemporaryDirectory() as root:
        found = _apart("sample_table", project(Path(root), 1_000_000, "instant", [{"name": "category_swap"}]))
    print(f"{'table':<14}{'peak MB':>10}{'wall s':>10}{'CPU s':>10}{'seeds':>10}")
    print(f"{'1,000,000 rows':<14}{found['peak']:>10,.0f}{found['wall']:>10.1f}{found['cpu']:>10.1f}{found['seeds']:>10,.0f}\n")


BENCHMARKS: dict[str, Callable[[], None]] = {
    "overhead": overhead,
    "memory": memory,
    "table": table,
    "endpoint": endpoint,
    "s3": s3,
    "compare": compare,
    "growth": growth,
    "idle": idle,
    "spread": spread,
    "images": images,
    "image-memory": image_memory,
    "attack-memory": attack_memory,
    "speech-memory": speech_memory,
    "audio": audio,
    "synthesis": synthesis,
    "trees": trees,
    "adversarial": adversarial,
    "discrimination": discrimination,
    "group-fairness": group_fairness,
    "audit": audit,
}
PARTS: dict[str, Callable[[Path], dict[str, float]]] = {
    "plain_loop": plain_loop,
    "in_flow": in_flow,
    "sample_table": sample_table,
}


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split(":")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which of: {', '.join(BENCHMARKS)} (all)")
    parser.add_argument("--seconds", type=float, default=600, help="spread: what one process sleeps (600)")
    parser.add_argument("--workers", type=int, default=4, help="spread: workers of the pool, and of the cluster (4)")
    parser.add_argument("--data", nargs="*", choices=DATA, default=list(DATA), help="trees: which tables (all)")
    parser.add_argument("--models", nargs="*", choices=MODELS, default=list(MODELS), help="trees: which models (all)")
    parser.add_argument("--seeds", type=int, help="trees: splits, each with models of its own (5); adversarial: runs (3)")
    parser.add_argument("--trustee-seeds", type=int, default=2, help="trees: on how many of them Trustee stands beside (2)")
    parser.add_argument("--parts", nargs="*", choices=ATTACKS, default=list(ATTACKS), help="adversarial: which tables (all)")
    parser.add_argument("--methods", nargs="*", default=[], help="adversarial: which of aitest's searches (all)")
    parser.add_argument("--images", type=int, default=200, help="adversarial: how many images that the model reads right (200)")
    parser.add_argument("--peers-images", type=int, default=30, help="adversarial: on how many of them peers stand beside (30)")
    parser.add_argument("--weights", type=Path, help="adversarial: a folder that keeps the trained networks (trained anew)")
    given = parser.parse_args()
    if strange := sorted(set(given.names) - set(BENCHMARKS)):
        parser.error(f"got {strange[0]}, expected one of {', '.join(BENCHMARKS)}")
    for name in given.names or BENCHMARKS:
        if name == "spread":
            spread(given.seconds, given.workers)
        elif name == "trees":
            trees(given.data, given.models, given.seeds or 5, given.trustee_seeds)
        elif name == "adversarial":
            sizes = given.images, given.peers_images, given.seeds or 3
            adversarial(given.parts, given.methods, *sizes, given.weights)
        else:
            BENCHMARKS[name]()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--part"]:
        print(json.dumps(PARTS[sys.argv[2]](Path(sys.argv[3]))))
    else:
        main()
