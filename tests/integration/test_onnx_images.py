"""ONNX models of images in real child processes: every layout and type of input, labels, probabilities and logits."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from image_models import centroids, classify, digits, logits
from onnx import TensorProto, helper, numpy_helper
from opening import open_card

from aitest_lib.errors import InputError
from aitest_lib.models import batches
from aitest_lib.models.processes.onnx_images import are_nearly_probabilities, layout_of, probabilities

SHARED = Path(os.environ.get("AITEST_SHARED_DATA", Path(__file__).parents[3] / "shared" / "data"))
DIGITS = digits()
PIXELS = DIGITS.astype(float)
EXPECTED = classify(PIXELS)
SOFTMAX = probabilities(logits(PIXELS))
CLASSES = list(range(10))
FLOAT, UINT8 = TensorProto.FLOAT, TensorProto.UINT8


def tensor(name, shape, kind=FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def constant(name, values, dtype="float32"):
    return numpy_helper.from_array(np.asarray(values, dtype), name)


def saved(path, nodes, inputs, outputs, initializers):
    graph = helper.make_graph(nodes, "g", inputs, outputs, initializers)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), str(path))
    return path


def network(path, shape=("n", 1, 8, 8), kind=FLOAT, scale=1.0, head="logits"):
    """The classifier of `image_models`; `scale`: what its input values are to be multiplied with for pixels in 0..1."""
    means = centroids() / 255
    nodes = [
        helper.make_node("Cast", ["images"], ["values"], to=FLOAT),
        helper.make_node("Flatten", ["values"], ["flat"], axis=1),
        helper.make_node("Mul", ["flat", "scale"], ["scaled"]),
        helper.make_node("Gemm", ["scaled", "w", "b"], ["logits"]),
    ]
    weights = [constant("w", 2 * means.T), constant("b", -(means**2).sum(axis=1)), constant("scale", scale)]
    outputs = {"logits": tensor("logits", [shape[0], 10])}
    if head == "four axes":
        nodes.append(helper.make_node("Reshape", ["logits", "shape"], ["found"]))
        weights.append(constant("shape", [-1, 10, 1, 1], "int64"))
        outputs = {"found": tensor("found", [shape[0], 10, 1, 1])}
    if head in ("softmax", "both", "float16"):
        nodes.append(helper.make_node("Softmax", ["logits"], ["p"], axis=1))
        outputs = {"p": tensor("p", [shape[0], 10])}
    if head == "float16":
        nodes.append(helper.make_node("Cast", ["p"], ["half"], to=TensorProto.FLOAT16))
        outputs = {"half": tensor("half", [shape[0], 10], TensorProto.FLOAT16)}
    if head in ("labels", "both"):
        nodes.append(helper.make_node("ArgMax", ["logits"], ["label"], axis=1, keepdims=0))
        more = {} if head == "labels" else outputs
        outputs = {**more, "label": tensor("label", [shape[0]], TensorProto.INT64)}
    return saved(path, nodes, [tensor("images", shape, kind)], list(outputs.values()), weights)


def opened(path, image=None, **card):
    inputs = {} if image is None else {"inputs": {"image": image}}
    return open_card({"name": "m", "type": "image-classifier", "onnx": str(path), "classes": CLASSES, **inputs, **card})


@pytest.mark.parametrize("kind", [FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, UINT8])
@pytest.mark.parametrize("shape", [("n", 1, 8, 8), ("n", 8, 8, 1), ("n", 8, 8), ("n", None, None, None), (16, 1, 8, 8)])
def test_every_type_and_shape_of_grey_input(tmp_path, kind, shape):
    path = network(tmp_path / "m.onnx", shape, kind, scale=1 / 255 if kind == UINT8 else 1)
    answers = opened(path).predict(DIGITS)
    assert answers.labels.tolist() == EXPECTED
    assert np.allclose(answers.scores, SOFTMAX, atol=1e-2 if kind == TensorProto.FLOAT16 else 1e-5)


@pytest.mark.parametrize("head", ["logits", "softmax", "both", "four axes", "float16"])
def test_scores_are_probabilities_whatever_the_output(tmp_path, head):
    answers = opened(network(tmp_path / "m.onnx", head=head)).predict(DIGITS)
    assert answers.labels.tolist() == EXPECTED
    assert np.allclose(answers.scores, SOFTMAX, atol=1e-3 if head == "float16" else 1e-5)


def test_labels_alone_are_places_among_words(tmp_path):
    words = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
    answers = opened(network(tmp_path / "m.onnx", head="labels"), classes=words).predict(DIGITS)
    assert answers.labels.tolist() == [words[digit] for digit in EXPECTED]
    assert answers.scores is None


@pytest.mark.parametrize(
    ("image", "scale"),
    [
        ({}, 1),
        ({"range": [0, 1]}, 1),
        ({"range": [0, 255]}, 1 / 255),
        ({"std": [0.5]}, 0.5),
        ({"range": [0, 255], "std": [127.5]}, 0.5),
    ],
)
def test_floats_are_scaled_as_the_card_says(tmp_path, image, scale):
    answers = opened(network(tmp_path / "m.onnx", scale=scale), image).predict(DIGITS)
    assert np.allclose(answers.scores, SOFTMAX, atol=1e-5)


def strongest_channel(path, shape, axes):
    """Logits are the mean of each channel, which are what is left when `axes` are reduced."""
    nodes = [helper.make_node("ReduceMean", ["images", "axes"], ["logits"], keepdims=0)]
    return saved(path, nodes, [tensor("images", shape)], [tensor("logits", ["n", "k"])], [constant("axes", axes, "int64")])


FIRST, LAST = (2, 3), (1, 2)


@pytest.mark.parametrize(
    ("shape", "layout", "axes", "size"),
    [
        (("n", 3, 5, 4), None, FIRST, (5, 4)),
        (("n", 5, 4, 3), None, LAST, (5, 4)),
        (("n", 3, None, None), None, FIRST, (5, 4)),
        (("n", "h", "w", 3), None, LAST, (7, 9)),
        (("n", "c", "h", "w"), None, FIRST, (5, 4)),
        (("n", "a", "b", "c"), "HWC", LAST, (5, 4)),
        (("n", 3, 4, 3), None, FIRST, (4, 3)),
        (("n", 3, 4, 3), "HWC", LAST, (3, 4)),
    ],
)
def test_where_the_channels_stand(tmp_path, shape, layout, axes, size):
    path = strongest_channel(tmp_path / "m.onnx", shape, axes)
    images = np.zeros((3, *size, 3), np.uint8)
    for n, channel in enumerate([2, 0, 1]):
        images[n, ..., channel] = 255
    answers = opened(path, {"layout": layout} if layout else None, classes=["red", "green", "blue"]).predict(images)
    assert answers.labels.tolist() == ["blue", "red", "green"]


def test_the_axes_of_a_shape():
    assert [layout_of(shape) for shape in ([1, 3, 9, 9], [1, 9, 9, 3], [1, 3, 9, 3], ["n", "c", 9, 9], [1, 4, 9, 1])] == [
        "CHW",
        "HWC",
        "CHW",
        "CHW",
        "CHW",
    ]


def one_score(path, factor):
    nodes = [
        helper.make_node("ReduceMean", ["images", "axes"], ["mean"], keepdims=0),
        helper.make_node("Sub", ["mean", "half"], ["centred"]),
        helper.make_node("Mul", ["centred", "factor"], ["logit"]),
        helper.make_node("Reshape", ["logit", "shape"], ["column"]),
    ]
    weights = [constant("axes", [1, 2, 3], "int64"), constant("half", 0.5), constant("factor", factor)]
    weights.append(constant("shape", [-1, 1], "int64"))
    if factor == 1:
        nodes.append(helper.make_node("Add", ["column", "half"], ["score"]))
    return saved(
        path,
        nodes,
        [tensor("images", ["n", 1, 8, 8])],
        [tensor("score" if factor == 1 else "column", ["n", 1])],
        weights,
    )


@pytest.mark.parametrize("factor", [1, 8])
def test_one_score_an_image_and_a_decision(tmp_path, factor):
    path = one_score(tmp_path / "m.onnx", factor)
    levels = np.array([0, 100, 140, 255])
    images = np.repeat(levels, 64).reshape(4, 8, 8, 1).astype(np.uint8)
    card = {"classes": ["dark", "light"], "decision": {"threshold": 0.5}}
    answers = opened(path, **card).predict(images)
    right = levels / 255 if factor == 1 else 1 / (1 + np.exp(-8 * (levels / 255 - 0.5)))
    assert answers.labels.tolist() == ["dark", "dark", "light", "light"]
    assert np.allclose(answers.scores[:, 1], right, atol=1e-5)
    with pytest.raises(InputError, match=r"m: the model answers one score an image; add `classes` \(two\) and `decision:"):
        opened(path, classes=["dark", "light"]).predict(images)


def test_logits_that_look_like_probabilities_in_one_image_are_still_logits(tmp_path):
    path = strongest_channel(tmp_path / "m.onnx", ("n", 3, 4, 4), FIRST)
    image = np.zeros((1, 4, 4, 3), np.uint8)
    image[..., 0], image[..., 1] = 153, 102  # logits 0.6, 0.4 and 0: they sum to 1
    answers = opened(path, classes=["red", "green", "blue"]).predict(image)
    assert np.allclose(answers.scores, probabilities(np.array([[0.6, 0.4, 0]])), atol=1e-6)


def test_what_counts_as_probabilities():
    assert are_nearly_probabilities(np.array([[0.2, 0.8], [np.nan, 3], [0.51, 0.5]]))
    assert not are_nearly_probabilities(np.array([[0.2, 0.8], [0.7, 0.7]]))
    assert not are_nearly_probabilities(np.array([[1.5, -0.5]]))
    assert are_nearly_probabilities(np.array([0, 0.3, 1])) and not are_nearly_probabilities(np.array([0.5, 1.2]))
    assert probabilities(np.array([[1000.0, 0], [0, -1000]])).tolist() == [[1, 0], [1, 0]]
    assert probabilities(np.array([-1000.0, 0, 1000])).tolist() == [0, 0.5, 1]


def test_what_does_not_fit_is_one_message(tmp_path):
    path = network(tmp_path / "m.onnx")
    with pytest.raises(InputError) as caught:
        opened(path).predict(np.repeat(DIGITS, 3, axis=3)[:, :7])
    assert str(caught.value) == (
        "m: the model's input images takes images as n×1×8×8, got n×3×7×8; give images of that size and number of channels, "
        "and check `inputs.image.layout`"
    )
    with pytest.raises(InputError, match=r"m: the model answers 10 scores an image; list the 10 `classes` in the card"):
        opened(path, classes=None).predict(DIGITS)
    with pytest.raises(InputError, match=r"m: the model answers 10 scores an image, but the card has 2 `classes`"):
        opened(path, classes=["a", "b"]).predict(DIGITS)
    with pytest.raises(InputError, match=r"takes images as n×8×8, got n×3×8×8"):
        opened(network(tmp_path / "grey.onnx", ("n", 8, 8)), {"layout": "CHW"}).predict(np.repeat(DIGITS, 3, axis=3))
    with pytest.raises(InputError, match=r"takes the bytes of the pixels, and `inputs.image` asks for a range, mean or std"):
        opened(network(tmp_path / "bytes.onnx", kind=UINT8), {"mean": [0.5]}).predict(DIGITS)
    flat = network(tmp_path / "flat.onnx", ("n", 64))
    with pytest.raises(
        InputError, match=r"input images is a tensor\(float\) of shape .*, expected images: uint8 or floats of 4"
    ):
        opened(flat).predict(DIGITS)
    pair = [tensor("images", ["n", 1, 8, 8]), tensor("more", ["n", 1, 8, 8])]
    two = saved(tmp_path / "two.onnx", [helper.make_node("Add", ["images", "more"], ["y"])], pair, [tensor("y", None)], [])
    with pytest.raises(InputError, match="the model has the inputs images, more, expected one for the images"):
        opened(two).predict(DIGITS)
    maps = saved(tmp_path / "maps.onnx", [helper.make_node("Relu", ["images"], ["y"])], pair[:1], [tensor("y", None)], [])
    with pytest.raises(InputError, match=r"the model's output has the shape n×1×8×8, expected n×k: k scores an image"):
        opened(maps).predict(DIGITS)


def test_many_images_go_in_several_calls_with_the_same_answers(tmp_path, monkeypatch):
    model = opened(network(tmp_path / "m.onnx"))
    whole = model.predict(DIGITS)
    monkeypatch.setattr(batches, "CALL_FLOATS", 7 * 64)
    parts = model.predict(DIGITS)
    assert model.usage.calls == 1 + 9
    assert parts.labels.tolist() == whole.labels.tolist() and np.allclose(parts.scores, whole.scores, atol=1e-6)


@pytest.mark.shared
def test_a_published_network_has_its_published_accuracy():
    if not (SHARED / "cifar10_resnet20.onnx").exists():
        pytest.skip(f"needs cifar10_resnet20.onnx in {SHARED}")
    data = np.load(SHARED / "cifar10_test1000.npz")
    answers = opened(SHARED / "cifar10_resnet20.onnx").predict(data["x"])
    assert (answers.labels == data["y"]).mean() == pytest.approx(0.804)
    assert np.allclose(answers.scores.sum(axis=1), 1)
