"""The demonstration's data, models and files: what they promise is measured here with the real transforms."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import report_sample as sample
from rich.console import Console
from scipy.stats import binomtest

from aitest_flows.demo import run_demo
from aitest_lib.config.card import load_card
from aitest_lib.config.suite import LoadedSuite, check_fit, load_suite
from aitest_lib.demo.census import CLASSES, DATA, LABEL, PLANTED, BrittleModel, SoundModel, demo_files
from aitest_lib.errors import InputError
from aitest_lib.models.opening import open_model
from aitest_lib.reports.report import RunReport
from aitest_tasks.settings import Settings

INPUTS = load_card(DATA / "census_sound.yaml").card.inputs.columns or ()


@pytest.fixture(scope="module")
def test_rows() -> pd.DataFrame:
    return pd.read_parquet(DATA / "census_test.parquet")


@pytest.fixture(scope="module")
def train_rows() -> pd.DataFrame:
    return pd.read_parquet(DATA / "census_train.parquet")


@pytest.fixture(scope="module")
def sound() -> SoundModel:
    return SoundModel()


@pytest.fixture(scope="module")
def brittle() -> BrittleModel:
    return BrittleModel()


def accuracy(model: SoundModel, rows: pd.DataFrame) -> float:
    return float((model.predict(rows[list(INPUTS)]) == rows[LABEL].to_numpy()).mean())


def noisy(rows: pd.DataFrame, reference: pd.DataFrame, epsilon: float) -> pd.DataFrame:
    rng = np.random.default_rng(7)
    moved = rows.copy()
    for name in ("age", "capital-gain", "capital-loss", "hours-per-week"):
        shifted = rows[name] + rng.uniform(-1, 1, len(rows)) * epsilon * reference[name].std()
        moved[name] = shifted.round().clip(reference[name].min(), reference[name].max()).astype("int64")
    return moved


def swapped(rows: pd.DataFrame, reference: pd.DataFrame) -> pd.DataFrame:
    rng = np.random.default_rng(7)
    units = [
        ["workclass"],
        ["education", "education-num"],
        ["marital-status"],
        ["occupation"],
        ["relationship"],
        ["native-country"],
    ]
    unit_of = rng.integers(0, len(units), len(rows))
    moved = rows.copy()
    for number, unit in enumerate(units):
        for place in np.flatnonzero(unit_of == number):
            donor = rng.integers(0, len(reference))
            while reference[unit[0]].iat[donor] == rows[unit[0]].iat[place]:
                donor = rng.integers(0, len(reference))
            for name in unit:
                moved.iat[place, moved.columns.get_loc(name)] = reference[name].iat[donor]
    return moved


def kept(model: SoundModel, rows: pd.DataFrame, changed: pd.DataFrame) -> tuple[int, int]:
    """Answers that stayed, of the rows answered rightly: (stayed, right)."""
    before, after = (model.predict(table[list(INPUTS)]) for table in (rows, changed))
    right = before == rows[LABEL].to_numpy()
    return int((right & (after == before)).sum()), int(right.sum())


def test_data_is_small_stratified_and_disjoint(test_rows: pd.DataFrame, train_rows: pd.DataFrame) -> None:
    assert (len(train_rows), len(test_rows)) == (6000, 2000)
    assert sum((DATA / f"census_{part}.parquet").stat().st_size for part in ("train", "test")) < 200_000
    assert not train_rows.merge(test_rows, on=list(INPUTS)).shape[0]
    for column in (LABEL, "sex"):
        shares = [rows[column].value_counts(normalize=True).sort_index() for rows in (train_rows, test_rows)]
        assert np.allclose(shares[0], shares[1], atol=0.001)
    assert not train_rows.isna().any(axis=None)
    assert set(INPUTS) == set(train_rows.columns) - {"fnlwgt", LABEL}


def test_both_models_are_accurate_and_look_alike(sound: SoundModel, brittle: BrittleModel, test_rows: pd.DataFrame) -> None:
    assert accuracy(sound, test_rows) >= 0.84
    assert abs(accuracy(sound, test_rows) - accuracy(brittle, test_rows)) <= 0.01


def test_sound_model_clears_the_default_gates_with_confidence(
    sound: SoundModel, test_rows: pd.DataFrame, train_rows: pd.DataFrame
) -> None:
    for changed in (noisy(test_rows, train_rows, 0.1), swapped(test_rows, train_rows)):
        stayed, right = kept(sound, test_rows, changed)
        assert binomtest(stayed, right).proportion_ci(0.90, "wilson").low > 0.95
        assert (right - stayed) / len(test_rows) < 0.05


def test_planted_weakness_shows_under_numeric_noise_only(
    brittle: BrittleModel, test_rows: pd.DataFrame, train_rows: pd.DataFrame
) -> None:
    stayed, right = kept(brittle, test_rows, noisy(test_rows, train_rows, 0.1))
    assert binomtest(stayed, right).proportion_ci(0.90, "wilson").high < 0.93
    assert (right - stayed) / len(test_rows) > 0.06
    stayed, right = kept(brittle, test_rows, swapped(test_rows, train_rows))
    assert stayed / right > 0.95


def test_one_hour_less_turns_every_high_answer_of_the_brittle_model(
    sound: SoundModel, brittle: BrittleModel, test_rows: pd.DataFrame
) -> None:
    full_time = test_rows[(test_rows["hours-per-week"] == 40) & (brittle.predict(test_rows) == ">50K")]
    assert len(full_time) > 50
    one_less = full_time.assign(**{"hours-per-week": 39})
    assert (brittle.predict(one_less) == "<=50K").all()
    assert (sound.predict(one_less) == ">50K").mean() > 0.95
    assert "40 -> 39" in PLANTED


@pytest.mark.parametrize("kind", [SoundModel, BrittleModel])
def test_models_take_missing_values_and_unseen_categories(kind: type[SoundModel], test_rows: pd.DataFrame) -> None:
    model = kind()
    rows = test_rows[list(INPUTS)].head(40).astype(object)
    for place, name in enumerate(INPUTS):
        rows.iloc[place, rows.columns.get_loc(name)] = None
        if isinstance(test_rows[name].iat[0], str):
            rows.iloc[place + len(INPUTS), rows.columns.get_loc(name)] = "never seen"
    scores = model.predict_proba(rows)
    assert scores.shape == (40, 2)
    assert np.isfinite(scores).all() and np.allclose(scores.sum(axis=1), 1)
    assert set(model.predict(rows)) <= set(model.classes_)


@pytest.mark.parametrize("kind", [SoundModel, BrittleModel])
def test_labels_follow_the_scores_and_training_is_deterministic(kind: type[SoundModel], test_rows: pd.DataFrame) -> None:
    first, second = kind(), kind()
    scores = first.predict_proba(test_rows)
    assert np.array_equal(scores, second.predict_proba(test_rows))
    assert np.array_equal(first.predict(test_rows), np.array(CLASSES, dtype=object)[(scores[:, 1] >= 0.5).astype(int)])
    backwards = first.predict_proba(test_rows.iloc[::-1])[::-1]
    assert np.array_equal(scores, backwards)


def test_a_missing_column_is_named(sound: SoundModel, brittle: BrittleModel, test_rows: pd.DataFrame) -> None:
    for model in (sound, brittle):
        with pytest.raises(InputError, match="without hours-per-week"):
            model.predict(test_rows.drop(columns="hours-per-week"))


@pytest.mark.parametrize("which", ["sound", "brittle"])
def test_demo_files_are_a_valid_audit(tmp_path: Path, which: str) -> None:
    folder = tmp_path / "made" / "demo"
    written = demo_files(folder)
    assert demo_files(folder) == written and all(path.is_file() for path in written)
    suite = load_suite(folder / f"census_{which}_suite.yaml")
    card = load_card(folder / str(suite.suite.model.card))
    check_fit(suite, card.card.type, labelled=True)
    rows = pd.read_parquet(folder / suite.suite.data.test)
    assert set(suite.suite.data.columns) | set(suite.suite.data.protected) <= set(rows.columns)
    assert card.card.classes == CLASSES and suite.suite.data.favorable in CLASSES


def test_card_answers_through_a_child_process(tmp_path: Path, brittle: BrittleModel, test_rows: pd.DataFrame) -> None:
    demo_files(tmp_path)
    model = open_model(load_card(tmp_path / "census_brittle.yaml"))
    try:
        answers = model.predict(test_rows[list(INPUTS)].head(50))
    finally:
        model.close()
    assert list(answers.labels) == list(brittle.predict(test_rows.head(50)))
    assert answers.scores is not None and np.allclose(answers.scores, brittle.predict_proba(test_rows.head(50)))


def test_a_folder_that_cannot_be_written_is_one_message(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="give a folder"):
        demo_files(tmp_path / "file")


def test_the_demonstration_names_a_page_for_each_of_its_audits(tmp_path: Path) -> None:
    suites: list[str] = []

    def audited(_: Settings, loaded: LoadedSuite) -> RunReport:
        suites.append(loaded.suite.suite)
        return sample.report(suite=suites[-1], run_id=f"{len(suites)}" * 32)

    console = Console(file=io.StringIO(), width=200)
    run_demo(console, Settings(tmp_path), audited, ["tabular"])
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()
    assert suites == ["census-sound", "census-brittle"]
    for number, suite in enumerate(suites, 1):
        assert f"report {f'{number}' * 12} -o {suite}.html" in shown
