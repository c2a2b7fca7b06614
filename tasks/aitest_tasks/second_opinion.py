"""A second recogniser, asked about voices that the audited one does not understand: is it the voice, or the recogniser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from prefect import task

from aitest_lib.artifacts.clips import get_clips
from aitest_lib.artifacts.codecs import get_table
from aitest_lib.config.card import load_card, load_card_data, model_info
from aitest_lib.config.loading import located
from aitest_lib.models.opening import open_model
from aitest_lib.types import ArtifactRef
from aitest_tasks import live
from aitest_tasks.caching import CACHED, job_key
from aitest_tasks.case_tables import STATUS
from aitest_tasks.contents import content_of
from aitest_tasks.querying import needed
from aitest_tasks.runs import Run, open_run


def second_job(run: Run, index: int, cases: list[dict[str, Any]]) -> dict[str, Any]:
    """Everything that the second recogniser's answers to `cases` depend on."""
    given = str(run.suite.suite.properties[index].reference_model)
    card = load_card(Path(located(given, run.suite.base_dir)))
    info = model_info(card, None)
    # Without a revision nobody knows whether it is the same tomorrow: its answers then serve this run alone.
    return {
        "card": card.raw,
        "card_dir": str(card.base_dir),
        "model": info.digest,
        "run": None if info.reusable else run.run_id,
        "cases": cases,
    }


@task(name="ask_second", cache_key_fn=job_key, **CACHED)
def ask_second(job: dict[str, Any], run_uri: str) -> dict[str, Any]:
    """What the second recogniser hears, by the digest of each clip; nothing for those that it gives no usable answer to."""
    run = open_run(run_uri)
    model = open_model(load_card_data(job["card"], job["card_dir"]))
    heard: dict[str, str] = {}
    try:
        for ref in map(ArtifactRef.of, job["cases"]):
            live.check_stopped()
            rows = np.flatnonzero(get_table(run.store, ref, [STATUS]).column(STATUS).is_null().to_numpy().astype(bool))
            digests = [one.tobytes().hex() for one in needed(run, ref)[0][rows]]
            answers = model.predict(get_clips(run.store, content_of(get_table(run.store, ref, [STATUS])), rows))
            heard |= {key: str(label) for key, label in zip(digests, answers.labels.tolist(), strict=True) if label is not None}
    finally:
        model.close()
    return {"answers": run.store.put_json(heard).to_dict()}
