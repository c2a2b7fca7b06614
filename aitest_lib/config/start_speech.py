"""Files to start from for a recogniser of speech: a card and a suite as YAML text, with every guess marked as one."""

from __future__ import annotations

from collections.abc import Sequence

from aitest_lib.config.curl import CurlRequest
from aitest_lib.config.start import endpoint_head, inline, property_lines, put, slug
from aitest_lib.properties.base import PropertySpec

VOICES = (  # installed with espeak-ng
    ("en-us", "male", "US"),
    ("en-us+f3", "female", "US"),
    ("en-gb-scotland", "male", "Scottish"),
    ("en-gb-scotland+f3", "female", "Scottish"),
)


def speech_card(name: str, sample_rate: int | None, curl: CurlRequest | None) -> str:
    """A card to start from: an endpoint that takes WAV files. `sample_rate`: of all clips that were looked at, in Hz."""
    lines = [
        "# A card to start from: check every line marked as a guess.",
        f"name: {inline(slug(name))}",
        'revision: "1"  # change it whenever what is deployed changes: answers are reused while it stays the same',
        "type: speech-to-text",
        "inputs:",
        f"  speech: {{sample_rate: {sample_rate or 16_000}, language: en-US}}  # a guess: others are resampled to it",
    ]
    lines += endpoint_head(curl)
    lines += [
        "  body: raw  # a guess: the WAV file itself; `json` with {{ audio_b64|tojson }} or `multipart` are other ways",
        *([] if curl is not None and curl.headers else ["  headers: {Content-Type: audio/wav}"]),
        "  response:",
        "    kind: json",
        "    labels: text  # a guess (JMESPath): the transcript",
        "  timeout_s: 60",
    ]
    return "\n".join(lines) + "\n"


def speech_card_like(ready: str, name: str) -> str:
    """A copy of a ready card's text with the name in place of its own. Its sample rate stays: clips are resampled to it."""
    return put(ready, "name", inline(slug(name)))


def speech_suite(
    name: str, card_file: str, data: str, label: str | None, groups: Sequence[str], properties: Sequence[PropertySpec]
) -> str:
    """A suite to start from: the default noises and gates; `groups`: columns that look like groups of speakers."""
    lines = [
        "# A suite to start from.",
        f"suite: {inline(slug(name))}",
        "random_seed: 1",
        f"model: {{card: {inline(card_file)}}}",
        f"# model: {{name: {inline(slug(name))}, version: latest}}  # once registered; `deploy --on-new-version` needs it",
        "data:",
        f"  test: {inline(data)}",
        *([f"  label: {inline(label)}"] if label is not None else []),
        *([f"  protected: [{', '.join(inline(one) for one in groups)}]  # a guess: groups of speakers"] if groups else []),
        "  sample: 200  # clips; `all` takes every one",
        "properties:",
    ]
    for spec in properties:
        lines += property_lines(spec)
        if spec.by_voices and not groups:
            lines += [
                "    voices:  # who says the texts of the data, the first is the original; `aitest list voices` shows more"
            ]
            lines += [
                f"      - {{voice: {voice}, engine: espeak-ng, groups: {{gender: {gender}, accent: {accent}}}}}"
                for voice, gender, accent in VOICES
            ]
    return "\n".join(lines) + "\n"
