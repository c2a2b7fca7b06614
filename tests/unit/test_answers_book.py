"""Kept answers: segments that only grow, read as one sorted book."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from aitest_lib.answers import SEGMENT, AnswerBook, book_digest, folder, read_book, write_segment
from aitest_lib.artifacts.store import Store
from aitest_lib.canonical import digest
from aitest_lib.types import Predictions

HERE = folder("model", "1")


@pytest.fixture
def store(tmp_path) -> Store:
    return Store(str(tmp_path))


def ids(*names: object) -> np.ndarray:
    return np.frombuffer(b"".join(bytes.fromhex(digest(name)) for name in names), dtype="V16")


def answers(labels, scores=None, errors=None) -> Predictions:
    return Predictions(
        np.array(labels, dtype=object),
        None if scores is None else np.array(scores, dtype=float),
        np.array(errors or [None] * len(labels), dtype=object),
    )


def labels_of(book: AnswerBook, *names: object) -> list[object]:
    return book.labels(book.find(ids(*names))).tolist()


def test_an_empty_book(store):
    book = read_book(store, [HERE])
    assert book.find(ids("a", "b")).tolist() == [-1, -1]
    assert labels_of(book, "a") == [None]
    assert (book.scores, book.by_run) == (None, {})


def test_answers_are_found_in_any_order(store):
    write_segment(store, HERE, ids("a", "b"), answers(["no", "yes"]), "run-1")
    write_segment(store, HERE, ids("c"), answers(["no"]), "run-2")
    book = read_book(store, [HERE])
    assert labels_of(book, "c", "x", "b", "a", "b") == ["no", None, "yes", "no", "yes"]
    assert book.by_run == {"run-1": 2, "run-2": 1}


def test_what_a_killed_merge_leaves_twice_is_counted_once_for_each_run_that_asked_it(store):
    write_segment(store, HERE, ids("a"), answers(["no"]), "run-1")
    write_segment(store, HERE, ids("b"), answers(["yes"]), "run-1")
    write_segment(store, HERE, ids("a", "b"), answers(["no", "yes"]), "run-1")
    write_segment(store, HERE, ids("b", "c"), answers(["yes", "no"]), "run-2")
    book = read_book(store, [HERE])
    assert labels_of(book, "a", "b", "c") == ["no", "yes", "no"]
    assert book.by_run == {"run-1": 2, "run-2": 2}


def test_many_answers_agree_with_a_dictionary(store):
    rng = np.random.default_rng(0)
    kept: dict[int, str] = {}
    for _ in range(20):
        numbers = rng.choice(400, 40, replace=False).tolist()
        labels = rng.choice(["a", "b", "c"], 40).tolist()
        write_segment(store, HERE, ids(*numbers), answers(labels), "r")
        kept = dict(zip(numbers, labels, strict=True)) | kept  # the earlier answer counts
    assert labels_of(read_book(store, [HERE]), *range(400)) == [kept.get(number) for number in range(400)]


@pytest.mark.parametrize("labels", [["1", "2"], [1, 2], [True, False], [0.5, -1e300], ["é\n", '"']])
def test_labels_keep_value_and_type(store, labels):
    write_segment(store, HERE, ids("a", "b"), answers(labels), "r")
    found = labels_of(read_book(store, [HERE]), "a", "b")
    assert found == labels
    assert [type(value) for value in found] == [type(value) for value in labels]


def test_errors_are_not_kept(store):
    write_segment(store, HERE, ids("a", "b", "c"), answers(["no", None, "yes"], errors=[None, "timeout", None]), "r")
    assert labels_of(read_book(store, [HERE]), "a", "b", "c") == ["no", None, "yes"]
    write_segment(store, HERE, ids("b"), answers([None], errors=["timeout"]), "r")
    assert len(store.files(HERE)) == 1


def test_scores(store):
    write_segment(store, HERE, ids("a"), answers(["no"], [[0.75, 0.25]]), "r")
    write_segment(store, HERE, ids("b"), answers(["yes"]), "r")
    write_segment(store, HERE, ids("c", "d"), answers(["yes", "no"], [[0.1, 0.9], [np.nan, 0.5]]), "r")
    book = read_book(store, [HERE])
    found = book.scores[book.find(ids("a", "b", "c", "d"))]
    np.testing.assert_array_equal(found, [[0.75, 0.25], [np.nan] * 2, [0.1, 0.9], [np.nan] * 2])


def test_repeats_are_books_of_their_own(store):
    write_segment(store, HERE, ids("a"), answers(["no"]), "r")
    write_segment(store, HERE, ids("a"), answers(["yes"]), "r", repeat=1)
    assert labels_of(read_book(store, [HERE]), "a") == ["no"]
    assert labels_of(read_book(store, [HERE], repeat=1), "a") == ["yes"]


def test_epochs_are_folders_of_their_own(store):
    write_segment(store, folder("model", "1"), ids("a"), answers(["old"]), "r")
    write_segment(store, folder("model", "2"), ids("a", "b"), answers(["new", "b"]), "r")
    assert labels_of(read_book(store, [folder("model", "2")]), "a") == ["new"]
    assert labels_of(read_book(store, [folder("model", "1"), folder("model", "2")]), "a", "b") == ["old", "b"]


def test_a_damaged_segment_is_removed_and_the_others_are_read(store):
    write_segment(store, HERE, ids("a"), answers(["kept"]), "run-1")
    store.write(f"{HERE}/0.parquet", b"PAR1")
    assert labels_of(read_book(store, [HERE]), "a") == ["kept"]
    assert not store.exists(f"{HERE}/0.parquet")


def plant(store, metadata=None, **columns):
    """A segment read before the others, of two answers that are right but for the given columns."""
    right = {
        "digest": [item.tobytes() for item in ids("x", "y")],
        "repeat": [0, 0],
        "label": ['"no"', '"yes"'],
        "scores": [[0.5, 0.5], None],
        "run": ["run-0", "run-0"],
    }
    types = {"scores": pa.list_(pa.float64()), "repeat": pa.int16()}
    arrays = {
        name: value if isinstance(value, pa.Array) else pa.array(value, types.get(name))
        for name, value in (right | columns).items()
    }
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(arrays).replace_schema_metadata(metadata), sink)
    store.write(f"{HERE}/0.parquet", sink.getvalue().to_pybytes())


DAMAGES = {
    "a label that is not JSON": {"label": ['"no"', "{"]},
    "a label that is a list": {"label": ['"no"', "[1]"]},
    "a label that is an object": {"label": ['"no"', '{"a":1}']},
    "a label that is null in JSON": {"label": ['"no"', "null"]},
    "a label that is not finite": {"label": ['"no"', "NaN"]},
    "a label that is two": {"label": ['"no"', "1,2"]},
    "labels that are right only together": {"label": ['"no', 'yes"']},
    "a label nested without end": {"label": ['"no"', "[" * 100_000]},
    "a label that is not canonical": {"label": ['"no"', "1.0"]},
    "a label that is missing": {"label": ['"no"', None]},
    "a digest that is missing": {"digest": [b"0" * 16, None]},
    "a digest that is too short": {"digest": [b"0" * 16, b"0"]},
    "a run that is missing": {"run": ["run-0", None]},
    "no run at all": {"run": pa.nulls(2, pa.string())},
    "a negative repeat": {"repeat": [-1, -1]},
    "a repeat that is missing": {"repeat": [0, None]},
    "scores above 1": {"scores": [[0.5, 1.5], None]},
    "scores below 0": {"scores": [[0.5, -0.5], None]},
    "scores that are infinite": {"scores": [[0.5, np.inf], None]},
    "scores that are NaN": {"scores": [[0.5, np.nan], None]},
    "a score that is missing": {"scores": [[0.5, None], None]},
    "no scores in a list": {"scores": [[], []]},
    "scores of two widths": {"scores": [[0.5, 0.5], [0.2, 0.3, 0.5]]},
    "scores of another width": {"scores": [[0.2, 0.3, 0.5], None]},
    "another model's answers": {"metadata": {"aitest.model": "other/1"}},
    "another epoch's answers": {"metadata": {"aitest.model": "model/2"}},
    "labels of another type": {"label": pa.array([[1], [2]])},
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_segment_with_anything_wrong_is_removed(store, damage):
    write_segment(store, HERE, ids("a", "b"), answers(["no", "yes"], [[0.75, 0.25], [0.1, 0.9]]), "run-1")
    plant(store, **damage)
    book = read_book(store, [HERE], classes=2)
    assert labels_of(book, "a", "b", "x", "y") == ["no", "yes", None, None]
    assert book.values == ("no", "yes")
    assert book.by_run == {"run-1": 2}
    assert book.scores.shape == (2, 2)
    assert not store.exists(f"{HERE}/0.parquet")
    assert len(store.files(HERE)) == 1


@pytest.mark.parametrize("metadata", [None, {"aitest.model": "model/1"}, {"another.key": "x"}])
def test_a_segment_that_is_right_is_read(store, metadata):
    plant(store, metadata)
    book = read_book(store, [HERE], classes=2)
    assert labels_of(book, "x", "y") == ["no", "yes"]
    np.testing.assert_array_equal(book.scores[book.find(ids("x", "y"))], [[0.5, 0.5], [np.nan] * 2])
    assert store.exists(f"{HERE}/0.parquet")


def test_a_width_that_nobody_names_is_that_of_most_segments(store):
    plant(store, scores=[[0.2, 0.3, 0.5], [0.2, 0.3, 0.5]])
    write_segment(store, HERE, ids("a"), answers(["no"], [[0.75, 0.25]]), "run-1")
    write_segment(store, HERE, ids("b"), answers(["yes"], [[0.1, 0.9]]), "run-1")
    assert labels_of(read_book(store, [HERE]), "a", "b", "x") == ["no", "yes", None]


def test_segments_say_whose_answers_they_are(store):
    write_segment(store, HERE, ids("a"), answers(["no"]), "run-1")
    [path] = store.files(HERE)
    table = pq.read_table(pa.BufferReader(store.read(path)))
    assert table.schema.metadata[b"aitest.model"] == b"model/1"
    assert table.schema.equals(SEGMENT)
    elsewhere = folder("other", "1")
    store.write(f"{elsewhere}/0.parquet", store.read(path))
    assert labels_of(read_book(store, [elsewhere]), "a") == [None]
    assert labels_of(read_book(store, [HERE]), "a") == ["no"]


class TestDigest:
    def digest(self, store, *names: object) -> str:
        book = read_book(store, [HERE])
        return book_digest(book, book.find(ids(*names)))

    @pytest.mark.parametrize("with_scores", [True, False])
    def test_it_hangs_on_what_is_asked_for_alone(self, store, with_scores):
        scores = [[0.9, 0.1], [0.2, 0.8]] if with_scores else None
        write_segment(store, HERE, ids("a", "b"), answers(["no", "yes"], scores), "r")
        before = self.digest(store, "a", "b")
        write_segment(store, HERE, ids("y", "z"), answers(["other", "no"], scores), "r")
        assert self.digest(store, "a", "b") == before
        assert self.digest(store, "b", "a") != before
        assert self.digest(store, "a", "z") != before
        assert self.digest(store, "a", "x") != before

    def test_it_is_the_same_in_another_book(self, tmp_path):
        first, second = Store(str(tmp_path / "1")), Store(str(tmp_path / "2"))
        write_segment(first, HERE, ids("a", "b", "c"), answers(["no", "yes", "no"]), "r")
        write_segment(second, HERE, ids("x", "c"), answers(["maybe", "no"]), "s")
        write_segment(second, HERE, ids("b", "a"), answers(["yes", "no"]), "s")
        assert self.digest(first, "a", "b", "c") == self.digest(second, "a", "b", "c")

    def test_a_new_answer_and_a_new_score_are_seen(self, tmp_path):
        digests = set()
        for number, (label, score) in enumerate([("no", 0.1), ("yes", 0.1), ("no", 0.2)]):
            store = Store(str(tmp_path / str(number)))
            write_segment(store, HERE, ids("a"), answers([label], [[score, 1 - score]]), "r")
            digests.add(self.digest(store, "a"))
        assert len(digests) == 3

    def test_nothing_answered(self, store):
        assert self.digest(store, "a") != self.digest(store, "a", "b")
