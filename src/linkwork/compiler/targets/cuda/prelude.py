"""Common CUDA text of all kernels: number literals, operations, and moves between memories.

Operations are intrinsics that round once and that no compiler fuses. A warp moves a chunk of a row together:
neighbouring threads move neighbouring elements through a buffer in shared memory, whose rows have an odd
length against bank conflicts. If LW_SHIM is defined, the features of a GPU are defined elsewhere (see
tests/helpers/cuda_shim.h).
"""

from __future__ import annotations

import math
import re
import struct
from dataclasses import dataclass
from string import Template

from linkwork.compiler.ir.semantics import round_to_float32

WARP = 32
TABLED = frozenset({"float64"})  # dtypes whose constants cost two more instructions as literals
# bytes that memory reads and writes at least, and that a warp moves at most, at once
SECTOR = 32
LINE = 128
ROW = 9  # row stride of a warp's buffer: a chunk and one more number


@dataclass(frozen=True)
class Real:
    """Names and format of a dtype in CUDA."""

    dtype: str
    c: str
    size: int  # bytes
    letter: str  # of intrinsics
    suffix: str  # of literals and of mathematical functions
    constraint: str  # of registers in assembly
    integer: str  # of the same size
    name: str  # of the integer in intrinsics that reinterpret bits
    type_name: str  # of the type in such intrinsics
    fraction: int
    bias: int

    def literal(self, number: float | bool) -> str:
        """Return an exact literal."""
        if isinstance(number, bool):
            return "true" if number else "false"
        x = round_to_float32(number) if self.size == 4 else float(number)
        if not math.isfinite(x):
            bits = ((2 * self.bias + 1) << self.fraction) | (int(math.isnan(x)) << (self.fraction - 1))
            sign = "-" if x < 0 else ""
            return f"({sign}__{self.name}_as_{self.type_name}({bits:#x}{'LL' if self.size == 8 else ''}))"
        text = re.sub(r"\.?0+p", "p", x.hex()) + self.suffix
        return f"({text})" if text.startswith("-") else text


class Constants:
    """Constants of a text: literals that fit an instruction, and a table in constant memory for others."""

    def __init__(self, real: Real) -> None:
        self.real = real
        self.table: dict[str, int] = {}  # literal -> its place in constant memory

    def text(self, number: float | bool) -> str:
        """Return the text of a constant where it is used."""
        real = self.real
        if real.dtype not in TABLED or isinstance(number, bool) or _fits_instruction(number):
            return real.literal(number)
        return f"lw_c[{self.table.setdefault(real.literal(number), len(self.table))}]"

    def lines(self) -> list[str]:
        """Return the lines of the table."""
        return [f"LW_TABLE real lw_c[] = {{{', '.join(self.table)}}};"] if self.table else []


def _fits_instruction(number: float) -> bool:
    """Return whether the lower half of a double is zero, so that its upper half fits an instruction."""
    return struct.pack("<d", number)[:4] == bytes(4)


def ring(real: Real) -> int:
    """Return the numbers of a row in the ring buffer, if rows are written in whole sectors."""
    return (LINE + SECTOR) // real.size


REALS = {
    "float64": Real("float64", "double", 8, "d", "", "d", "long long", "longlong", "double", 52, 1023),
    "float32": Real("float32", "float", 4, "f", "f", "f", "int", "int", "float", 23, 127),
}


def expressions(real: Real) -> dict[str, str]:
    """Return the text of each operation over its arguments {0}, {1}, {2}."""
    d = real.letter
    f = real.suffix
    return {
        "add": f"__{d}add_rn({{0}}, {{1}})",
        "sub": f"__{d}sub_rn({{0}}, {{1}})",
        "mul": f"__{d}mul_rn({{0}}, {{1}})",
        "div": f"__{d}div_rn({{0}}, {{1}})",
        "neg": "(-{0})",
        "fma": f"__fma{f}_rn({{0}}, {{1}}, {{2}})",
        "sqrt": f"__{d}sqrt_rn({{0}})",
        "abs": f"fabs{f}({{0}})",
        "min": "({0} < {1} ? {0} : {1})",
        "max": "({0} > {1} ? {0} : {1})",
        "rint": f"rint{f}({{0}})",
        "pow2": "lw_pow2({0})",
        "exponent": "lw_exponent({0})",
        "lt": "({0} < {1})",
        "le": "({0} <= {1})",
        "eq": "({0} == {1})",
        "and": "({0} & {1})",
        "or": "({0} | {1})",
        "not": "(!{0})",
        "select": "({0} ? {1} : {2})",
        "pick": "(second ? {1} : {0})",
        "flip": "lw_flip({0}, lw_sign{attr})",
        "even": "LW_SHUFFLE({0}, lane & ~1)",
        "odd": "LW_SHUFFLE({0}, lane | 1)",
    }


