"""What a search on one image is: a coroutine that yields noise to try and gets back what the model made of it.

`Attack` (`attack.py`) runs the coroutines of many images side by side, so that the model is asked in batches. A search sees
neither the model nor the other images; what it tries hangs on its image, its random numbers and the replies alone, so that a
run that was interrupted is taken up by replaying the answers that are kept.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from aitest_lib.component import Component
from aitest_lib.errors import InputError
from aitest_lib.parameters import parameter

Image = NDArray[np.uint8]  # (height, width, channels)
Noise = NDArray[np.int16]  # (height, width, channels): grey levels to add
LEVELS = 255
MOST_QUERIES = 100_000
EPSILON = 1e-9  # 8/255 is meant to be 8 grey levels, whatever its floating-point product with 255


@dataclass(frozen=True, eq=False)
class Seed:
    """One image to be attacked. `image`: its colour channels (an alpha channel is left alone); `radius`: how many grey
    levels a channel of a pixel may move; `margin`: the model's on the untouched image (see `Reply`)."""

    image: Image
    radius: int
    margin: float


@dataclass(frozen=True)
class Try:
    """Noise to try. The image is clipped to 0..255; noise beyond the radius makes a probe, which can tell a search something
    but is never a success."""

    noise: Noise


@dataclass(frozen=True)
class Reply:
    """What the model made of an image: `broken` is another class than the right one.

    `margin`: ln of the right class' score less ln of the best other class' score, negative where broken. Where only labels are
    used it is +1 or -1. NaN where the model gave no usable answer.
    """

    margin: float
    broken: bool


class Together(Protocol):
    """Work that costs less when it is done for some images at once. A search yields one; `solve` gets those of all images that
    wait, and what it returns for each goes back to its search. No image's result may depend on the others'."""

    @classmethod
    def solve(cls, requests: Sequence[Self]) -> Sequence[Any]:
        """The results, in the order of the requests."""


# Gets the Reply to each Try, and the result of each Together. It returns when it has nothing left to try.
Moves = Generator[Try | Together, Any, None]


@dataclass(frozen=True, kw_only=True)
class ImageSearch(Component):
    """A search for noise within `delta` (largest change of any pixel, L-infinity) that turns the model's answer."""

    kind: ClassVar[str] = "image_search"
    needs_scores: ClassVar[bool] = False  # of no use where only labels are known
    delta: float = parameter(8 / LEVELS, help="largest change of a pixel's channel, of the range 0 to 1", gt=0, le=1)
    queries: int = parameter(250, help="queries that one image may cost at most", ge=1, le=MOST_QUERIES)
    labels_only: bool = parameter(False, help="use labels alone, also where the model gives scores")

    def __post_init__(self) -> None:
        if self.radius < 1:
            raise InputError(
                f"got delta {self.delta:g}, expected at least one grey level of an 8-bit image, 1/255 = {1 / LEVELS:.4f}"
            )

    @property
    def radius(self) -> int:
        """How many grey levels a channel of a pixel may move."""
        return int(np.floor(LEVELS * self.delta + EPSILON))

    @abstractmethod
    def moves(self, seed: Seed, rng: np.random.Generator) -> Moves:
        """What to try on one image, try after try. Most important first: the search ends with the first success, or when the
        queries of the image are spent. A try that equals an earlier one of the image costs no query and gets its reply."""
