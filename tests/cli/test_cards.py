"""The ready cards on the command line: listed, copied, and never written over what is there."""

from __future__ import annotations

import numpy as np
import pytest
import yaml
from projects import people
from speech_projects import clips, write_manifest

from aitest_flows import api
from aitest_flows.ready_cards import ready_cards
from aitest_lib.config.card import load_card
from aitest_lib.config.suite import load_suite


def test_list_cards_is_a_table(project):
    done = project.here("list", "cards")
    assert done.code == 0
    assert "--like CARD" in done.out
    lines = [line.split() for line in done.out.splitlines()]
    for ready in ready_cards():
        [line] = [line for line in lines if line[:1] == [ready.name]]
        assert line[1] == ready.card.type and ready.backend in line
    assert "AWS" not in done.out and "Amazon SageMaker: CSV in and out (built-in XGBoost)" in done.out


def test_init_like_writes_a_card_and_a_suite_that_load(project):
    people(40).to_csv(project.folder / "data.csv", index=False)
    done = project.here("init", "--like", "ibm-wml", "--data", "data.csv", "--label", "income", "--name", "wages")
    assert done.code == 0, done.text
    assert "set in the environment or as secret files: IBM_API_KEY" in done.out
    text = (project.folder / "model.yaml").read_text()
    card = load_card(project.folder / "model.yaml").card
    assert (card.name, card.classes) == ("wages", ("high", "low"))
    assert card.inputs.columns == ("age", "hours", "rate", "job", "sex")
    assert text.startswith("# IBM watsonx.ai Runtime") and text.count("a guess") == 3
    suite = load_suite(project.folder / "suite.yaml").suite
    assert suite.model.card == "model.yaml" and suite.data.label == "income"


def test_init_like_names_the_keys_that_a_signature_needs(project):
    people(5).to_csv(project.folder / "data.csv", index=False)
    done = project.here("init", "--like", "sagemaker-csv", "--data", "data.csv")
    assert done.code == 0 and "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY" in done.out
    card = load_card(project.folder / "model.yaml").card
    assert card.classes == (0, 1) and len(card.inputs.columns) == 6  # without a label nothing is known of the classes


@pytest.mark.parametrize("name", [ready.name for ready in ready_cards() if ready.card.type.startswith("image-")])
def test_init_like_for_images_writes_a_card_and_a_suite_that_load(name, project):
    np.savez(project.folder / "parts.npz", x=np.zeros((6, 8, 8), np.uint8), y=np.array(["good", "bad"] * 3))
    done = project.here("init", "--like", name, "--data", "parts.npz", "--name", "parts")
    assert done.code == 0, done.text
    card = load_card(project.folder / "model.yaml").card
    assert (card.name, card.classes) == ("parts", ("bad", "good"))
    suite = load_suite(project.folder / "suite.yaml").suite
    assert [item.property for item in suite.properties] == ["image.generalization", "image.robustness", "image.adversarial"]
    assert suite.data.test == "parts.npz"


def test_init_with_images_alone_writes_an_endpoint_of_their_size(project):
    np.savez(project.folder / "parts.npz", x=np.zeros((6, 8, 9, 3), np.uint8), y=np.arange(6) % 3)
    done = project.here("init", "--data", "parts.npz", "--from-curl", "curl -X POST http://127.0.0.1:1/p -d '{}'")
    assert done.code == 0, done.text
    card = load_card(project.folder / "model.yaml").card
    assert card.classes == (0, 1, 2)
    assert card.inputs.image.size == (8, 9) and card.inputs.image.channels == 3
    assert card.endpoint.url == "http://127.0.0.1:1/p"
    assert load_suite(project.folder / "suite.yaml").suite.data.sample == 500


