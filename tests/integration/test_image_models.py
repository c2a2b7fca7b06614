"""Image classifiers over HTTP, in child processes and in memory: what arrives is what the card says, pixel by pixel."""

from __future__ import annotations

import base64
import hashlib
import io

import numpy as np
import pytest
from http_app import app
from image_models import classify, digits
from PIL import Image as Pillow

from aitest_lib.config.card import load_card_data
from aitest_lib.config.inputs import Inputs
from aitest_lib.errors import InputError, Interrupted
from aitest_lib.models import batches
from aitest_lib.models.local import LocalModel
from aitest_lib.models.opening import open_model
from aitest_lib.models.probe import probe
from aitest_lib.models.shapes import by_shape, predict_images
from aitest_lib.types import ModelInfo

DIGITS = digits()
EXPECTED = classify(DIGITS.astype(float))
MEAN, STD = 0.25, 0.5

MODELS = """
import hashlib, os, signal
import numpy as np

def described(images):
    assert images.flags.c_contiguous and images.flags.writeable
    images[:] = images[:]
    return [f"{images.dtype} {images.shape[1:]} {hashlib.md5(one.tobytes()).hexdigest()}" for one in images]

def brightness(images):
    return np.where(images.reshape(len(images), -1).mean(axis=1) > 100, 1, 0)

def picky(images):
    if (images[:, 0, 0, 0] == 7).any():
        raise ValueError("a seven")
    return brightness(images)

def crashing(images):
    if (images[:, 0, 0, 0] == 7).any():
        os.kill(os.getpid(), signal.SIGSEGV)
    return brightness(images)

def scores(images):
    light = images.reshape(len(images), -1).mean(axis=1) / 255
    return np.column_stack([1 - light, light]).astype(np.float32)

class Tensor:
    def __init__(self, values):
        self.values = values
    def tolist(self):
        return self.values.tolist()

def tensors(images):
    return Tensor(scores(images))

def spoiling(images):
    images[:] = 0
    return brightness(images)

class Probabilities:
    classes_ = np.array(["dark", "light"])
    def predict(self, images):
        found = self.classes_[brightness(images)]
        images[:] = 0
        return found
    def predict_proba(self, images):
        return scores(images)
"""


def pictures(*levels, shape=(4, 5, 3)):
    return np.array([np.full(shape, level, np.uint8) for level in levels])


def info(classes=None):
    return ModelInfo(name="m", type="image-classifier", digest="d", classes=classes)


@pytest.fixture
def in_child(tmp_path):
    (tmp_path / "image_code.py").write_text(MODELS)
    models = []

    def opener(name, image=None, **card):
        inputs = {} if image is None else {"inputs": {"image": image}}
        card = {"name": "m", "type": "image-classifier", "python": {"callable": f"image_code:{name}"}, **inputs, **card}
        models.append(open_model(load_card_data(card, tmp_path)))
        return models[-1]

    yield opener
    for model in models:
        model.close()


@pytest.fixture
def in_memory():
    namespace = {}
    exec(MODELS, namespace)  # the very code that the child imports

    def opener(name, image=None, classes=None):
        inputs = Inputs() if image is None else Inputs(image=image)
        obj = namespace[name]
        return LocalModel(obj() if isinstance(obj, type) else obj, info(classes and tuple(classes)), inputs=inputs)

    return opener


@pytest.fixture(params=["child", "memory"])
def opened(request):
    return request.getfixturevalue(f"in_{request.param}")


# --- over HTTP


def back(card, sent):
    """The pixels n×8×8 in 0..255 that numbers stand for."""
    values = np.array(sent)
    if card.get("mean"):
        values = values * STD + MEAN
    values = values if card.get("range") == [0, 255] else values * 255
    if values.ndim == 4:
        values = values[:, 0] if card.get("layout") == "CHW" else values[..., 0]
    return values


def of_png(data):
    image = Pillow.open(io.BytesIO(data))
    assert image.format == "PNG" and image.size == (8, 8)
    return np.asarray(image.convert("L"), dtype=float)[np.newaxis]


