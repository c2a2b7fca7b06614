"""Noise for transforms of speech: made, or read from the user's recordings, once for a sample rate, and kept in the store."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from prefect import task

from aitest_lib.artifacts.clips import get_clips, put_clips
from aitest_lib.artifacts.store import Store
from aitest_lib.config.loading import located
from aitest_lib.data.recordings import NoiseSource, Recordings, read_recordings, recordings_digest
from aitest_lib.pcm import of_pcm16, to_pcm16
from aitest_lib.transforms.audio.base import AudioTransform
from aitest_lib.transforms.audio.noises import NOISES_VERSION, synthesize
from aitest_lib.transforms.base import Transform
from aitest_lib.types import ArtifactRef
from aitest_tasks import live
from aitest_tasks.caching import CACHED, job_key
from aitest_tasks.components import components, searches
from aitest_tasks.runs import Run, open_run

Noise = dict[str, Any]  # {"clips": reference, "names": names of the recordings}


def noise_jobs(run: Run, sample_rates: list[int]) -> list[dict[str, Any]]:
    """What the properties of a run need, at every sample rate of its clips (none: its inputs are no clips); each only once."""
    if not sample_rates:
        return []
    sources = [
        placed(run, part)
        for index in run.properties
        for part in (*components(run, index), *(one.transform for one in searches(run, index)))
    ]
    return [
        {
            "noise": source.name,
            "folder": source.folder,
            "content": NOISES_VERSION if source.folder is None else recordings_digest(source),
            "sample_rate": rate,
        }
        for source in dict.fromkeys(sources)
        if source is not None
        for rate in sample_rates
    ]


def placed(run: Run, component: Transform) -> NoiseSource | None:
    """The noise that a component needs, its folder as an absolute path or a URL; None where it needs none."""
    source = component.noise_source if isinstance(component, AudioTransform) else None
    if source is None or source.folder is None:
        return source
    return NoiseSource(name=source.name, folder=located(source.folder, run.suite.base_dir))


@task(name="make_noise", task_run_name="make_noise_{job[noise]}", cache_key_fn=job_key, **CACHED)
def make_noise(job: dict[str, Any], run_uri: str) -> Noise:
    """Noise at a sample rate, as an artifact of clips."""
    live.check_stopped()
    return write_noise(open_run(run_uri).store, job)


def write_noise(store: Store, job: dict[str, Any]) -> Noise:
    """The work of `make_noise`, without Prefect."""
    rate = job["sample_rate"]
    if job["folder"] is None:
        found = synthesize(job["noise"], rate)
    else:
        found = read_recordings(NoiseSource(name=job["noise"], folder=job["folder"]), rate)
    clips = [of_pcm16(to_pcm16(samples), rate) for samples in found.samples]
    return {"clips": put_clips(store, clips).to_dict(), "names": list(found.names)}


def kept(jobs: list[dict[str, Any]], made: list[Noise]) -> dict[str, dict[str, Noise]]:
    """Noises as a run's record keeps them: by source and sample rate."""
    found: dict[str, dict[str, Noise]] = {}
    for job, one in zip(jobs, made, strict=True):
        found.setdefault(_key(job["noise"], job["folder"]), {})[str(job["sample_rate"])] = one
    return found


def noise_of(run: Run, component: Transform) -> dict[str, Noise] | None:
    """The noise of a component by sample rate, None where it needs none."""
    source = placed(run, component)
    return None if source is None else dict(run.prepared["noises"][_key(source.name, source.folder)])


def read_noise(store: Store, noise: Noise) -> Recordings:
    """The stored noise; the last ones stay in memory, since every shard asks for them."""
    return _read(store, json.dumps(noise, sort_keys=True))


@lru_cache(maxsize=16)
def _read(store: Store, noise: str) -> Recordings:
    known = json.loads(noise)
    clips = get_clips(store, ArtifactRef.of(known["clips"]))
    return Recordings(tuple(known["names"]), tuple(clip.samples for clip in clips), clips[0].sample_rate)


def _key(name: str | None, folder: str | None) -> str:
    return json.dumps([name, folder])
