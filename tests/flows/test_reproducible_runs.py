"""Same suite, same cases, same verdicts: whatever the workers, the batches and the order of the file."""

import pytest
from model_server import serving
from projects import income, new_project, people, property_of

COMPARED = ["case_id", "seed_id", "params", "strength", "expected", "observed", "outcome", "reason", "explanation", "distance"]


def outcome(project, report):
    """Everything of a run that must not hang on how it was done."""
    table = project.cases(report)
    return {
        "cases": [table.column(name).to_pylist() for name in COMPARED],
        "properties": [
            {key: item[key] for key in ("status", "cases", "skipped", "metrics", "gates", "slices", "flips", "explanation")}
            for item in report["properties"]
        ],
        "planned": report["queries"]["planned"],
    }


@pytest.fixture(scope="module")
def server():
    with serving(income, lambda row: min(max((row[0] + row[1] - 40) / 110, 0), 1)) as running:
        yield running


SUITE = {"data": {"test": "data.csv", "label": "income", "protected": {"sex": {}}}}
CARD = {"classes": ["low", "high"]}
SCORED = {"response": {"labels": "predictions[*].label", "scores": "predictions[*].score"}}


@pytest.fixture(scope="module")
def reference(server, tmp_path_factory):
    project = new_project(tmp_path_factory.mktemp("reference"))
    project.fill(server, people(250), suite=SUITE, card=CARD, **SCORED)
    found = outcome(project, project.run())
    assert len(set(found["cases"][0])) == 500
    return found


@pytest.mark.parametrize("workers", [1, 8])
def test_workers_make_no_difference(project, server, reference, workers):
    project.fill(server, people(250), suite=SUITE, card=CARD, **SCORED)
    assert outcome(project, project.run("--workers", str(workers))) == reference


@pytest.mark.parametrize("batch_size", [1, 64, 1000])
def test_the_batch_size_makes_no_difference(project, server, reference, batch_size):
    project.fill(server, people(250), suite=SUITE, card=CARD, batch_size=batch_size, **SCORED)
    assert outcome(project, project.run()) == reference


def test_the_order_of_the_file_makes_no_difference(project, server, reference):
    shuffled = people(250).sample(frac=1, random_state=3)
    project.fill(server, shuffled, suite=SUITE, card=CARD, **SCORED)
    assert outcome(project, project.run()) == reference


def test_another_random_seed_makes_other_cases(project, server, reference):
    project.fill(server, people(250), suite=SUITE | {"random_seed": 8}, card=CARD, **SCORED)
    found = outcome(project, project.run())
    noisy = slice(0, 250)  # a category can be swapped for the same one again, a number cannot be moved as far again
    assert not set(found["cases"][0][noisy]) & set(reference["cases"][0][noisy])
    assert set(found["cases"][1]) == set(reference["cases"][1])
    values = [[item["value"] for item in one["properties"][0]["metrics"]] for one in (found, reference)]
    assert values[0] == pytest.approx(values[1])


def test_equal_rows_keep_their_ids_when_the_file_is_shuffled(project, server, tmp_path):
    frame = people(60).sample(150, replace=True, random_state=1)
    project.fill(server, frame, suite=SUITE, card=CARD, **SCORED)
    other = new_project(tmp_path / "other").fill(server, frame.iloc[::-1], suite=SUITE, card=CARD, **SCORED)
    one, two = project.run(), other.run()
    assert project.cases(one)["case_id"].to_pylist() == other.cases(two)["case_id"].to_pylist()
    assert property_of(one, "tabular.robustness")["metrics"] == property_of(two, "tabular.robustness")["metrics"]