@pytest.mark.parametrize(
    ("image", "shape"),
    [
        (None, (8, 8)),
        ({}, (8, 8)),
        ({"layout": "CHW"}, (8, 8)),
        ({"size": [8, 8], "channels": 1}, (8, 8, 1)),
        ({"channels": 1, "layout": "CHW"}, (1, 8, 8)),
        ({"range": [0, 255]}, (8, 8)),
        ({"channels": 1, "layout": "CHW", "mean": [MEAN], "std": [STD]}, (1, 8, 8)),
    ],
)
def test_numbers_over_http(image, shape):
    def answer(request):
        pixels = request.json["pixels"]
        assert np.shape(pixels)[1:] == shape
        return {"labels": classify(back(image or {}, pixels))}

    with app({"POST /m": answer}) as server:
        endpoint = {"url": f"{server.url}/m", "request": '{"pixels": {{ images|tojson }}}', "response": {"labels": "labels"}}
        card = {"name": "m", "type": "image-classifier", "endpoint": {**endpoint, "batch_size": 16}}
        model = open_model(load_card_data({**card, **({"inputs": {"image": image}} if image is not None else {})}, "."))
        assert model.predict(DIGITS).labels.tolist() == EXPECTED
        assert model.predict(DIGITS[..., 0]).labels.tolist() == EXPECTED
        model.close()


def test_large_images_as_numbers_go_in_smaller_calls():
    sizes = []

    def answer(request):
        sizes.append(len(request.json["x"]))
        return {"labels": [int(np.mean(one) > 0.5) for one in request.json["x"]]}

    with app({"POST /m": answer}) as server:
        endpoint = {"url": f"{server.url}/m", "request": '{"x": {{ images|tojson }}}', "response": {"labels": "labels"}}
        model = open_model(load_card_data({"name": "m", "type": "image-classifier", "endpoint": endpoint}, "."))
        images = pictures(250, 3, 4, 251, shape=(400, 900, 1))
        assert model.predict(images).labels.tolist() == [1, 0, 0, 1]
        model.close()
    assert sizes == [2, 2] and model.usage.splits == 0


FILES = {
    "base64": {"request": '{"x": {{ images_b64|tojson }}}', "batch_size": 16},
    "one in base64": {"request": '{"x": {{ image_b64|tojson }}}', "batch_size": 1},
    "raw": {"body": "raw"},
    "multipart": {"body": "multipart", "parts": {"file": {"content": "image", "filename": "x.png", "type": "image/png"}}},
}


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("way", FILES)
def test_png_files_over_http(way, channels):
    def answer(request):
        if way == "raw":
            files = [request.body]
        elif way == "multipart":
            files = [request.parts()["file"][2]]
        else:
            coded = request.json["x"]
            files = [base64.b64decode(one) for one in (coded if way == "base64" else [coded])]
        return {"labels": classify(np.concatenate([of_png(one) for one in files]))}

    images = np.repeat(DIGITS[:20], channels, axis=3)
    if channels == 4:
        images[..., 3] = 255
    with app({"POST /m": answer}) as server:
        endpoint = {"url": f"{server.url}/m", "response": {"labels": "labels"}, **FILES[way]}
        model = open_model(load_card_data({"name": "m", "type": "image-classifier", "endpoint": endpoint}, "."))
        assert model.predict(images).labels.tolist() == EXPECTED[:20]
        model.close()


def test_colour_that_does_not_fit_the_card_is_not_sent():
    with app({"POST /m": {"labels": [0]}}) as server:
        endpoint = {"url": f"{server.url}/m", "request": '{"x": {{ images|tojson }}}', "response": {"labels": "labels"}}
        card = {"name": "m", "type": "image-classifier", "endpoint": endpoint, "inputs": {"image": {"channels": 3}}}
        model = open_model(load_card_data(card, "."))
        with pytest.raises(InputError, match=r"m: got images of 1 channels, but inputs.image.channels is 3"):
            model.predict(DIGITS)
        card["inputs"] = {"image": {"mean": [0.1, 0.2, 0.3]}}
        with pytest.raises(InputError, match=r"m: inputs.image.mean: got 3 numbers for images of 1 channels"):
            open_model(load_card_data(card, ".")).predict(DIGITS)
        model.close()
        assert server.requests == []


