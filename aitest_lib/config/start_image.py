"""Files to start from for a model of images: a card and a suite as YAML text, with every guess marked as one."""

from __future__ import annotations

import re
from collections.abc import Sequence

from aitest_lib.config.curl import CurlRequest
from aitest_lib.config.start import endpoint_head, flow_list, inline, property_lines, put, slug
from aitest_lib.properties.base import PropertySpec
from aitest_lib.types import Scalar

Shape = tuple[int, int, int]


def image_card(name: str, classes: Sequence[Scalar] | None, shape: Shape | None, curl: CurlRequest | None) -> str:
    """A card to start from: an endpoint that takes PNG files in base64. `shape`: height, width and channels of all images
    that were looked at; None where they differ."""
    lines = [
        "# A card to start from: check every line marked as a guess.",
        f"name: {inline(slug(name))}",
        'revision: "1"  # change it whenever what is deployed changes: answers are reused while it stays the same',
        "type: image-classifier",
    ]
    if classes:
        lines.append(
            f"classes: {flow_list(classes)}  # a guess: seen in the data, sorted; put them into the order of the scores"
        )
    lines += ["inputs:", f"  {_inputs(shape)}"]
    lines += endpoint_head(curl)
    if curl is not None and curl.body:
        lines.append(
            "  # the body of the curl command was not understood: write it as `request`, with the variable where the images go"
        )
    lines += [
        "  body: json",
        "  request: '{\"images\": {{ images_b64|tojson }} }'  # a guess: PNG in base64; {{ images|tojson }}: lists of pixels",
        "  response:",
        "    kind: json",
        "    labels: predictions  # a guess (JMESPath): one answer for each image, in their order",
        "    # scores: probabilities  # a guess: uncomment if the model answers probabilities",
        "  batch_size: 32  # images in one request",
    ]
    return "\n".join(lines) + "\n"


def image_card_like(ready: str, name: str, classes: Sequence[Scalar] | None, shape: Shape | None) -> str:
    """A copy of a ready card's text with what the data say in place of its own name, classes and size."""
    text = put(ready, "name", inline(slug(name)))
    if classes:
        text = text if "\nclasses:" in text else text.replace("\ntype:", "\nclasses: []\ntype:", 1)
        text = put(text, "classes", f"{flow_list(classes)}  # a guess: the labels of the data, sorted; scores in this order")
    if shape is not None:
        text = re.sub(r"size: \[\d+, \d+\]", f"size: [{shape[0]}, {shape[1]}]", text)
        text = re.sub(r"channels: \d", f"channels: {3 if shape[2] == 4 else shape[2]}", text)
        text = re.sub(r"(\[\{\{ n \}\}, )\d, \d+, \d+\]", rf"\g<1>{shape[2]}, {shape[0]}, {shape[1]}]", text)
    if shape is not None and "\ninputs:" not in text:
        text = text.replace("\nendpoint:", f"\ninputs: {{{_size(shape)}}}  # as the images are\nendpoint:", 1)
    return text


def image_suite(
    name: str,
    card_file: str,
    data: str,
    label: str | None,
    properties: Sequence[PropertySpec],
) -> str:
    """A suite to start from: the default transforms, severities and gates."""
    lines = [
        "# A suite to start from.",
        f"suite: {inline(slug(name))}",
        "random_seed: 1",
        f"model: {{card: {inline(card_file)}}}",
        f"# model: {{name: {inline(slug(name))}, version: latest}}  # once registered; `deploy --on-new-version` needs it",
        "data:",
        f"  test: {inline(data)}",
        *([f"  label: {inline(label)}"] if label is not None else []),
        "  sample: 500  # images, stratified by class; `all` takes every one",
        "properties:",
    ]
    for spec in properties:
        lines += property_lines(spec)
    return "\n".join(lines) + "\n"


def _inputs(shape: Shape | None) -> str:
    if shape is None:
        return "image: {}  # the images differ in size; if the model takes one size, write {size: [height, width], channels: 3}"
    return f"{_size(shape)}  # as the images are; layout, range, mean and std are for lists of pixels"


def _size(shape: Shape) -> str:
    height, width, channels = shape
    return f"image: {{size: [{height}, {width}], channels: {3 if channels == 4 else channels}}}"
