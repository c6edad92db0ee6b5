"""C text beneath every exported function: number literals, helpers that C lacks, and flag guards.

The helpers reach the bits of a number through a union, which every compiler turns into a register move. Each
follows the function of the same name in `ir.semantics`. Those of float end in f, as in the C library, so that
one file can contain both types.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from string import Template

import numpy as np

from linkwork.compiler.targets.c.freestanding import FREESTANDING


@dataclass(frozen=True)
class Real:
    """Properties of a dtype in C."""

    dtype: str
    c: str  # the C type
    size: int  # bytes
    suffix: str  # of literals and of functions of the C library
    bits: int
    fraction: int  # bits of the fraction
    bias: int  # of the exponent
    eval_methods: tuple[int, ...]  # values of FLT_EVAL_METHOD under which this type is computed in itself

    def literal(self, number: float | bool) -> str:
        """Return a constant as exact C text.

        Conditions are 1 or 0, infinities and NaN come from their bits.
        """
        if isinstance(number, bool):
            return str(int(number))
        x = self.round(number)
        if not math.isfinite(x):
            field = (2 * self.bias + 1) << self.fraction
            sign = int(x < 0) << (self.bits - 1)
            quiet = int(math.isnan(x)) << (self.fraction - 1)
            return f"lw_from_bits{self.suffix}({self.bits_literal(field | sign | quiet)})"
        text = self.hexadecimal(x)
        return f"({text})" if text.startswith("-") else text

    def hexadecimal(self, x: float) -> str:
        """Return a finite number as a hexadecimal literal without redundant zeros."""
        return re.sub(r"\.?0+p", "p", x.hex()) + self.suffix

    def bits_literal(self, bits: int) -> str:
        """Return an unsigned integer literal as wide as the dtype."""
        return f"UINT{self.bits}_C({bits:#x})"

    def round(self, number: float) -> float:
        """Return the number rounded to the dtype."""
        with np.errstate(over="ignore"):
            return float(np.dtype(self.dtype).type(number))


REALS = {
    "float64": Real("float64", "double", 8, "", 64, 52, 1023, (0, 1, 16)),
    "float32": Real("float32", "float", 4, "f", 32, 23, 127, (0, 16)),
}

# helper -> (the helpers it calls, its text); callees stand before their callers
_HELPERS: dict[str, tuple[tuple[str, ...], str]] = {
    "to_bits": (
        (),
        """
static inline $uint lw_to_bits$f($real x) {
    const union { $real real; $uint bits; } both = {x};
    return both.bits;
}
""",
    ),
    "from_bits": (
        (),
        """
static inline $real lw_from_bits$f($uint bits) {
    union { $real real; $uint bits; } both;
    both.bits = bits;
    return both.real;
}
""",
    ),
    "fma": (
        (),
        """
/* GCC turns -fma(a, b, c) into fma(-a, b, -c), which has the other sign where the sum is an exact zero. The
   barrier hides the one from the other; it costs nothing, but GCC loses it where it makes vectors (see the
   pragma above). */
static inline $real lw_fma$f($real a, $real b, $real c) {
#if defined(__clang__) || !defined(__GNUC__)
    return fma$f(a, b, c);
#elif __GNUC__ >= 12
    return __builtin_assoc_barrier(fma$f(a, b, c));
#else
    $real sum = fma$f(a, b, c);
#if defined(__SSE2__)
    __asm__("" : "+x"(sum));
#elif defined(__aarch64__)
    __asm__("" : "+w"(sum));
#else
    __asm__("" : "+m"(sum));
#endif
    return sum;
#endif
}
""",
    ),
    "abs": (
        ("to_bits", "from_bits"),
        """
static inline $real lw_abs$f($real x) {
    return lw_from_bits$f(lw_to_bits$f(x) & $magnitude);
}
""",
    ),
    "min": (
        (),
        """
static inline $real lw_min$f($real a, $real b) {
    return a < b ? a : b;
}
""",
    ),
    "max": (
        (),
        """
static inline $real lw_max$f($real a, $real b) {
    return a > b ? a : b;
}
""",
    ),
    "rint": (
        ("to_bits", "from_bits"),
        """
/* From 2^$fraction on, numbers are whole and adding rounds to whole ones; the sign is set to keep -0. */
static inline $real lw_rint$f($real x) {
    const $uint bits = lw_to_bits$f(x);
    const $real size = lw_from_bits$f(bits & $magnitude);
    const $real whole = (size + $whole) - $whole;
    return size < $whole ? lw_from_bits$f(lw_to_bits$f(whole) | (bits & ~$magnitude)) : x;
}
""",
    ),
    "pow2": (
        ("rint", "from_bits"),
        """
