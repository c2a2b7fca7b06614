"""Does memory grow with the hours of audio: ten times as many clips, in white noise, heard by a model that answers at once."""

from __future__ import annotations

import csv
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
from growth import prefect_server
from numpy.typing import NDArray
from project import Measured, measured_run

HOURS = (1.0, 10.0)
MOST_MB = 1_000  # that ten hours may take
RATE, CLIP_S, SPEAKERS = 16_000, 5, 40
TONE_S, PAUSE_S = 0.35, 0.15  # one after the other
TONE, FLOOR = 0.2, 0.002  # amplitude, and standard deviation of the noise in the pauses, too
WORDS = 12  # a clip
SNR_DB = 20


def speech_memory(hours: Sequence[float] = HOURS) -> None:
    """One row for each length; peak and CPU seconds of a row also as times those of the first."""
    head = ("clips", "wall s", "CPU s", "x", "peak MB", "x", "< 1 GB", "with child", "store MB", "failed")
    print(f"{'hours':<10}" + "".join(f"{name:>11}" for name in head), flush=True)
    first = None
    for length in hours:
        clips = round(length * 3_600 / CLIP_S)
        run, store = _spent(clips)
        first = first or run
        print(
            f"{length:<10g}{clips:>11,}{run.wall:>11.1f}{run.cpu:>11.1f}{run.cpu / first.cpu:>11.2f}"
            f"{run.peak:>11,.0f}{run.peak / first.peak:>11.2f}{'yes' if run.peak < MOST_MB else 'NO':>11}"
            f"{run.peak_with_children:>11,.0f}{store:>11,.0f}{run.report['properties'][0]['cases']['failed']:>11,}",
            flush=True,
        )
    print()


def signs(clips: list[NDArray[Any]], sample_rate: int) -> list[str]:
    """A recogniser that answers at once: twelve words by the signs of as many samples. Noise changes those in pauses."""
    return [_words(clip) for clip in clips]


def _words(samples: NDArray[Any]) -> str:
    places = np.linspace(0, len(samples) - 1, WORDS).astype(int)
    return " ".join("high" if sample > 0 else "low" for sample in samples[places])


def _spent(clips: int) -> tuple[Measured, float]:
    """A run of `speech.robustness` in a new project, on a Prefect server that is up; and the megabytes of its store."""
    with tempfile.TemporaryDirectory() as root, prefect_server(Path(root, "prefect")) as server:
        suite_file = _project(Path(root, "project"), clips)
        measured = measured_run(suite_file, environment={"PREFECT_API_URL": server.url})
        files = Path(root, "project", ".aitest", "store").rglob("*")
        return measured, sum(file.stat().st_size for file in files if file.is_file()) / 1e6


def _project(folder: Path, clips: int) -> Path:
    """A project folder: clips with their transcripts, a card, a suite with one strength of white noise."""
    folder.mkdir(parents=True)
    _write_clips(folder, clips)
    card = {
        "name": "bench",
        "revision": "1",
        "type": "speech-to-text",
        "inputs": {"speech": {"sample_rate": RATE, "language": "en-US"}},
        "python": {"callable": f"{Path(__file__).stem}:signs", "path": [str(Path(__file__).parent)]},
    }
    transforms = [{"name": "white_noise", "snr_db": SNR_DB}]
    suite = {
        "suite": "bench",
        "model": {"card": "card.yaml"},
        "data": {"test": "clips.csv", "sample": "all"},
        "properties": [{"property": "speech.robustness", "transforms": transforms, "gates": {"pass_rate": {"min": 0.9}}}],
    }
    (folder / "card.yaml").write_text(json.dumps(card))
    (folder / "suite.yaml").write_text(json.dumps(suite))
    return folder / "suite.yaml"


def _write_clips(folder: Path, clips: int) -> None:
    """FLAC files, and the manifest with what `signs` hears in each."""
    (folder / "clips").mkdir()
    with (folder / "clips.csv").open("w", newline="") as file:
        manifest = csv.writer(file)
        manifest.writerow(("path", "text", "speaker"))
        for number in range(clips):
            samples, name = _clip(number), f"clips/{number:06d}.flac"
            soundfile.write(folder / name, samples, RATE, subtype="PCM_16")
            manifest.writerow((name, _words(samples), f"speaker {number % SPEAKERS}"))


def _clip(number: int) -> NDArray[np.int16]:
    """Tones of changing pitch with pauses between them, in a little noise."""
    rng = np.random.default_rng(number)
    period = round((TONE_S + PAUSE_S) * RATE)
    time = np.arange(period) / RATE
    pitch = rng.uniform(100, 1_000, (CLIP_S * RATE // period, 1))
    tones = np.where(time < TONE_S, TONE * np.sin(2 * np.pi * pitch * time), 0).ravel()
    return ((tones + FLOOR * rng.standard_normal(len(tones))) * 32_768).astype(np.int16)
