"""Programs: flat lists of instructions on scalars, with named arrays going in and out.

A value is the position of the instruction that makes it. Programs are values themselves: frozen, comparable by digest,
and never changed by a pass, which makes a new one.
"""

from __future__ import annotations

import hashlib
import math
import struct
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

from linkwork.errors import ProgramError
from linkwork.ir.operations import BOOL, OPERATIONS, REAL, WITH_BODY
from linkwork.ir.text import to_text
from linkwork.lazy import cached_property

DTYPES = ("float64", "float32")
T = TypeVar("T")


class Array(NamedTuple):
    """A named array of a program's interface; `shape` is () for a scalar."""

    name: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of scalars."""
        return math.prod(self.shape)


def signature(inputs: Iterable[Array], outputs: Iterable[Array]) -> str:
    """Core dimensions of arrays, as of NumPy's generalised ufuncs: "(7),(7)->(7,7)"."""

    def dims(array: Array) -> str:
        return f"({','.join(map(str, array.shape))})"

    return f"{','.join(map(dims, inputs))}->{','.join(map(dims, outputs))}"


class Instruction(NamedTuple):
    """One operation, the values it takes, and its attribute (see `operations.STRUCTURAL`), None for plain operations."""

    op: str
    args: tuple[int, ...] = ()
    attr: Any = None


@dataclass(frozen=True)
class BoundedLoop:
    """A bounded loop with state: run `body` on the state until its `again` is false, at most `limit` times.

    The loop instruction takes the first state, then the values that the body reads from outside. The body has the inputs
    `state` and `outer` and the outputs `state` and `again` (a bool). It runs at least once. A row whose `again` was false
    keeps its state while other rows of the batch go on: rows never see each other.

    `newton`, where it is not zero: it is Newton's method, so its derivative is that of the solution: so many of the first
    states, which are followed by as many that are tried next, if there are more. The step at the solution, linearised, must
    forget all of it but what it keeps (see `functions.loop`).
    """

    body: Program
    states: int
    limit: int
    newton: int = 0


@dataclass(frozen=True)
class RowMap:
    """The same computation on every row of an array: run `body` on each of `count` rows, and on values that all of them share.

    The map instruction takes the rows, one after the other, then what is shared. The body has the inputs `row` and `shared` and
    the output `row`. No row depends on another: a target may run them in any order, side by side, or as a loop of short code.
    """

    body: Program
    count: int

    @property
    def takes(self) -> int:
        """Values of a row that goes in."""
        return self.body.inputs[0].size

    @property
    def gives(self) -> int:
        """Values of a row that comes out."""
        return self.body.outputs[0].size

    @property
    def states(self) -> int:
        """Values that can be read from it: `result` k is element k % gives of row k // gives."""
        return self.count * self.gives

    def rows(self, args: Sequence[T]) -> list[Sequence[T]]:
        """What goes in, of the instruction's arguments: one row after the other."""
        return [args[k * self.takes : (k + 1) * self.takes] for k in range(self.count)]

    def shared(self, args: Sequence[T]) -> Sequence[T]:
        """What all rows share, of the instruction's arguments."""
        return args[self.count * self.takes :]


@dataclass(frozen=True, eq=False)
class Program:
    """A function from named input arrays to named output arrays, over scalars of one dtype.

    `results[k]` lists, in row-major order, the values that make up `outputs[k]`. `cuts` are the positions at which
    targets begin a new function; they have no meaning beyond that.
    """

    name: str
    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]
    code: tuple[Instruction, ...]
    results: tuple[tuple[int, ...], ...]
    dtype: str = "float64"
    cuts: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.code)

    def __str__(self) -> str:
        return to_text(self)

    @cached_property
    def kinds(self) -> list[str]:
        """REAL or BOOL for every value; "loop" for a loop or map instruction, which is no value itself."""
        return [_GIVES.get(op) or (BOOL if isinstance(attr, bool) else REAL) for op, _, attr in self.code]

    @property
    def parts(self) -> list[range]:
        """The positions of each function that the cuts make of the program; all of them where there is no cut."""
        return [range(a, b) for a, b in pairwise([0, *self.cuts, len(self.code)])]

    def result_values(self) -> Iterator[int]:
        """Every value that some output needs, output after output."""
        for values in self.results:
            yield from values

    def with_dtype(self, dtype: str) -> Program:
        """The same instructions with constants and arithmetic in another dtype, in loop bodies too."""
        if dtype not in DTYPES:
            raise ProgramError(f"dtype must be one of {', '.join(DTYPES)}, not {dtype!r}")
        if dtype == self.dtype:
            return self
        return replace(self.map_bodies(lambda body: body.with_dtype(dtype)), dtype=dtype)

    def map_bodies(self, change: Callable[[Program], Program], only: tuple[str, ...] = WITH_BODY) -> Program:
        """The same program with `change` applied to every body of a loop or map; itself where there is none."""
        if not any(op in only for op, _, _ in self.code):
            return self
        code = tuple(
            Instruction(op, args, replace(attr, body=change(attr.body))) if op in only else Instruction(op, args, attr)
            for op, args, attr in self.code
        )
        return replace(self, code=code)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of everything that gives the program its meaning and interface, as hexadecimal text."""
        h = hashlib.sha256()
        h.update(repr((self.name, self.inputs, self.outputs, self.dtype, self.results)).encode())
        h.update("\n".join(op for op, _, _ in self.code).encode())
        flat = array("q")
        for _, args, _ in self.code:
            flat.append(len(args))
            flat.extend(args)
        h.update(flat.tobytes())
        for op, _, attr in self.code:
            if op == "const":
                h.update(struct.pack("<?d", isinstance(attr, bool), attr))
            elif isinstance(attr, BoundedLoop):
                h.update(
                    f"{attr.states} {attr.limit}{f' newton {attr.newton}' if attr.newton else ''} {attr.body.digest}".encode()
                )
            elif isinstance(attr, RowMap):
                h.update(f"map {attr.count} {attr.body.digest}".encode())
            elif attr is not None:
                h.update(repr(attr).encode())
        return h.hexdigest()


_GIVES = {
    **{name: operation.gives for name, operation in OPERATIONS.items()},
    "loop": "loop",
    "map": "loop",
    "input": REAL,
    "result": REAL,
}
