"""Spaces of stacked vectors: the names of the blocks of a vector and their positions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from linkwork.compiler.ir.symbol import Symbol
from linkwork.errors import LinkworkError, ShapeError
from linkwork.mechanism.names import did_you_mean


class Space:
    """The stacked vectors of one tree in one state, with a block for each node (or frame).

    `quantity` describes them, `names` and `slices` have a name and a place for each block. `segment` has, for
    each block, the number of the serial-chain segment that its node is in (SKO Sec. 7.1). Operators of
    different trees or states have different spaces and are not compatible (SKO Sec. 2.3).
    """

    def __init__(
        self,
        quantity: str,
        names: Sequence[str],
        slices: Sequence[slice],
        segment: Sequence[int] | None = None,
    ) -> None:
        self.quantity = quantity
        self.names = tuple(names)
        self.slices = tuple(slices)
        self.segment = tuple(range(len(names))) if segment is None else tuple(segment)
        self.size = sum(block.stop - block.start for block in slices)
        self._places: dict[str, int] = {}
        for k, name in enumerate(self.names):
            self._places.setdefault(name, k)

    def __len__(self) -> int:
        return len(self.names)

    def __repr__(self) -> str:
        return f"<{self.quantity}: {len(self)} blocks, {self.size} rows>"

    def rows_of(self, k: int) -> int:
        """Return the number of rows of block k."""
        return self.slices[k].stop - self.slices[k].start

    def place(self, block: Any) -> int:
        """Return the index of a block, from its number or name."""
        if isinstance(block, str):
            if block not in self._places:
                raise LinkworkError(
                    f"{self.quantity} have no block named {block!r}{did_you_mean(block, self._places)}"
                )
            return self._places[block]
        if (
            isinstance(block, bool)
            or not isinstance(block, (int, np.integer))
            or not -len(self) <= block < len(self)
        ):
            raise LinkworkError(f"block: expected a name or a number below {len(self)}, got {block!r}")
        return int(block) % len(self)

    def parts(self, x: Any) -> list[np.ndarray]:
        """Return the blocks of a stacked vector, (size,), or of several as columns, (size, m)."""
        try:
            array = np.asarray(x)
        except Exception:
            raise ShapeError(
                f"{self.quantity}: expected arrays of {self.size} rows, got {type(x).__name__}"
            ) from None
        if array.ndim not in (1, 2) or len(array) != self.size:
            raise ShapeError(
                f"{self.quantity}: expected {self.size} rows, (n,) or (n, m), got shape {array.shape}"
            )
        array = array.astype(object)  # its sums are then our own, in a defined order
        return [array[block] for block in self.slices]

    def stacked(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        """Return the stacked vector, or several as columns, with these blocks."""
        columns = parts[0].shape[1:] if parts else ()
        vector = np.zeros((self.size, *columns), dtype=object)
        for block, part in zip(self.slices, parts):
            vector[block] = part
        return numbers(vector)


def numbers(x: np.ndarray) -> np.ndarray:
    """Return an array as floats if it contains no symbols; otherwise unchanged."""
    return x if any(isinstance(y, Symbol) for y in x.ravel()) else x.astype(float)


def check_compatible(one: Space, another: Space, operation: str) -> None:
    """Raise LinkworkError unless two spaces are the same."""
    if one is another:
        return
    if one.quantity != another.quantity:
        raise LinkworkError(f"{operation} is not defined: {one.quantity} are not {another.quantity}")
    raise LinkworkError(
        f"{operation} is not defined: they are operators of different trees or states, which are not "
        "compatible"
    )