_TEXT = Template("""\
typedef $c real;

#ifndef LW_SHIM
#define LW_FN static __device__ __forceinline__
#define LW_PART static __device__ __noinline__
#define LW_TABLE __constant__
#define LW_SHARED(name) extern __shared__ __align__(16) real name[]
#define LW_ADDRESS(p) (unsigned)__cvta_generic_to_shared(p)
typedef unsigned lw_slot; /* the address of a thread's first slot in shared memory; slots are offsets */
#define LW_DATA static __device__ const
#define LW_PUT(s, o, x) asm volatile("st.shared.$kind [%0+" #o "], %1;" :: "r"(s), "$constraint"(x))
#define LW_GET(s, o, x) asm volatile("ld.shared.$kind %0, [%1+" #o "];" : "=$constraint"(x) : "r"(s))
#define LW_SHUFFLE(x, from) __shfl_sync(0xffffffffu, x, from)
#define LW_COPY(to, from) \\
    asm volatile("cp.async.ca.shared.global [%0], [%1], $size;" :: "r"(LW_ADDRESS(to)), "l"(from) : "memory")
#define LW_COPY16(to, from) \\
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(LW_ADDRESS(to)), "l"(from) : "memory")
/* Begin to bring a sector of memory to the second cache. */
#define LW_SOON(from) asm volatile("prefetch.global.L2 [%0];" :: "l"(from))
/* Begin to write many bytes from shared memory: both begin at a multiple of 16, after a fence of each thread
that made them; LW_WRITTEN: wait until the bytes that this thread writes were read. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define LW_BULK 1
#define LW_FENCE() asm volatile("fence.proxy.async.shared::cta;" ::: "memory")
#define LW_WRITE(to, from, bytes) \\
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2; cp.async.bulk.commit_group;" \\
        :: "l"(to), "r"(LW_ADDRESS(from)), "r"(bytes) : "memory")
#define LW_WRITTEN() asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory")
#else
#define LW_BULK 0
#define LW_FENCE()
#define LW_WRITE(to, from, bytes)
#define LW_WRITTEN()
#endif
#define LW_COMMIT() asm volatile("cp.async.commit_group;" ::: "memory")
#define LW_ARRIVE(n) asm volatile("cp.async.wait_group %0;" :: "n"(n) : "memory")
/* The end of a basic block, at which the warps of a block wait for each other. */
#define LW_TOGETHER() __syncthreads()
/* Whether x is true in any thread of a block, which wait for each other. */
#define LW_ANY(x) __syncthreads_or(x)
/* The same by a branch that is never taken, and that the assembler drops. */
#define LW_BLOCK() if (rows == -1) asm volatile("")
#endif

/* 2^a for a whole number a, clamped to the exponents of normal numbers; NaN counts as the lowest */
LW_FN real lw_pow2(real a) {
    const real low = a > $lowest ? a : $lowest;
    const real k = low < $highest ? low : $highest;
    return __${name}_as_$own((($integer)rint$suffix(k) + $bias) << $fraction);
}

/* the unbiased field of the exponent */
LW_FN real lw_exponent(real x) {
    return (real)(((__${own}_as_$name(x) >> $fraction) & $field) - $bias);
}

/* Begin to read `count` elements of the 32 rows of a warp into its buffer; W >= `count` is a power of two. */
template <int W, int count> LW_FN void lw_fetch(const real *from, long long step, int lane, real *buffer) {
    const int c = lane & (W - 1), r = lane / W;
    from += r * step + c;
#pragma unroll
    for (int i = 0; i < W; i++) {
        if (count == W || c < count) {
            LW_COPY(buffer + (r + i * ($warp / W)) * $row + c, from + i * ($warp / W) * step);
        }
    }
    LW_COMMIT();
}

/* Begin to read crossing values of a thread; the numbers of a warp lie side by side. */
LW_FN void lw_copy(real *to, const real *from) {
    LW_COPY(to, from);
}
template <int... slots> LW_FN void lw_read(const real *from, real *buffer) {
    int k = 0;
    (lw_copy(buffer + $warp * k++, from + slots * $warp), ...);
    LW_COMMIT();
}

/* Write such elements from the buffer to the rows of an output; so many of the W moves stand in the code. */
template <int W, int count, int row, int unrolled = W>
LW_FN void lw_flush(real *to, long long step, int lane, const real *buffer) {
    const int c = lane & (W - 1), r = lane / W;
    to += r * step + c;
    __syncwarp();
#pragma unroll unrolled
    for (int i = 0; i < W; i++) {
        if (count == W || c < count) {
            to[i * ($warp / W) * step] = buffer[(r + i * ($warp / W)) * row + c];
        }
    }
}

/* Write whole rows that lie one after the other. */
template <int count, int row> LW_FN void lw_flush_rows(real *to, int lane, const real *buffer) {
    __syncwarp();
#pragma unroll
    for (int i = 0; i < count; i++) {
        const int n = lane + i * $warp;
        to[n] = buffer[n / count * row + n % count];
    }
}

/* Write elements so that sectors of memory are written whole: elements behind the last whole sector of a row
wait in the buffer, which is a ring, until the next chunk is written. `base`: where the chunk begins there.
`first`: nothing waits from before; `last`: nothing is left; not both. */
template <int W, int count, int base, bool first, bool last>
LW_FN void lw_flush_ring(real *to, long long step, int lane, const real *buffer) {
    const int sector = $sector / sizeof(real), ring = $line / sizeof(real) + sector, row = ring + 1;
    const int c = lane & (W - 1), r = lane / W;
    to += r * step + c;
    buffer += r * row;
    __syncwarp();
#pragma unroll 1
    for (int i = 0; i < W / 4; i++) { /* rows that are eight apart begin at the same place of a sector */
        const int waits = ((int)((size_t)to / sizeof(real)) - c) & (sector - 1);
        int from = base + c - waits, behind = base + c + count - waits;
        from += from < 0 ? ring : 0;
        from -= from < ring ? 0 : ring;
        behind += behind < 0 ? ring : 0;
        behind -= behind < ring ? 0 : ring;
        const bool mine = (count == W || c < count) && !(first && c < waits);
#pragma unroll
        for (int m = 0; m < 4; m++) {
            if (mine) {
                to[8 * m * step - waits] = buffer[8 * m * row + from];
            }
            if (last && c < waits) {
                to[8 * m * step + count - waits] = buffer[8 * m * row + behind];
            }
        }
        to += $warp / W * step;
        buffer += $warp / W * row;
    }
}

/* The same for two threads a state, 16 rows a warp. P = 2: elements of the second one are `other` farther. */
template <int W, int count, int P>
LW_FN void lw_fetch_pairs(const real *from, long long step, int other, int lane, real *buffer) {
    const int c = lane & (W - 1);
#pragma unroll
    for (int i = 0; i < (W * P + 1) / 2; i++) {
        const int u = lane / W + i * ($warp / W);
        if ((count == W || c < count) && (W * P > 1 || u < $warp / 2)) {
            LW_COPY(buffer + u * $row + c, from + (u / P) * step + (u % P) * other + c);
        }
    }
    LW_COMMIT();
}

template <int W, int count, int P>
LW_FN void lw_flush_pairs(real *to, long long step, int other, int lane, const real *buffer) {
    const int c = lane & (W - 1);
    __syncwarp();
#pragma unroll
    for (int i = 0; i < (W * P + 1) / 2; i++) {
        const int u = lane / W + i * ($warp / W);
        if ((count == W || c < count) && (W * P > 1 || u < $warp / 2)) {
            to[(u / P) * step + (u % P) * other + c] = buffer[u * $row + c];
        }
    }
}

/* The value, negated where the mask has the bit of the sign */
LW_FN real lw_flip(real x, $integer mask) {
    return __${name}_as_$own(__${own}_as_$name(x) ^ mask);
}

/* The value, negated where `turned` is 1 and not 0 */
LW_FN real lw_turned(real x, int turned) {
    return lw_flip(x, ($integer)turned << (8 * sizeof(real) - 1));
}
""")


def prelude(real: Real) -> str:
    """Return the start of every kernel's text."""
    return _TEXT.substitute(
        c=real.c,
        kind="f32" if real.size == 4 else "f64",
        constraint=real.constraint,
        size=real.size,
        lowest=real.literal(1.0 - real.bias),
        highest=real.literal(float(real.bias)),
        name=real.name,
        own=real.type_name,
        integer=real.integer,
        suffix=real.suffix,
        bias=real.bias,
        fraction=real.fraction,
        field=2 * real.bias + 1,
        warp=WARP,
        row=ROW,
        sector=SECTOR,
        line=LINE,
    )
