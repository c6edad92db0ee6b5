"""Programs: flat lists of instructions on scalars, with named input and output arrays.

A value is the position of the instruction that computes it. Programs are immutable and compared by digest; a
pass returns a new one.
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

from linkwork.compiler.ir.operations import BOOL, OPERATIONS, REAL, WITH_BODY
from linkwork.compiler.ir.text import to_text
from linkwork.errors import ProgramError
from linkwork.lazy import cached_property

DTYPES = ("float64", "float32")
T = TypeVar("T")


class Array(NamedTuple):
    """Named array of a program's interface; `shape` is () for a scalar."""

    name: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of scalars."""
        return math.prod(self.shape)


def signature(inputs: Iterable[Array], outputs: Iterable[Array]) -> str:
    """Return the core dimensions of arrays as in NumPy's generalised ufuncs: "(7),(7)->(7,7)"."""

    def dims(array: Array) -> str:
        return f"({','.join(map(str, array.shape))})"

    return f"{','.join(map(dims, inputs))}->{','.join(map(dims, outputs))}"


class Instruction(NamedTuple):
    """Operation, its operands, and its attribute (see `operations.STRUCTURAL`; None for plain operations)."""

    op: str
    args: tuple[int, ...] = ()
    attr: Any = None


@dataclass(frozen=True)
class BoundedLoop:
    """Loop that runs `body` on its state until the condition `again` is false, at most `limit` times.

    The loop instruction takes the initial state, then the values that the body reads from outside. The body
    has the inputs `state` and `outer` and the outputs `state` and `again` (a bool). It runs at least once. A
    row whose `again` was false keeps its state while other rows of the batch continue: rows never see each
    other.

    If `newton` is nonzero, the loop is Newton's method and its derivative is that of the solution: the first
    `newton` states, followed by `newton` states of the next iterate, if there are any. The linearised step at
    the solution must not depend on the part of the iterate that it solves for (see `functions.loop`).

    If the loop is `skippable`, the last state is 1 in rows that enter it and 0 in others, where the first
    turn changes no state and is the last: targets may skip the loop if no row of a batch enters.
    """

    body: Program
    states: int
    limit: int
    newton: int = 0
    skippable: bool = False


@dataclass(frozen=True)
class RowMap:
    """Map that runs `body` on each of `count` rows of an array, and on values shared by all rows.

    The map instruction takes the rows, one after the other, then the shared values. The body has the inputs
    `row` and `shared` and the output `row`. Rows are independent: a target may run them in any order, side by
    side, or as a loop of short code.
    """

    body: Program
    count: int

    @property
    def row_size(self) -> int:
        """Number of values in an input row."""
        return self.body.inputs[0].size

    @property
    def result_size(self) -> int:
        """Number of values in an output row."""
        return self.body.outputs[0].size

    @property
    def states(self) -> int:
        """Number of output values: `result` k is element k % result_size of row k // result_size."""
        return self.count * self.result_size

    def rows(self, args: Sequence[T]) -> list[Sequence[T]]:
        """Return the operands of each input row."""
        return [args[k * self.row_size : (k + 1) * self.row_size] for k in range(self.count)]

    def shared(self, args: Sequence[T]) -> Sequence[T]:
        """Return the operands shared by all rows."""
        return args[self.count * self.row_size :]


@dataclass(frozen=True, eq=False)
class Program:
    """Function from named input arrays to named output arrays, over scalars of one dtype.

    Attributes
    ----------
    name : str
        Name of the function.
    inputs, outputs : tuple of Array
        Names and shapes of the arrays.
    code : tuple of Instruction
        Flat list of instructions; the value of an instruction is its position.
    results : tuple of tuple of int
        ``results[k]`` lists the values of ``outputs[k]`` in row-major order.
    dtype : {"float64", "float32"}
        Type of all real values.
    cuts : tuple of int
        Positions at which targets may begin a new function; no effect on results.
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
        """REAL or BOOL for every value; "loop" for a loop or map instruction, which is not a value itself."""
        return [
            _KIND_OF_RESULT.get(op) or (BOOL if isinstance(attr, bool) else REAL) for op, _, attr in self.code
        ]

    @property
    def parts(self) -> list[range]:
        """Positions of each function of a program with cuts; one range for a program without cuts."""
        return [range(a, b) for a, b in pairwise([0, *self.cuts, len(self.code)])]

    def result_values(self) -> Iterator[int]:
        """Yield every value that an output needs, output after output."""
        for values in self.results:
            yield from values

    def with_dtype(self, dtype: str) -> Program:
        """Return the program with constants and arithmetic in another dtype, in loop bodies too."""
        if dtype not in DTYPES:
            raise ProgramError(f"dtype: expected one of {', '.join(DTYPES)}, got {dtype!r}")
        if dtype == self.dtype:
            return self
        return replace(self.map_bodies(lambda body: body.with_dtype(dtype)), dtype=dtype)

    def map_bodies(
        self, transform: Callable[[Program], Program], only: tuple[str, ...] = WITH_BODY
    ) -> Program:
        """Return the program with `transform` applied to the bodies of loops and maps; itself without any."""
        if not any(op in only for op, _, _ in self.code):
            return self
        code = tuple(
            Instruction(op, args, replace(attr, body=transform(attr.body)))
            if op in only
            else Instruction(op, args, attr)
            for op, args, attr in self.code
        )
        return replace(self, code=code)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all that determines results and interface of the program, in hexadecimal."""
        sha = hashlib.sha256()
        sha.update(repr((self.name, self.inputs, self.outputs, self.dtype, self.results)).encode())
        sha.update("\n".join(op for op, _, _ in self.code).encode())
        operands = array("q")
        for _, args, _ in self.code:
            operands.append(len(args))
            operands.extend(args)
        sha.update(operands.tobytes())
        for op, _, attr in self.code:
            if op == "const":
                sha.update(struct.pack("<?d", isinstance(attr, bool), attr))
            elif isinstance(attr, BoundedLoop):
                newton = f" newton {attr.newton}" if attr.newton else ""
                skippable = " skippable" if attr.skippable else ""
                sha.update(f"{attr.states} {attr.limit}{newton}{skippable} {attr.body.digest}".encode())
            elif isinstance(attr, RowMap):
                sha.update(f"map {attr.count} {attr.body.digest}".encode())
            elif attr is not None:
                sha.update(repr(attr).encode())
        return sha.hexdigest()


_KIND_OF_RESULT = {
    **{name: operation.result_kind for name, operation in OPERATIONS.items()},
    "loop": "loop",
    "map": "loop",
    "input": REAL,
    "result": REAL,
}
