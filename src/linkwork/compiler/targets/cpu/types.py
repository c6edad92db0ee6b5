"""LLVM types and constants of a program's scalars, for any number of lanes."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from linkwork.compiler.ir.semantics import round_to_float32
from linkwork.lazy import cached_property


@dataclass(frozen=True)
class Types:
    """Reals, conditions and integers of `lanes` states side by side; plain scalars for one lane."""

    dtype: str
    lanes: int

    @cached_property
    def item(self) -> int:
        """Bytes of one real of one state."""
        return 8 if self.dtype == "float64" else 4

    @cached_property
    def bytes(self) -> int:
        """Bytes of one real of all lanes."""
        return self.item * self.lanes

    @cached_property
    def fraction(self) -> int:
        """Bits of the fraction field."""
        return 52 if self.dtype == "float64" else 23

    @cached_property
    def bias(self) -> int:
        """Bias of the exponent field."""
        return 1023 if self.dtype == "float64" else 127

    @cached_property
    def scalar(self) -> str:
        return "double" if self.dtype == "float64" else "float"

    @cached_property
    def real(self) -> str:
        return self._wide(self.scalar)

    @cached_property
    def integer(self) -> str:
        return self._wide(f"i{8 * self.item}")

    @cached_property
    def condition(self) -> str:
        return self._wide("i1")

    @cached_property
    def suffix(self) -> str:
        """Suffix of the names of intrinsics on reals."""
        scalar = f"f{8 * self.item}"
        return scalar if self.lanes == 1 else f"v{self.lanes}{scalar}"

    @cached_property
    def attributes(self) -> str:
        """Definition of the attributes of functions on these types: #0, and #1 for those without a stack.

        Spills of wide registers would cross cache lines unless the stack is aligned.
        """
        width = max(128, 8 * self.bytes)
        vectors = f'nounwind "prefer-vector-width"="{width}" "min-legal-vector-width"="{width}"'
        alignment = max(16, self.bytes)
        return f"attributes #0 = {{ {vectors} alignstack={alignment} }}\nattributes #1 = {{ {vectors} }}\n"

    def constant(self, number: float | bool) -> str:
        """Return a constant in all lanes."""
        if isinstance(number, bool):
            return self._splat("i1", "true" if number else "false")
        # LLVM spells constants of both dtypes by the bits of the double of the same value
        rounded = number if self.dtype == "float64" else round_to_float32(number)
        bits = struct.unpack("<Q", struct.pack("<d", rounded))[0]
        return self._splat(self.scalar, f"0x{bits:016X}")

    def integer_constant(self, number: int) -> str:
        """Return an integer constant in all lanes."""
        return self._splat(f"i{8 * self.item}", str(number))

    def _wide(self, scalar: str) -> str:
        return scalar if self.lanes == 1 else f"<{self.lanes} x {scalar}>"

    def _splat(self, scalar: str, text: str) -> str:
        return text if self.lanes == 1 else f"splat ({scalar} {text})"
