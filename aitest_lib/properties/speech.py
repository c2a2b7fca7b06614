"""The properties of speech-to-text models."""

from __future__ import annotations

from aitest_lib.properties.base import SPEECH, PropertySpec
from aitest_lib.properties.tabular import ROBUSTNESS

WER = ("wer", "mean_wer", "cer", "substitution_rate", "deletion_rate", "insertion_rate", "empty_rate", "sentence_error_rate")
FAULTS = frozenset((*WER, "clean_wer", "wer_rise", "wer_gap", "wer_ratio"))  # of which less is better
OF_SLICES = ("wer", "accuracy")
EVERYDAY = ("restaurant", "rain", "festival", "water_drip", "wind")  # the noises of the AITEST paper
DECIBELS = [40, 30, 20, 10, 5, 0]
MOST_RISE = 0.10

SPEECH_GENERALIZATION = PropertySpec(
    name="speech.generalization",
    modality="speech",
    types=SPEECH,
    shape="group",
    summary="how many words are misheard in the clips as they are, over all and in every slice",
    metrics=dict.fromkeys(SPEECH, (*WER, "accuracy")),
    needs_labels=True,
)

SPEECH_ROBUSTNESS = PropertySpec(
    name="speech.robustness",
    modality="speech",
    types=SPEECH,
    shape="perturbation",
    summary="how many more words are misheard in white noise, everyday noises and worse channels",
    metrics=dict.fromkeys(SPEECH, (*ROBUSTNESS, *WER, "clean_wer", "wer_rise", "median_breaking_point", "unbroken_rate")),
    new_queries=True,
    default_transforms=(
        {"name": "white_noise", "snr_db": DECIBELS},
        {"name": "interference", "noise": [*EVERYDAY], "snr_db": [20, 10, 0]},
    ),
    default_gates={
        "wer_rise": (
            {"max": MOST_RISE, "slice": {"transform": "white_noise", "snr_db": 20}},
            *({"max": MOST_RISE, "slice": {"transform": "interference", "noise": noise, "snr_db": 10}} for noise in EVERYDAY),
        )
    },
)

SPEECH_FAIRNESS = PropertySpec(
    name="speech.fairness",
    modality="speech",
    types=SPEECH,
    shape="perturbation",
    summary="whether speakers of every gender and accent are understood alike",
    metrics=dict.fromkeys(SPEECH, ("wer_gap", "wer_ratio", *WER, "wer_rise", "pass_rate")),
    needs_labels=True,
    new_queries=True,
    by_voices=True,
    default_gates={"wer_gap": {"max": 0.05}},
)
