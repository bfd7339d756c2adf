"""What a model has said of predictive words before, so that it is not asked again.

An answer is found by a hash of all that decides it: weights, config and modules as they are now, what was asked, and
what computes. So a model that is trained on, loaded in another number format or changed in memory is another one, and a
model whose code is not torch's or transformers' own is asked each time. attnscan ships the answers of the bundled
model on the shipped pairs; others are kept in the user's cache. There is no text in any of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from io import BytesIO
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray

from attnscan.hashing import hashed
from attnscan.model.fingerprint import computing
from attnscan.model.loaded import LoadedModel
from attnscan.results.cache import Cache, cache_directory, switched_off
from attnscan.results.dependencies import Help
from attnscan.results.terms import HelpMeasure
from attnscan.scoring.questions import Questions

VERSION = 1
"""Of what the numbers mean, and of how they are found: raise it when either changes."""
SHIPPED = "data/answers.npz"
"""Where the shipped answers stand; `make answers` makes them."""
_WORTH = 1 << 15  # tokens: to ask fewer takes a GPU less time than to hash the model


@dataclass(frozen=True)
class Answers:
    """What a model has said, by one measure."""

    origin: str | None
    """A hash of the model and the measure; None if nothing may be kept of it."""
    shipped_origin: str | None = None
    """The same of a model that is as its checkpoint makes it, whatever the versions; None of any other."""
    computed_by: str = ""
    """What else decides the numbers: versions, the device, how products are rounded."""
    exact: bool = True
    """Whether products are rounded as float32 does."""
    cache: Cache = field(default_factory=lambda: Cache(None))

    @classmethod
    def of(cls, loaded: LoadedModel, measure: HelpMeasure) -> Answers:
        """The answers of a model as it is now; none if $ATTNSCAN_CACHE is `off`."""
        import transformers

        model = None if switched_off() else computing(loaded.whole)
        if model is None:
            return cls(None)
        device, place, precision = loaded.device.type, cache_directory(), torch.get_float32_matmul_precision()
        parts = str(VERSION), model.numbers, measure, str(loaded.tokenizer.mask_token_id)
        origin = hashed(*(part.encode() for part in parts))
        return cls(
            hashed(origin.encode(), model.modules.encode()),
            origin if loaded.given is None and model.modules == loaded.modules else None,
            " ".join((str(torch.__version__), str(transformers.__version__), device, precision)),
            exact=precision == "highest",
            cache=Cache(place and place / "predictive"),
        )

    def get(self, questions: Questions, measure: HelpMeasure) -> Help | None:
        """What was said to these questions; None if they have to be asked."""
        if self.origin is None:
            return None
        cells = questions.cells
        numbers = self._shipped(questions)
        if numbers is None:
            numbers = self.cache.get(self._key(questions), int(cells.sum()))
        if numbers is None:
            return None
        matrix = np.full(cells.shape, np.nan)
        matrix[cells] = numbers
        return questions.help(matrix, measure)

    def put(self, questions: Questions, found: Help) -> None:
        """Keep an answer."""
        if self.origin is not None and questions.count:
            self.cache.put(self._key(questions), found.matrix[questions.cells])

    def shipped_key(self, questions: Questions) -> str:
        """What a shipped answer is found by: shipped ones count on every device and for all versions."""
        return hashed(str(self.shipped_origin).encode(), questions.digest.encode())

    def _key(self, questions: Questions) -> str:
        return hashed(str(self.origin).encode(), self.computed_by.encode(), questions.digest.encode())

    def _shipped(self, questions: Questions) -> NDArray[np.float64] | None:
        return shipped().get(self.shipped_key(questions)) if self.exact and self.shipped_origin else None


def worth_keeping(loaded: LoadedModel, inputs: list[Questions]) -> bool:
    """Whether it takes longer to ask than to look up."""
    return loaded.device.type == "cpu" or sum(each.count * each.length for each in inputs) >= _WORTH


@cache
def shipped() -> dict[str, NDArray[np.float64]]:
    """The answers that come with attnscan, by their keys."""
    content = resources.files("attnscan.scan").joinpath(SHIPPED).read_bytes()
    with np.load(BytesIO(content), allow_pickle=False) as arrays:
        keys, ends, numbers = (arrays[name] for name in ("keys", "ends", "numbers"))
    parts = (numbers[start:end].astype(np.float64) for start, end in pairwise([0, *ends.tolist()]))
    return dict(zip((bytes(key).hex() for key in keys), parts, strict=True))


def packed(answers: dict[str, NDArray[np.float64]]) -> bytes:
    """The same as a file: what `shipped` reads. To single precision, in which models compute."""
    file = BytesIO()
    keys = np.array([list(bytes.fromhex(key)) for key in answers], np.uint8)
    ends = np.cumsum([len(numbers) for numbers in answers.values()], dtype=np.int64)
    np.savez_compressed(file, keys=keys, ends=ends, numbers=np.concatenate([*answers.values()]).astype(np.float32))
    return file.getvalue()
