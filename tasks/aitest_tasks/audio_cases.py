"""Cases of speech: a transform applied to a shard of clips one by one, or their texts spoken by another voice."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from aitest_lib.artifacts.clips import get_clips, put_clips
from aitest_lib.artifacts.codecs import get_table, put_table
from aitest_lib.artifacts.store import Store
from aitest_lib.canonical import canonical_json
from aitest_lib.data.recordings import Recordings
from aitest_lib.errors import InputError
from aitest_lib.pcm import clip_digest
from aitest_lib.rng import rng_for
from aitest_lib.transforms.audio.base import AudioTransform
from aitest_lib.transforms.audio.voice import VoiceOver
from aitest_lib.transforms.base import Transform
from aitest_lib.types import ArtifactRef, Clip
from aitest_lib.voices.base import CannotSay
from aitest_lib.voices.speaking import speak
from aitest_tasks.case_tables import PARAMS, STATUS, case_table, pieces
from aitest_tasks.contents import content_of, with_content
from aitest_tasks.memory import one_thread
from aitest_tasks.noises import read_noise
from aitest_tasks.seed_tables import LABEL, SEED_ID
from aitest_tasks.voices import voice_of

SECONDS, DIGITAL_SILENCE, STILL_S = "seconds", "digital_silence", 0.01
UNSAID = "unsaid"  # a voice failed to say the text
MEASURED = "measured"  # beside the drawn parameters of a case: what came out


def write_audio_cases(store: Store, job: dict[str, Any], base_dir: Path) -> dict[str, Any]:
    """The cases of a shard of clips: references of their table (see `case_table`) and of the clips. What was measured on each
    stands beside its parameters, and is no part of its id. `base_dir`: where the paths of the suite start."""
    whole = get_table(store, ArtifactRef.of(job["shard"]))
    tables, clips = [], list[Clip]()
    with one_thread():
        for component, rows in _pieces(job, whole.num_rows):
            table, made = _piece(component, store, job, whole, rows, base_dir)
            tables.append(table)
            clips += made
    content = put_clips(store, clips)
    whole_table = with_content(pa.concat_tables(tables), content)
    unsaid = sum(status == UNSAID for status in whole_table.column(STATUS).to_pylist())
    return {"cases": put_table(store, whole_table).to_dict(), "content": content.to_dict(), "unsaid": unsaid}


def _piece(
    component: Transform, store: Store, job: dict[str, Any], whole: pa.Table, rows: NDArray[np.int64], base_dir: Path
) -> tuple[pa.Table, list[Clip]]:
    """The cases of some rows. The untouched clips are let go with it, before what was made of them is stored."""
    seeds = whole.take(pa.array(rows))
    known = get_clips(store, content_of(whole), rows)
    if isinstance(component, VoiceOver):
        return _cases(component, seeds, known, _spoken(component, seeds, known, base_dir))
    if isinstance(component, AudioTransform):
        return _cases(component, seeds, known, _transformed(component, store, seeds, known, job))
    raise TypeError(f"{job['component']} is no transform of speech")


def clip_digests(clips: list[Clip]) -> NDArray[np.void]:
    """The digest of each clip, as void16 (n,)."""
    return np.frombuffer(b"".join(bytes.fromhex(clip_digest(one)) for one in clips), dtype="V16")


Status = tuple[str, str]
# What was drawn, why there is no case, the clips, what was measured, and the status of cases that could not be made.
Made = tuple[list[dict[str, Any]], list[str | None], list[Clip], list[dict[str, Any]], list[Status | None]]


def _pieces(job: dict[str, Any], seeds: int) -> list[tuple[Transform, NDArray[np.int64]]]:
    if job["component"] == VoiceOver.name:  # not one of the transforms that a suite can name
        return [(VoiceOver(**job["parameters"]), np.arange(seeds))]
    return pieces(job, seeds)


def _cases(component: Transform, seeds: pa.Table, clips: list[Clip], result: Made) -> tuple[pa.Table, list[Clip]]:
    params, reasons, made, measured, broken = result
    distance = np.array([_distance(seed, case) for seed, case in zip(clips, made, strict=True)])
    columns = case_table(component, seeds, params, reasons, clip_digests(made), broken, distance, "clip")
    told = [
        canonical_json({**drawn, MEASURED: facts} if facts else drawn) for drawn, facts in zip(params, measured, strict=True)
    ]
    return pa.table(columns | {PARAMS: pa.array(told, pa.string())}), made


def _transformed(component: AudioTransform, store: Store, seeds: pa.Table, clips: list[Clip], job: dict[str, Any]) -> Made:
    seed_ids = seeds.column(SEED_ID).to_pylist()
    draw_of = partial(rng_for, job["random_seed"], component.key)
    params: list[dict[str, Any]] = [{}] * len(clips)
    reasons: list[str | None] = [None] * len(clips)
    made, measured = list(clips), [dict[str, Any]() for _ in clips]
    for place, (seed_id, clip) in enumerate(zip(seed_ids, clips, strict=True)):
        noise = _noise(store, job, clip.sample_rate)
        drawn = component.draw([seed_id], [clip], draw_of, noise)
        params[place], reasons[place] = drawn.params[0], drawn.not_applicable[0]
        if reasons[place] is None:
            changed = component.apply(clip, params[place], noise)
            made[place], measured[place] = changed.clip, changed.measured
    return params, reasons, made, measured, [None] * len(clips)


def _spoken(component: VoiceOver, seeds: pa.Table, clips: list[Clip], base_dir: Path) -> Made:
    """Where nothing is said there is no case; what the voice fails to say is told as an error of its case."""
    voice = voice_of(component, base_dir)
    texts = seeds.column(LABEL).to_pylist()
    reasons: list[str | None] = [None if text.strip() else "nothing is said in the clip" for text in texts]
    made, broken = list(clips), list[Status | None]([None] * len(clips))
    for place, (text, clip, reason) in enumerate(zip(texts, clips, reasons, strict=True)):
        if reason is not None:
            continue
        try:
            made[place] = speak(voice, text, clip.sample_rate)
        except CannotSay as error:
            broken[place] = (UNSAID, str(error))
    return [component.drawn() for _ in clips], reasons, made, [_of_voice(clip) for clip in made], broken


def _of_voice(clip: Clip) -> dict[str, float]:
    return {SECONDS: round(len(clip.samples) / clip.sample_rate, 3), DIGITAL_SILENCE: _digital_silence(clip)}


def _digital_silence(clip: Clip) -> float:
    """The share of a clip in which nothing moves at all for 10 ms or longer, as in no recording."""
    still = np.flatnonzero(np.diff(clip.samples, prepend=np.nan, append=np.nan) != 0)  # where a new value begins
    runs = np.diff(still)
    return round(float(runs[runs >= STILL_S * clip.sample_rate].sum()) / max(len(clip.samples), 1), 3)


def _noise(store: Store, job: dict[str, Any], sample_rate: int) -> Recordings | None:
    if not job.get("noise"):
        return None
    known = job["noise"].get(str(sample_rate))
    if known is None:
        raise InputError(f"there is no noise at {sample_rate} samples per second; run the suite again")
    return read_noise(store, known)


def _distance(seed: Clip, case: Clip) -> float:
    """Root mean square of the difference, full scale being 1; NaN where the lengths differ."""
    if len(seed.samples) != len(case.samples):
        return float("nan")
    difference = case.samples - seed.samples
    return float(np.sqrt(np.dot(difference, difference) / max(len(difference), 1)))
