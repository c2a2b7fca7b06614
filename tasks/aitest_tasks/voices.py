"""The voices of a suite, opened where they speak."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path

from aitest_lib.config.loading import Document
from aitest_lib.config.voices import VoiceConfig, voices_of
from aitest_lib.transforms.audio.voice import VoiceOver
from aitest_lib.voices.base import Voice


def voice_of(component: VoiceOver, base_dir: Path) -> Voice:
    """The voice of a component; its process or connections stay open for the next shard. `base_dir`: where its paths start."""
    return _opened(json.dumps(component.config, sort_keys=True), base_dir)


@lru_cache(maxsize=64)
def _opened(config: str, base_dir: Path) -> Voice:
    return voices_of([VoiceConfig.model_validate_json(config)], Document({}), (), base_dir)[0]