# --- in Python


CARDS = [
    (None, "uint8", lambda x: x),
    ({"size": [4, 5], "channels": 3}, "uint8", lambda x: x),
    ({"range": [0, 255]}, "uint8", lambda x: x),
    ({"layout": "CHW"}, "uint8", lambda x: x.transpose(0, 3, 1, 2)),
    ({"range": [0, 1]}, "float32", lambda x: x.astype(np.float32) / np.float32(255)),
    ({"range": [0, 1], "layout": "CHW"}, "float32", lambda x: (x.astype(np.float32) / np.float32(255)).transpose(0, 3, 1, 2)),
    (
        {"mean": [0.5, 0.25, 0], "std": [0.5, 0.25, 2]},
        "float32",
        lambda x: (x.astype(np.float32) / np.float32(255) - np.float32([0.5, 0.25, 0])) / np.float32([0.5, 0.25, 2]),
    ),
    ({"range": [0, 255], "mean": [128]}, "float32", lambda x: x.astype(np.float32) - np.float32(128)),
]


@pytest.mark.parametrize(("image", "dtype", "expected"), CARDS)
def test_a_python_model_gets_what_the_card_says(opened, image, dtype, expected):
    images = np.random.default_rng(0).integers(0, 256, (3, 4, 5, 3), np.uint8)
    before = images.copy()
    answers = opened("described", image).predict(images)
    wanted = expected(images)
    assert answers.labels.tolist() == [
        f"{dtype} {wanted.shape[1:]} {hashlib.md5(np.ascontiguousarray(one).tobytes()).hexdigest()}" for one in wanted
    ]
    assert (images == before).all()


def test_grey_images_have_an_axis_of_channels(opened):
    for grey in (DIGITS[:2], DIGITS[:2, :, :, 0]):
        assert all(label.startswith("uint8 (8, 8, 1) ") for label in opened("described").predict(grey).labels)


def test_the_model_may_change_what_it_gets(opened):
    images = pictures(200, 30)
    opened("spoiling").predict(images)
    assert images.min() == 30
    answers = opened("Probabilities").predict(images)
    assert answers.labels.tolist() == ["light", "dark"]
    assert answers.scores[:, 1] == pytest.approx([200 / 255, 30 / 255])


@pytest.mark.parametrize("name", ["picky", "crashing"])
def test_one_bad_image_is_an_error_of_its_own(in_child, name):
    model = in_child(name)
    answers = model.predict(pictures(200, 30, 7, 210))
    assert answers.labels.tolist() == [1, 0, None, 1]
    expected = "ValueError: a seven" if name == "picky" else "the model's process died (SIGSEGV) at 1 image"
    assert answers.errors[2].startswith(expected)


def test_an_exception_in_memory_is_an_error_of_its_image(in_memory):
    answers = in_memory("picky").predict(pictures(200, 30, 7, 210))
    assert answers.labels.tolist() == [1, 0, None, 1]
    assert answers.errors[2] == "ValueError: a seven"


@pytest.mark.parametrize("name", ["scores", "tensors"])
def test_rows_of_numbers_are_scores(opened, name):
    answers = opened(name, classes=["dark", "light"]).predict(pictures(200, 30))
    assert answers.labels.tolist() == ["light", "dark"]
    assert answers.scores[:, 1] == pytest.approx([200 / 255, 30 / 255])


def test_numpy_integers_are_labels(opened):
    labels = opened("brightness", classes=[0, 1]).predict(pictures(200, 30)).labels
    assert labels.tolist() == [1, 0] and {type(one) for one in labels} == {int}


def test_large_images_go_in_several_calls(opened, monkeypatch):
    monkeypatch.setattr(batches, "CALL_FLOATS", 2 * 4 * 5 * 3)
    model = opened("brightness")
    assert model.predict(pictures(200, 30, 201, 31, 202)).labels.tolist() == [1, 0, 1, 0, 1]
    assert model.usage.calls == 3 and model.usage.splits == 0
    assert len(model.predict(pictures(200)[:0])) == 0


