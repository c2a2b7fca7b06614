"""Scale, rotate, shear and translate against their definition: every output pixel read back in float64 through the inverse map.

The reference is scipy's bilinear interpolation with zeros outside. Tolerance: the output is the unrounded reference rounded,
give or take 0.02 grey levels, which is what positions in float32 cost.
"""

from __future__ import annotations

import numpy as np
import pytest
from image_samples import grey_noise, photo
from scipy.ndimage import map_coordinates

from aitest_lib.errors import InputError
from aitest_lib.transforms.image.base import ImageTransform
from aitest_lib.transforms.image.compose import Compose
from aitest_lib.transforms.image.geometry import Rotate, Scale, Shear, Translate

TOLERANCE = 0.5 + 0.02
SHAPES = [(1, 1, 1), (1, 7, 3), (3, 3, 1), (28, 28, 1), (32, 32, 3), (40, 57, 4), (96, 128, 3)]


def forward(transform: ImageTransform, x: np.ndarray, y: np.ndarray, shape: tuple[int, int, int]) -> np.ndarray:
    """Where points go, written out by hand: x to the right, y down, from the middle."""
    height, width, _ = shape
    match transform:
        case Scale(factor=factor):
            return np.stack([factor * x, factor * y])
        case Rotate(degrees=degrees):
            turn = np.exp(-1j * np.deg2rad(degrees)) * (x + 1j * y)  # y points down: counter-clockwise is negative
            return np.stack([turn.real, turn.imag])
        case Shear(shear=shear):
            return np.stack([x + shear * y, y])
        case Translate(fraction=fraction):
            return np.stack([x + fraction * width, y + fraction * height])
    raise AssertionError(transform)


def backward(transform: ImageTransform, x: np.ndarray, y: np.ndarray, shape: tuple[int, int, int]) -> np.ndarray:
    """Where the content of points comes from: the inverse of each map is one of its kind."""
    match transform:
        case Scale(factor=factor):
            return forward(Scale(factor=1 / factor), x, y, shape)
        case Rotate(degrees=degrees):
            return forward(Rotate(degrees=-degrees), x, y, shape)
        case Shear(shear=shear):
            return forward(Shear(shear=-shear), x, y, shape)
        case Translate(fraction=fraction):
            return forward(Translate(fraction=-fraction), x, y, shape)
    raise AssertionError(transform)


def expected(chain: list[ImageTransform], images: np.ndarray) -> np.ndarray:
    """Unrounded grey levels in float64, with one resampling for the whole chain."""
    _, height, width, channels = images.shape
    middle_y, middle_x = (height - 1) / 2, (width - 1) / 2
    y, x = np.mgrid[:height, :width].astype(float)
    x, y = x - middle_x, y - middle_y
    for transform in reversed(chain):
        x, y = backward(transform, x, y, (height, width, channels))
    where = np.stack([y + middle_y, x + middle_x])
    read = [
        [
            map_coordinates(image[..., one].astype(float), where, order=1, mode="grid-constant", cval=0)
            for one in range(channels)
        ]
        for image in images
    ]
    return np.moveaxis(np.array(read), 1, -1)


def made(transform: ImageTransform, images: np.ndarray) -> np.ndarray:
    params = transform.draw(["a"] * len(images), images.shape[1:], None).params
    return transform.apply(images, params)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(
    "transform",
    [
        Scale(factor=0.05),
        Scale(factor=0.5),
        Scale(factor=0.9),
        Scale(factor=1.3),
        Scale(factor=7),
        Rotate(degrees=5),
        Rotate(degrees=-15),
        Rotate(degrees=90),
        Rotate(degrees=133.7),
        Rotate(degrees=-180),
        Shear(shear=0.1),
        Shear(shear=-0.5),
        Shear(shear=3),
        Translate(fraction=0.05),
        Translate(fraction=-0.33),
        Translate(fraction=1),
    ],
    ids=lambda transform: "-".join(map(str, transform.slice.values())),
)
def test_every_pixel_is_what_the_definition_reads(transform, shape):
    images = grey_noise(2, shape)
    found = made(transform, images).astype(float)
    assert np.abs(found - expected([transform], images)).max() <= TOLERANCE


@pytest.mark.parametrize(
    "links",
    [
        [{"name": "rotate", "degrees": 20}, {"name": "scale", "factor": 0.8}, {"name": "translate", "fraction": 0.1}],
        [{"name": "translate", "fraction": 0.1}, {"name": "rotate", "degrees": 20}],
        [{"name": "shear", "shear": 0.3}, {"name": "rotate", "degrees": -40}],
    ],
    ids=lambda links: "+".join(link["name"] for link in links),
)
def test_a_chain_of_maps_is_resampled_once_in_its_order(links):
    kinds = {"rotate": Rotate, "scale": Scale, "translate": Translate, "shear": Shear}
    chain = [kinds[link["name"]](**{key: value for key, value in link.items() if key != "name"}) for link in links]
    images = grey_noise(2, (33, 48, 3))
    found = made(Compose(parts=links), images).astype(float)
    assert np.abs(found - expected(chain, images)).max() <= TOLERANCE


