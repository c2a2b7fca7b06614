"""Realistic reports of a census income model and of a digit reader, for the tests of everything people look at."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from aitest_lib.reports.explain import explain_case, explain_image_case, explain_property
from aitest_lib.reports.pictures import case_pictures
from aitest_lib.reports.report import (
    Attribution,
    BreakingPoints,
    CaseCounts,
    Confusion,
    FailingCase,
    FeatureFlip,
    GateResult,
    Metric,
    ModelReport,
    PropertyQueries,
    PropertyReport,
    Provenance,
    Queries,
    RunReport,
    SliceFinding,
    UnreadableFile,
)
from aitest_lib.types import OUTCOMES

CLASSES = ["<=50K", ">50K"]
ROW = {
    "age": "39",
    "workclass": "State-gov",
    "fnlwgt": "77516",
    "education": "Bachelors",
    "education-num": "13",
    "marital-status": "Never-married",
    "occupation": "Adm-clerical",
    "relationship": "Not-in-family",
    "race": "White",
    "sex": "Male",
    "capital-gain": "2174",
    "capital-loss": "0",
    "hours-per-week": "40",
    "native-country": "United-States",
}


def rate(name: str, where: dict[str, Any], value: float, half: float, n: int, **more: Any) -> Metric:
    return Metric(name=name, slice=where, value=value, low=round(value - half, 4), high=round(value + half, 4), n=n, **more)


def generalization() -> PropertyReport:
    metrics = [
        rate("accuracy", {}, 0.8731, 0.0071, 6000),
        rate("balanced_accuracy", {}, 0.7984, 0.0102, 6000),
        rate("f1_macro", {}, 0.8137, 0.0099, 6000),
        rate("roc_auc", {}, 0.9271, 0.0055, 6000),
        Metric(name="log_loss", value=0.2784, low=0.2672, high=0.2899, n=6000, unit="nats", higher_is_better=False),
        rate("calibration_error", {}, 0.0112, 0.0042, 6000, higher_is_better=False),
        Metric(
            name="mape",
            value=None,
            n=6000,
            higher_is_better=False,
            reason="a label is zero, and the error relative to it has no meaning",
        ),
    ]
    for label, total, figures in (("<=50K", 4560, (0.894, 0.943, 0.918)), (">50K", 1440, (0.783, 0.654, 0.713))):
        metrics += [
            rate(name, {"class": label}, value, 0.013, n)
            for name, value, n in zip(("precision", "recall", "f1"), figures, (4801, total, total), strict=True)
        ]
    for sex, value, n in (("Female", 0.931, 1980), ("Male", 0.844, 4020)):
        metrics.append(rate("accuracy", {"sex": sex}, value, 0.009, n))
    prop = PropertyReport(
        property="tabular.generalization",
        status="unjudged",
        cases=CaseCounts(total=6000, passed=5239, failed=761),
        metrics=metrics,
        queries=PropertyQueries(planned=6000, sent=6000),
        seconds=9.8,
        slices=[
            finding("relationship", "Husband", 2480, 512, 0.2065, 0.0707, 0.1197, 0.1524, 1e-9, True),
            finding("education", "Masters", 330, 71, 0.2152, 0.1217, 0.0581, 0.1337, 0.0004, True),
            finding("occupation", "Exec-managerial", 760, 131, 0.1724, 0.1202, 0.0284, 0.0783, 0.0021, True),
            finding("workclass", "Self-emp-inc", 204, 33, 0.1618, 0.1256, -0.0068, 0.0863, 0.21, False),
        ],
        confusion=Confusion(classes=CLASSES, counts=[[4300, 260], [501, 939]]),
    )
    return prop.model_copy(update={"explanation": explain_property(prop, 0.95)})


def finding(
    name: str, value: str, seeds: int, failing: int, share: float, rest: float, low: float, high: float, q: float, flag: bool
) -> SliceFinding:
    return SliceFinding(
        name=name,
        value=value,
        seeds=seeds,
        failing=failing,
        rate=share,
        rest_rate=rest,
        difference=round(share - rest, 4),
        low=low,
        high=high,
        q_value=q,
        flagged=flag,
    )


def robustness() -> PropertyReport:
    components: list[tuple[dict[str, Any], float, float]] = [
        ({"transform": "numeric_noise", "epsilon": 0.05}, 0.987, 0.0083),
        ({"transform": "numeric_noise", "epsilon": 0.1}, 0.9528, 0.0129),
        ({"transform": "numeric_noise", "epsilon": 0.2}, 0.9021, 0.0178),
        ({"transform": "category_swap"}, 0.8704, 0.0203),
        ({"transform": "missing_value"}, 0.9713, 0.0108),
    ]
    metrics = [
        rate("pass_rate", {}, 0.9367, 0.0071, 1012),
        rate("robust_accuracy", {}, 0.8174, 0.0191, 1160),
        rate("accuracy", {}, 0.8431, 0.0176, 1160),
        rate("robust_accuracy_drop", {}, 0.0553, 0.0112, 1160, higher_is_better=False),
    ]
    gates = []
    for where, value, half in components:
        metrics += [
            rate("pass_rate", where, value, half, 905),
            rate("robust_accuracy", where, value * 0.873, half + 0.008, 1160),
            rate("accuracy", where, value * 0.9, half + 0.008, 1160),
            rate("robust_accuracy_drop", where, round((1 - value) * 0.87, 4), half, 1160, higher_is_better=False),
        ]
        low, high = value - half, value + half
        verdict = "passed" if low > 0.95 else "failed" if high < 0.95 else "inconclusive"
        reason = {
            "passed": f"{value:.3f} [{low:.3f}, {high:.3f}] is above 0.95",
            "failed": f"{value:.3f} [{low:.3f}, {high:.3f}] is below 0.95",
            "inconclusive": f"{value:.3f} [{low:.3f}, {high:.3f}] spans 0.95; about 12,400 seeds would settle it",
        }[verdict]
        gates.append(GateResult(metric="pass_rate", slice=where, min=0.95, verdict=verdict, reason=reason))
    drop = "robust_accuracy_drop"
    why = "0.055 [0.044, 0.066] spans 0.05; about 3,900 seeds would settle it"
    gates.append(GateResult(metric=drop, max=0.05, verdict="inconclusive", reason=why))
    why = "0.113 [0.092, 0.133] is above 0.05; waived by risk until 2027-01-31"
    gates.append(
        GateResult(metric=drop, slice={"transform": "category_swap"}, max=0.05, verdict="failed", waived=True, reason=why)
    )
    prop = PropertyReport(
        property="tabular.robustness",
        status="failed",
        cases=CaseCounts(total=5800, passed=4238, failed=287, skipped=1269, error=6),
        skipped={"misclassified_seed": 735, "no_op": 503, "invalid": 31},
        errors={"sent 256 rows, got 255 predictions": 4, "timeout after 30 s": 2},
        metrics=metrics,
        gates=gates,
        queries=PropertyQueries(planned=6426, sent=6358, cached=68),
        seconds=30.1,
        artifacts={"cases": "s3://audits/adult/7f3a/cases.parquet"},
        slices=[
            finding("marital-status", "Married-civ-spouse", 421, 47, 0.1116, 0.0366, 0.0563, 0.0971, 2e-6, True),
            finding("education", "Some-college", 203, 21, 0.1034, 0.0541, 0.0219, 0.0788, 0.013, True),
            finding("sex", "Male", 611, 43, 0.0704, 0.0511, 0.0011, 0.0373, 0.148, False),
            finding("race", "Black", 97, 4, 0.0412, 0.0655, -0.0488, 0.0071, 0.91, False),
        ],
        flips=[
            FeatureFlip(column="capital-gain", seeds=905, flipped=96, smallest=112.0, smallest_sd=0.015, median_sd=0.071),
            FeatureFlip(column="occupation", seeds=905, flipped=71),
            FeatureFlip(column="hours-per-week", seeds=905, flipped=38, smallest=1.0, smallest_sd=0.08, median_sd=0.16),
            FeatureFlip(column="age", seeds=905, flipped=29, smallest=1.0, smallest_sd=0.073, median_sd=0.146),
            FeatureFlip(column="native-country", seeds=905, flipped=0),
        ],
    )
    return prop.model_copy(update={"explanation": explain_property(prop, 0.95)})


def failing_cases(n: int = 30) -> list[FailingCase]:
    rng = np.random.default_rng(7)
    result = []
    for i in range(n):
        seed = dict(ROW, age=str(rng.integers(22, 64)), fnlwgt=str(rng.integers(20_000, 400_000)))
        kinds: list[tuple[str, list[tuple[str, str, str, float | None]]]] = [
            ("numeric_noise", [("hours-per-week", "40", "39", -0.08), ("age", seed["age"], str(int(seed["age"]) + 1), 0.07)]),
            ("category_swap", [("occupation", "Adm-clerical", "Exec-managerial", None)]),
            ("missing_value", [("workclass", "State-gov", "", None)]),
        ]
        transform, changes = kinds[i % 3]
        expected, observed = CLASSES if i % 4 else CLASSES[::-1]
        score = 0.5 + float(rng.integers(1, 450)) / 1000
        result.append(
            FailingCase(
                case_id=f"{rng.integers(2**62):032x}",
                seed_id=f"{rng.integers(2**62):032x}",
                transform=transform,
                strength=(0.05, 0.1, 0.2)[i // 3 % 3] if transform == "numeric_noise" else None,
                expected=expected,
                observed=observed,
                score=score,
                explanation=explain_case(transform, changes, expected, observed, score),
                seed=seed,
                case=seed | {column: after for column, _, after, _ in changes},
                changed=[column for column, *_ in changes],
            )
        )
    return result


def report(**more: Any) -> RunReport:
    fields: dict[str, Any] = {
        "suite": "adult-nightly",
        "run_id": "7f3a9c51e2d84b07a1c6f0d2b94e8e11",
        "status": "failed",
        "model": ModelReport(
            name="adult-gbm",
            version="3",
            revision="2026-11-29",
            type="tabular-classifier",
            digest="c4d1" * 8,
            self_flip_rate=0.0,
        ),
        "provenance": Provenance(
            aitest="0.1.0",
            packages={"numpy": "2.4.1", "pandas": "3.0.0", "scikit-learn": "1.8.0"},
            suite_digest="9b1e" * 8,
            data_digest="07aa" * 8,
            random_seed=20261129,
            confidence=0.95,
            started_by="nightly schedule",
            previous_looks=2,
            rows=16281,
            seeds=6000,
        ),
        "started": "2026-11-29T02:00:00Z",
        "seconds": 41.2,
        "queries": Queries(planned=12426, sent=12358, cached=68, sentinel=0, retries=3, errors=6),
        "properties": [generalization(), robustness()],
        "info": {"owner": "credit-risk", "tier": "high"},
        "warnings": ["31 of 16,281 rows were left out: label missing"],
    }
    return RunReport(**(fields | more))


def failures(n: int = 30) -> dict[str, list[FailingCase]]:
    return {"tabular.robustness": failing_cases(n)}


def image_robustness() -> PropertyReport:
    """Sweeps of a known and of a free parameter, one transform without a strength, one that fits no image, one chain."""
    clean = 0.98
    components: list[tuple[dict[str, Any], float | None]] = [
        ({"transform": "rotate", "degrees": 15.0}, 0.96),
        ({"transform": "rotate", "degrees": 45.0}, 0.41),
        ({"transform": "rotate", "degrees": 30.0}, 0.83),
        ({"transform": "gaussian_noise", "severity": 1}, 0.979),
        ({"transform": "gaussian_noise", "severity": 3}, 0.97),
        ({"transform": "gaussian_noise", "severity": 5}, 0.95),
        ({"transform": "inverse"}, 0.22),
        ({"transform": "saturation", "severity": 3}, None),
        ({"transform": "rotate + brightness", "with": "degrees 15 + severity 3"}, 0.9),
    ]
    metrics = [
        rate(name, {}, value, 0.009, 400)
        for name, value in (("pass_rate", 0.79), ("clean_accuracy", clean), ("accuracy", 0.78), ("robust_accuracy", 0.77))
    ]
    metrics.append(rate("robust_accuracy_drop", {}, 0.21, 0.009, 400, higher_is_better=False))
    gates = []
    for where, accuracy in components:
        if accuracy is None:
            why = "a grey image has no saturation"
            metrics += [Metric(name=name, slice=where, value=None, n=0, reason=why) for name in ("pass_rate", "accuracy")]
            continue
        metrics += [
            rate("pass_rate", where, accuracy + 0.015, 0.004, 392),
            rate("clean_accuracy", where, clean, 0.01, 400),
            rate("accuracy", where, accuracy, 0.01, 400),
            rate("robust_accuracy", where, accuracy - 0.005, 0.01, 400),
            rate("robust_accuracy_drop", where, clean - accuracy, 0.01, 400, higher_is_better=False),
        ]
        verdict = "passed" if accuracy > 0.94 else "failed"
        gates.append(GateResult(metric="pass_rate", slice=where, min=0.95, verdict=verdict, reason="the figure says so"))
    prop = PropertyReport(
        property="image.robustness",
        status="failed",
        cases=CaseCounts(total=3600, passed=2480, failed=624, skipped=466, error=30),
        skipped={"a grey image has no saturation": 400, "misclassified_seed": 66},
        errors={"timeout after 30 s": 30},
        metrics=metrics,
        gates=gates,
        queries=PropertyQueries(planned=3600, sent=3600),
        seconds=12.5,
        slices=[
            finding("label", "8", 40, 29, 0.725, 0.3, 0.325, 0.545, 0.001, True),
            finding("writer", "employee", 200, 50, 0.25, 0.3, -0.1, 0.01, 0.9, False),
        ],
        breaking_points=[
            BreakingPoints(
                transform="rotate",
                parameter="degrees",
                unit="degrees",
                levels=[10.0, 20.0, 30.0, 40.0],
                counts=[4, 60, 130, 126],
                unbroken=80,
                median=27.5,
                non_monotone=32,
                queries_per_case=9.4,
            )
        ],
        attributions=[
            Attribution(transform="rotate + brightness", link="rotate", turned=31, of=38),
            Attribution(transform="rotate + brightness", link="brightness", turned=4, of=38),
        ],
    )
    return prop.model_copy(update={"explanation": explain_property(prop, 0.95, unreadable=3)})


def image_report(**more: Any) -> RunReport:
    """A digit reader, three of whose thousand files cannot be read."""
    model = ModelReport(name="lenet5", version="2", type="image-classifier", digest="5eed" * 8)
    origin = report().provenance.model_copy(update={"rows": 997, "unreadable": 3, "converted": {"16 bit to 8 bit": 2}})
    unreadable = [
        UnreadableFile(place=f"4/{i}.png", reason=reason)
        for i, reason in enumerate(["the file ends before the image does", "this is text", "an animation of 5 frames"])
    ]
    fields: dict[str, Any] = {
        "model": model,
        "provenance": origin,
        "unreadable": unreadable,
        "properties": [image_robustness()],
    }
    return report(**(fields | more))


def digit(size: int = 28, channels: int = 1) -> NDArray[np.uint8]:
    """A light stroke on black, uint8 (size, size, channels)."""
    image = np.zeros((size, size, channels), np.uint8)
    image[size // 6 : -size // 6, size // 2 : size // 2 + max(size // 8, 1)] = 230
    return image


def image_cases(n: int = 8, size: int = 28) -> list[FailingCase]:
    """n cases of every outcome of three transforms, those of the first transform first."""
    seed = digit(size)
    result = []
    for transform, strength, params in (
        ("rotate", 15.0, {"degrees": 15.0}),
        ("gaussian_noise", 3.0, {"sigma": 0.08, "noise_seed": 7}),
        ("inverse", None, {}),
    ):
        for i in range(n):
            for outcome in OUTCOMES:
                asked = outcome in ("passed", "failed")
                observed = {"passed": "1", "failed": "7"}.get(outcome)
                noise = np.random.default_rng(i).integers(-20, 20, seed.shape)
                case = np.clip(np.rot90(seed) + noise, 0, 255).astype(np.uint8) if asked else None
                result.append(
                    FailingCase(
                        case_id=f"{len(result):032x}"[::-1],
                        seed_id=f"{i:032x}",
                        transform=transform,
                        strength=strength,
                        expected="1",
                        observed=observed,
                        score=0.83 if asked else None,
                        explanation=explain_image_case(transform, params, None, "1", observed, 0.83, None) if observed else "",
                        seed={"file": f"1/{i}.png"},
                        case={"file": f"1/{i}.png"},
                        changed=[],
                        outcome=outcome,
                        reason={"skipped": "misclassified_seed", "error": "timeout after 30 s"}.get(outcome),
                        pictures=case_pictures(seed, case),
                        seed_label="1",
                    )
                )
    return result