static inline $real lw_pow2$f($real a) {
    const $real low = a > $lowest ? a : $lowest;
    const $real k = low < $highest ? low : $highest;
    return lw_from_bits$f(($uint)(($int)lw_rint$f(k) + $bias) << $fraction);
}
""",
    ),
    "exponent": (
        ("to_bits",),
        """
static inline $real lw_exponent$f($real x) {
    return ($real)(($int)((lw_to_bits$f(x) >> $fraction) & $field) - $bias);
}
""",
    ),
}


_MAYBE_UNUSED = """
#if defined(__GNUC__)
__attribute__((unused))
#endif
"""


def helper_text(real: Real, names: Iterable[str], *, freestanding: bool = False) -> str:
    """Return the text of the named helpers and those they call; without a C library also fma and sqrt."""
    available = {**_HELPERS, **FREESTANDING[real.dtype]} if freestanding else _HELPERS
    needed: set[str] = set()
    pending = list(names)
    while pending:
        name = pending.pop()
        if name not in needed:
            needed.add(name)
            pending.extend(available[name][0])
    words = {
        "real": real.c,
        "f": real.suffix,
        "uint": f"uint{real.bits}_t",
        "int": f"int{real.bits}_t",
        "magnitude": real.bits_literal((1 << (real.bits - 1)) - 1),
        "infinite": real.bits_literal((2 * real.bias + 1) << real.fraction),
        "quiet": real.bits_literal((4 * real.bias + 3) << (real.fraction - 1)),
        "hidden": real.bits_literal(1 << real.fraction),
        "whole": real.literal(2.0**real.fraction),
        "fraction": real.fraction,
        "field": real.bits_literal(2 * real.bias + 1),
        "bias": real.bias,
        "lowest": real.literal(1.0 - real.bias),
        "highest": real.literal(float(real.bias)),
    }
    texts = {name: text for name, (_, text) in available.items() if name in needed}
    if freestanding:  # processor instructions may leave them unused
        for name in {"to_bits", "from_bits"} & set(texts):
            texts[name] = _MAYBE_UNUSED + texts[name].lstrip()
    return "".join(Template(text).substitute(words) for text in texts.values())


_GUARDS = Template("""\
/* The bits of the results are part of the contract, so flags that let a compiler change them are refused. */
#if defined(__FAST_MATH__) || defined(__ASSOCIATIVE_MATH__) || defined(__RECIPROCAL_MATH__) || \\
    defined(__NO_SIGNED_ZEROS__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__)
#error "$name.c: compile this file without -ffast-math and its parts: they change the results"
#endif
$excess
/* No a * b + c may become one operation where the program rounds twice. GCC knows only its own pragma, and
   may make no vectors because it forgets a barrier in them: the sign of a negated fma that is zero would be
   wrong. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize ("fp-contract=off,no-tree-loop-vectorize,no-tree-slp-vectorize")
#else
#pragma STDC FP_CONTRACT OFF
#endif
""")


PART_TEXT = """
/* Inlining a part again would make compilation as slow as that of the uncut code. */
#if defined(__GNUC__)
#define LW_PART static __attribute__((noinline)) void
#else
#define LW_PART static void
#endif
"""


_EXCESS = Template("""\
#if $excess
#error "$name.c: this compiler computes $real with extra precision (FLT_EVAL_METHOD); on x86 use -mfpmath=sse"
#endif
""")


def guard_text(reals: Iterable[Real], name: str) -> str:
    """Return the preprocessor lines that keep a compiler from changing results."""
    excess_guards = ""
    for real in reals:
        excess = " && ".join(f"FLT_EVAL_METHOD != {k}" for k in real.eval_methods)
        excess_guards += _EXCESS.substitute(name=name, excess=excess, real=real.c)
    return _GUARDS.substitute(name=name, excess=excess_guards)


def wrap(items: Iterable[str], indent: str, width: int = 110) -> str:
    """Return items separated by commas on as many indented lines as needed."""
    lines: list[str] = []
    line = indent
    for item in items:
        if len(line) + len(item) > width and line != indent:
            lines.append(line.rstrip())
            line = indent
        line += item + ", "
    lines.append(line.rstrip(", "))
    return "\n".join(lines)