def test_severities_are_the_published_table_of_this_project():
    tables = {
        Scale: ("factor", [0.9, 0.8, 0.7, 0.6, 0.5]),
        Rotate: ("degrees", [5, 10, 15, 20, 30]),
        Shear: ("shear", [0.1, 0.2, 0.3, 0.4, 0.5]),
        Translate: ("fraction", [0.05, 0.1, 0.15, 0.2, 0.25]),
    }
    for cls, (name, values) in tables.items():
        for shape in ((28, 28, 1), (224, 224, 3)):
            drawn = [cls(severity=severity).draw(["a"], shape, None).params[0] for severity in range(1, 6)]
            assert drawn == [{name: value} for value in values]
            assert drawn == [cls(**{name: value}).draw(["a"], shape, None).params[0] for value in values]


def test_a_quarter_turn_is_counter_clockwise():
    images = photo(2, (31, 31, 3))
    assert (made(Rotate(degrees=90), images) == np.rot90(images, axes=(1, 2))).all()
    assert (made(Rotate(degrees=180), images) == images[:, ::-1, ::-1]).all()


def test_moves_are_to_the_right_and_down_and_leave_black_behind():
    images = photo(1, (10, 20, 3))
    found = made(Translate(fraction=0.1), images)
    assert (found[:, 1:, 2:] == images[:, :-1, :-2]).all()
    assert not found[:, 0].any()
    assert not found[:, :, :2].any()


def test_rows_below_the_middle_lean_to_the_right():
    images = np.zeros((1, 9, 9, 1), np.uint8)
    images[:, :, 4] = 200
    found = made(Shear(shear=1), images)[0, :, :, 0]
    assert [int(row.argmax()) for row in found] == list(range(9))


def test_a_larger_factor_enlarges():
    images = np.zeros((1, 32, 32, 1), np.uint8)
    images[:, 12:20, 12:20] = 255
    areas = [int((made(Scale(factor=factor), images) > 127).sum()) for factor in (0.5, 1, 2)]
    assert areas == [16, 64, 256]


@pytest.mark.parametrize("transform", [Scale(factor=0.5), Rotate(degrees=45), Shear(shear=1), Translate(fraction=0.3)])
def test_alpha_moves_with_the_colours_and_is_transparent_outside(transform):
    images = np.full((1, 16, 16, 4), 255, np.uint8)
    found = made(transform, images)
    assert (found == found[..., :1]).all()
    assert (found[..., 3] == 0).any()
    assert (found[..., 3] == 255).any()


def test_images_of_one_batch_may_move_differently():
    images = photo(6, (20, 24, 3))
    params = [{"degrees": float(angle)} for angle in (10, 30, 10, 10, -5, 30)]
    found = Rotate().apply(images, params)
    for image, one, row in zip(images, params, found, strict=True):
        assert (Rotate().apply(image[None], [one])[0] == row).all()


@pytest.mark.parametrize(("cls", "name"), [(Scale, "factor"), (Rotate, "degrees"), (Shear, "shear"), (Translate, "fraction")])
def test_strength_and_severity_together_are_refused(cls, name):
    with pytest.raises(InputError, match=f"got severity and {name}, expected one of them"):
        cls(severity=3, **{name: 0.5})
    assert cls().severity == 3


@pytest.mark.parametrize(
    ("transform", "operator"),
    [
        (Rotate(degrees=33), lambda geometry, x, tensor: geometry.rotate(x, tensor(33.0))),
        (Scale(factor=0.7), lambda geometry, x, tensor: geometry.scale(x, tensor([[0.7, 0.7]]))),
        (Translate(fraction=0.1), lambda geometry, x, tensor: geometry.translate(x, tensor([[4.1, 3.0]]))),
    ],
    ids=lambda item: getattr(item, "name", ""),
)
def test_kornia_agrees(transform, operator):
    import torch
    from kornia.geometry import transform as geometry

    images = photo(3, (30, 41, 3))
    floats = torch.from_numpy(images).permute(0, 3, 1, 2) / 255
    theirs = operator(geometry, floats, torch.tensor).permute(0, 2, 3, 1).numpy() * 255
    assert np.abs(made(transform, images) - theirs).max() <= 1
