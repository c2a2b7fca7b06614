"""Services that classify images. The model behind all of them tells light from dark: it needs the pixels in their range."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from vendor_server import Reply, Request, Vendor, bearer, expect
from vendor_texts import scores


class HfImage(Vendor):
    refusal = Reply(400, {"error": "cannot identify image file"})

    def answer(self, request: Request) -> Any:
        from PIL import Image

        path = "/hf-inference/models/google/vit-base-patch16-224"
        expect((request.method, request.path, request.type) == ("POST", path, "image/png"), "another method, path or type")
        bearer(request, "HF_TOKEN")
        expect(request.body.startswith(b"\x89PNG"), "expected a PNG file")
        light = float(np.asarray(Image.open(io.BytesIO(request.body)).convert("L")).mean())
        self.refuse_bad([light])
        return scores("light" if light > 127 else "dark", "dark", "light")


def judged(vendor: Vendor, images: np.ndarray[Any, Any]) -> list[list[float]]:
    """The probabilities (good, defect) of images with values in [0, 1]: dark ones have a defect."""
    expect(images.min() >= 0 and images.max() <= 1, "values beyond [0, 1]")
    lights = np.round(images.mean(axis=(1, 2, 3)) * 255).tolist()
    vendor.refuse_bad(lights)
    return [[0.75, 0.25] if light > 127 else [0.125, 0.875] for light in lights]


class KserveImages(Vendor):
    channels = 1
    refusal = Reply(400, {"error": "unexpected value in tensor"})

    def answer(self, request: Request) -> Any:
        expect((request.method, request.path) == ("POST", "/v2/models/parts/infer"), "no such method and path")
        [tensor] = request.json()["inputs"]
        expect((tensor["name"], tensor["datatype"]) == ("input", "FP32"), "expected one FP32 tensor")
        images = np.array(tensor["data"])
        expect(tensor["shape"] == [len(images), self.channels, 64, 48] == list(images.shape), "data and shape differ")
        flat = [score for row in judged(self, images) for score in row]
        output = {"name": "probabilities", "shape": [len(images), 2], "datatype": "FP32", "data": flat}
        return {"model_name": "parts", "outputs": [output]}


class TfServingImages(Vendor):
    channels = 1
    refusal = Reply(400, {"error": "Failed to process element: 0 of 'instances' list. Error: INVALID_ARGUMENT"})

    def answer(self, request: Request) -> Any:
        expect((request.method, request.path) == ("POST", "/v1/models/parts:predict"), "no such method and path")
        images = np.array(request.json()["instances"])
        expect(images.shape[1:] == (64, 48, self.channels), "another shape than the model's")
        return {"predictions": judged(self, images)}