def test_a_child_of_images_needs_no_pandas(in_child, tmp_path):
    (tmp_path / "pandas.py").write_text("raise ImportError('there is no pandas here')")
    assert in_child("brightness").predict(pictures(200, 30)).labels.tolist() == [1, 0]


def test_a_tensor_of_torch(in_memory):
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)

    def network(images):
        light = torch.from_numpy(images).mean(dim=(1, 2, 3)).requires_grad_()
        return torch.stack([1 - light, light], dim=1)

    model = LocalModel(network, info(("dark", "light")), inputs=Inputs(image={"range": [0, 1]}))
    assert model.predict(pictures(200, 30)).labels.tolist() == ["light", "dark"]


# --- what is not a model of images


@pytest.mark.parametrize(
    ("backend", "said"),
    [
        (
            {"mlflow": "models:/m/1"},
            "m: got a model of type image-classifier behind `mlflow`, which is not asked here; serve it and write a card with "
            "`endpoint`, or load it in a class of your own and write one with `python`",
        ),
        ({"predictions": "answers.csv"}, "m: computed answers are those to rows of a table; ask the model itself"),
    ],
)
def test_backends_without_images(tmp_path, backend, said):
    (tmp_path / "answers.csv").write_text("prediction\n1\n")
    model = open_model(load_card_data({"name": "m", "type": "image-classifier", **backend}, tmp_path))
    with pytest.raises(InputError) as caught:
        model.predict(DIGITS[:1])
    assert str(caught.value) == said


@pytest.mark.parametrize("given", [DIGITS.astype(float), [DIGITS[0]], DIGITS[0, 0]])
def test_inputs_that_are_no_images(opened, given):
    with pytest.raises(InputError, match=r"m \(image-classifier\): got an? .* expected a uint8 array N×H×W×C"):
        opened("brightness").predict(given)


# --- images of several shapes


def test_images_of_several_shapes_keep_their_order(in_memory):
    model = in_memory("described")
    images = [np.full((2 + n % 3, 4, 1 + 2 * (n % 2)), n, np.uint8) for n in range(12)]
    assert by_shape(images) == [[0, 6], [1, 7], [2, 8], [3, 9], [4, 10], [5, 11]]
    labels = predict_images(model, images).labels
    assert labels.tolist() == [f"uint8 {one.shape} {hashlib.md5(one.tobytes()).hexdigest()}" for one in images]
    assert model.usage.calls == 6
    assert len(predict_images(model, [])) == 0


def test_a_stop_between_two_shapes_keeps_what_was_answered():
    def stops(images):
        if images.shape[1] == 3:
            model.stop()
        return images[:, 0, 0, 0].astype(int)

    model = LocalModel(stops, info())
    images = [np.full((height, 2, 1), n, np.uint8) for n, height in enumerate([2, 4, 3, 2, 3, 4])]
    order = [images[n] for n in (0, 2, 1, 3, 4, 5)]  # shapes 2, 3, then 4
    with pytest.raises(Interrupted) as caught:
        predict_images(model, order)
    answers = caught.value.answers
    assert answers.labels.tolist() == [0, 2, None, 3, 4, None]
    assert answers.errors.tolist() == [None, None, "not asked", None, None, "not asked"]


# --- the probe


def test_the_probe_speaks_of_images(in_child):
    found = probe(in_child("brightness"), pictures(200, 30, 100))
    assert (found.rows, found.classes, found.problems, found.deterministic) == (3, (0, 1), (), True)
    [problem] = probe(in_child("picky"), pictures(30, 7)).problems[-1:]
    assert problem == (
        "1 of 2 images got no usable answer; the first: ValueError: a seven; sent was an image of 4×5 pixels, 3 channels"
    )
    [problem] = probe(in_child("picky"), pictures(7, shape=(28, 28, 1))).problems
    assert problem == "ValueError: a seven; sent was an image of 28×28 pixels, 1 channel"
    with pytest.raises(InputError, match="got a sample without images, expected at least one image"):
        probe(in_child("brightness"), pictures(1)[:0])