@pytest.mark.parametrize("name", [ready.name for ready in ready_cards() if ready.card.type == "speech-to-text"])
def test_init_like_for_speech_writes_a_card_and_a_suite_that_load(name, project):
    write_manifest(project, clips(texts=1))
    done = project.here("init", "--like", name, "--data", "clips.csv", "--name", "calls")
    assert done.code == 0, done.text
    card = load_card(project.folder / "model.yaml").card
    assert (card.name, card.type, card.inputs.speech.sample_rate) == ("calls", "speech-to-text", 16_000)
    suite = load_suite(project.folder / "suite.yaml").suite
    wanted = ["speech.generalization", "speech.robustness", "speech.fairness"]
    assert [item.property for item in suite.properties] == wanted
    assert list(suite.data.protected) == ["gender", "accent"]


def test_init_with_clips_without_groups_suggests_voices(project):
    write_manifest(project, [{"path": row["path"], "text": row["text"]} for row in clips(texts=1)])
    call = "curl -X POST http://127.0.0.1:1/p -H 'X-Team: 1' --data-binary @clip.wav"
    done = project.here("init", "--data", "clips.csv", "--from-curl", call)
    assert done.code == 0, done.text
    card = load_card(project.folder / "model.yaml").card
    assert (card.endpoint.url, card.endpoint.body) == ("http://127.0.0.1:1/p", "raw")
    [fairness] = [item for item in load_suite(project.folder / "suite.yaml").suite.properties if item.voices]
    assert len(fairness.voices) == 4


OTHER = [ready.name for ready in ready_cards() if not ready.card.type.startswith(("tabular-", "image-", "speech-"))]


@pytest.mark.parametrize("name", OTHER)
def test_init_like_of_another_type_writes_the_card(name, project):
    (project.folder / "data.jsonl").write_text('{"text": "a"}\n')
    done = project.here("init", "--like", name, "--data", "data.jsonl", "--name", "mine")
    assert done.code == 0, done.text
    card = yaml.safe_load((project.folder / "model.yaml").read_text())
    assert card["name"] == "mine" and f"no property for models of type {card['type']} yet" in done.out
    assert not (project.folder / "suite.yaml").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--like", "sage-maker-csv"], "did you mean sagemaker-csv"),
        (["--like", "../seldon"], "unknown ready card"),
        (["--like", "vosk", "--from-curl", "curl http://x"], "got --from-curl and --like"),
        (["--like", "seldon", "--label", "incme"], "did you mean income"),
    ],
)
def test_what_cannot_be_started_is_one_message(options, message, project):
    people(5).to_csv(project.folder / "data.csv", index=False)
    done = project.here("init", "--data", "data.csv", *options)
    assert done.code == 2 and message in done.err and "Traceback" not in done.text
    assert not (project.folder / "model.yaml").exists()


def test_a_start_says_how_many_properties_wait(project):
    people(50).to_csv(project.folder / "data.csv", index=False)
    done = project.here("init", "--data", "data.csv", "--label", "income")
    assert done.code == 0 and "3 of them as comments: they need what only you know" in " ".join(done.text.split())


def test_data_that_is_not_there_is_one_message(project):
    done = project.here("init", "--data", "clips", "--like", "vosk")
    assert done.code == 2 and "clips: there is no such file" in done.err


def test_nothing_is_written_over(project):
    people(5).to_csv(project.folder / "data.csv", index=False)
    (project.folder / "model.yaml").write_text("mine")
    for name in ("vosk", "seldon"):
        done = project.here("init", "--data", "data.csv", "--like", name)
        assert done.code == 2 and "model.yaml is there already" in done.err
    assert (project.folder / "model.yaml").read_text() == "mine"


def test_the_same_from_python(project):
    people(5).to_csv(project.folder / "data.csv", index=False)
    with project.entered():
        notes = api.init("data.csv", "income", like="tf-serving", name="mine")
        assert {file for file, _ in notes} == {"model.yaml", "suite.yaml", "next"}
        assert load_card("model.yaml").card.name == "mine"
    assert [ready.name for ready in api.cards()] == [ready.name for ready in ready_cards()]
