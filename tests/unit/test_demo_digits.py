"""The image demonstration's data, model and files."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import aitest_lib.demo.digits as demo
from aitest_lib.config.card import load_card
from aitest_lib.config.suite import check_fit, load_suite
from aitest_lib.demo.digits import CLASSES, DATA, DigitsModel, demo_files, trained
from aitest_lib.errors import InputError
from aitest_lib.models.opening import open_model

SHARED = Path(os.environ.get("AITEST_SHARED_DATA", Path(__file__).parents[3] / "shared" / "data"))


def digits(path: Path) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    with np.load(path) as found:
        return found["x"][..., None], found["y"]


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("digits") / "weights.npz"


@pytest.fixture(scope="module")
def model(weights: Path) -> DigitsModel:
    return DigitsModel(str(weights))


def accuracy(model: DigitsModel, path: Path) -> float:
    images, labels = digits(path)
    return float((model.predict(images) == labels).mean())


def test_data_are_small_stratified_and_disjoint():
    (train, train_labels), (test, test_labels) = (digits(DATA / f"digits_{part}.npz") for part in ("train", "test"))
    assert (train.shape, test.shape, train.dtype) == ((4000, 28, 28, 1), (1000, 28, 28, 1), np.uint8)
    assert np.bincount(train_labels).tolist() == [400] * 10
    assert np.bincount(test_labels).tolist() == [100] * 10
    assert not {image.tobytes() for image in train} & {image.tobytes() for image in test}
    assert sum((DATA / f"digits_{part}.npz").stat().st_size for part in ("train", "test")) < 850_000


def test_the_model_reads_digits_that_it_has_not_seen(model: DigitsModel):
    assert accuracy(model, DATA / "digits_test.npz") >= 0.965


@pytest.mark.shared
@pytest.mark.skipif(not (SHARED / "mnist_t10k.npz").exists(), reason=f"{SHARED / 'mnist_t10k.npz'} is not there")
def test_it_reads_the_ten_thousand_of_the_test_set(model: DigitsModel):
    assert accuracy(model, SHARED / "mnist_t10k.npz") >= 0.97


def test_labels_follow_the_scores_whatever_the_batch(model: DigitsModel):
    images, _ = digits(DATA / "digits_test.npz")
    scores = model.predict_proba(images[:300])
    assert scores.shape == (300, 10)
    assert np.allclose(scores.sum(axis=1), 1)
    assert (model.predict(images[:300]) == scores.argmax(axis=1)).all()
    alone = np.concatenate([model.predict_proba(image[None]) for image in images[:20]])
    assert np.allclose(alone, scores[:20], atol=1e-6)
    assert model.predict_proba(images[:0]).shape == (0, 10)
    assert model.classes_ == list(CLASSES)


def test_training_is_the_same_every_time():
    images, labels = digits(DATA / "digits_train.npz")
    first, second = (trained(images[::10], labels[::10]).state_dict() for _ in range(2))
    assert all((first[name] == second[name]).all() for name in first)


def test_a_second_process_need_not_train(model: DigitsModel, weights: Path, monkeypatch: pytest.MonkeyPatch):
    images, _ = digits(DATA / "digits_test.npz")
    monkeypatch.setattr(demo, "trained", None)
    again = DigitsModel(str(weights))
    assert (again.predict_proba(images) == model.predict_proba(images)).all()
    with np.load(weights, allow_pickle=False) as kept:
        assert sum(kept[name].size for name in kept) == 61_706
    assert [path.name for path in weights.parent.iterdir()] == [weights.name]


@pytest.mark.parametrize(
    "images",
    [np.zeros((2, 28, 28), np.uint8), np.zeros((2, 32, 32, 1), np.uint8), np.zeros((2, 28, 28, 1), np.float32)],
    ids=["no channel", "another size", "floats"],
)
def test_images_of_another_kind_are_refused(model: DigitsModel, images: NDArray[np.generic]):
    with pytest.raises(InputError, match=r"expected \(n, 28, 28, 1\) and uint8"):
        model.predict(images)


def test_demo_files_are_a_valid_audit(tmp_path: Path):
    folder = tmp_path / "made" / "demo"
    written = demo_files(folder)
    assert demo_files(folder) == written
    assert all(path.is_file() for path in written)
    suite = load_suite(folder / "digits_suite.yaml")
    card = load_card(folder / str(suite.suite.model.card))
    check_fit(suite, card.card.type, labelled=True)
    assert card.card.classes == CLASSES
    assert digits(folder / suite.suite.data.test)[0].shape == (1000, 28, 28, 1)


def test_the_card_answers_through_a_child_process(tmp_path: Path, model: DigitsModel, weights: Path):
    demo_files(tmp_path)
    (tmp_path / "digits_weights.npz").write_bytes(weights.read_bytes())
    images, _ = digits(tmp_path / "digits_test.npz")
    opened = open_model(load_card(tmp_path / "digits.yaml"))
    try:
        answers = opened.predict(images[:50])
    finally:
        opened.close()
    assert list(answers.labels) == model.predict(images[:50]).tolist()
    assert answers.scores is not None
    assert np.allclose(answers.scores, model.predict_proba(images[:50]), atol=1e-6)


def test_a_folder_that_cannot_be_written_is_one_message(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="give a folder"):
        demo_files(tmp_path / "file")
