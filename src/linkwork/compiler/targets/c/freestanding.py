"""C text of fma and sqrt without a C library: processor instructions, else integer arithmetic.

Instructions are written in assembly: some compilers turn `sqrt` and `fma` of C, built in or not, into library
calls at some optimisation levels. The integer arithmetic is correctly rounded, also among subnormal numbers,
as the instructions are.
"""

from __future__ import annotations

# by processor: the preprocessor's condition, and the instructions, by dtype
_X86_FMA = '__asm__("vfmadd231{kind} %2, %1, %0" : "+x"(c) : "x"(a), "x"(b));'
_X86_SQRT = '__asm__("sqrt{kind} %1, %0" : "=x"(root) : "x"(x));'
_AVX_SQRT = '__asm__("vsqrt{kind} %1, %1, %0" : "=x"(root) : "x"(x));'
_AARCH64_FMA = '__asm__("fmadd %{kind}0, %{kind}1, %{kind}2, %{kind}0" : "+w"(c) : "w"(a), "w"(b));'
_AARCH64_SQRT = '__asm__("fsqrt %{kind}0, %{kind}1" : "=w"(root) : "w"(x));'
_RISCV_FMA = '__asm__("fmadd.{kind} %0, %1, %2, %0" : "+f"(c) : "f"(a), "f"(b));'
_RISCV_SQRT = '__asm__("fsqrt.{kind} %0, %1" : "=f"(root) : "f"(x));'
_PROCESSORS = {
    "float64": {
        "fma": [
            ("defined(__FMA__)", _X86_FMA.format(kind="sd")),
            ("defined(__aarch64__)", _AARCH64_FMA.format(kind="d")),
            (
                "defined(__ARM_FEATURE_FMA) && (__ARM_FP & 8)",
                '__asm__("vfma.f64 %P0, %P1, %P2" : "+w"(c) : "w"(a), "w"(b));',
            ),
            ("defined(__riscv_flen) && __riscv_flen >= 64", _RISCV_FMA.format(kind="d")),
        ],
        "sqrt": [
            ("defined(__AVX__)", _AVX_SQRT.format(kind="sd")),
            ("defined(__SSE2__)", _X86_SQRT.format(kind="sd")),
            ("defined(__aarch64__)", _AARCH64_SQRT.format(kind="d")),
            ("defined(__ARM_FP) && (__ARM_FP & 8)", '__asm__("vsqrt.f64 %P0, %P1" : "=w"(root) : "w"(x));'),
            ("defined(__riscv_flen) && __riscv_flen >= 64", _RISCV_SQRT.format(kind="d")),
        ],
    },
    "float32": {
        "fma": [
            ("defined(__FMA__)", _X86_FMA.format(kind="ss")),
            ("defined(__aarch64__)", _AARCH64_FMA.format(kind="s")),
            (
                "defined(__ARM_FEATURE_FMA) && (__ARM_FP & 4)",
                '__asm__("vfma.f32 %0, %1, %2" : "+t"(c) : "t"(a), "t"(b));',
            ),
            ("defined(__riscv_flen) && __riscv_flen >= 32", _RISCV_FMA.format(kind="s")),
        ],
        "sqrt": [
            ("defined(__AVX__)", _AVX_SQRT.format(kind="ss")),
            ("defined(__SSE2__)", _X86_SQRT.format(kind="ss")),
            ("defined(__aarch64__)", _AARCH64_SQRT.format(kind="s")),
            ("defined(__ARM_FP) && (__ARM_FP & 4)", '__asm__("vsqrt.f32 %0, %1" : "=t"(root) : "t"(x));'),
            ("defined(__riscv_flen) && __riscv_flen >= 32", _RISCV_SQRT.format(kind="s")),
        ],
    },
}

_FMA64 = """
/* A number that is finite and not zero: its magnitude is m 2^e, with bit 52 of m set. */
static uint64_t lw_parts(double x, int *e) {
    uint64_t m = lw_to_bits(x) & $magnitude;
    *e = (int)(m >> 52) - 1075;
    if (*e > -1075) {
        return (m & UINT64_C(0xfffffffffffff)) | UINT64_C(0x10000000000000);
    }
    for (*e = -1074; !(m >> 52); m <<= 1) {
        (*e)--;
    }
    return m;
}

/* The bits of high and low shifted right by d >= 0; the last bit is set if any bit that is lost was set. */
static void lw_right(uint64_t *high, uint64_t *low, int d) {
    uint64_t lost = 0;
    if (d >= 128) {
        lost = *high | *low;
        *high = *low = 0;
    } else if (d >= 64) {
        lost = *low | (d > 64 ? *high << (128 - d) : 0);
        *low = *high >> (d - 64);
        *high = 0;
    } else if (d > 0) {
        lost = *low << (64 - d);
        *low = (*low >> d) | (*high << (64 - d));
        *high >>= d;
    }
    *low |= lost != 0;
}

/* high 2^e, with its top bit set, as a double: rounded to nearest, ties to even. */
static double lw_round(uint64_t high, int e, uint64_t sign) {
    const int field = e + 63 + 1023;
    uint64_t none = 0, kept;
    int drop = 11;
    if (field >= 2047) {
        return lw_from_bits(sign | $infinite);
    }
    if (field < 1) { /* subnormal */
        drop += 1 - field;
        if (drop > 63) {
            lw_right(&none, &high, drop - 63);
            drop = 63;
        }
    }
    kept = high >> drop;
    high &= (UINT64_C(1) << drop) - 1;
    none = UINT64_C(1) << (drop - 1); /* half of the last place */
    kept += high > none || (high == none && (kept & 1));
    return lw_from_bits(sign | ((field < 1 ? 0 : (uint64_t)(field - 1) << 52) + kept));
}

static double lw_integer_fma(double a, double b, double c) {
    const uint64_t infinite = $infinite;
    const uint64_t sa = lw_to_bits(a), sb = lw_to_bits(b), sc = lw_to_bits(c);
    uint64_t sign = (sa ^ sb) & ~$magnitude, high, low, other, rest = 0, m, n, middle;
    int e, f, d;
    if ((sa & infinite) == infinite || (sb & infinite) == infinite || a == 0 || b == 0) {
        return a * b + c;
    }
    if ((sc & infinite) == infinite) {
        return c;
    }
    if (c == 0) {
        return a * b;
    }
    m = lw_parts(a, &e);
    n = lw_parts(b, &f);
    e += f;
    middle = (m >> 32) * (n & UINT64_C(0xffffffff)) +
             ((m & UINT64_C(0xffffffff)) * (n & UINT64_C(0xffffffff)) >> 32);
    low = m * n;
    high = (m >> 32) * (n >> 32) + (middle >> 32) +
           (((middle & UINT64_C(0xffffffff)) + (m & UINT64_C(0xffffffff)) * (n >> 32)) >> 32);
    d = high >> 41 ? 20 : 21; /* the top bit of the product goes to bit 125, which leaves one for a carry */
    high = (high << d) | (low >> (64 - d));
    low <<= d;
    e -= d;
    other = lw_parts(c, &f) << 9;
    f -= 73;
    if (e >= f) {
        lw_right(&other, &rest, e - f);
    } else {
        lw_right(&high, &low, f - e);
        e = f;
    }
    if (((sc ^ sign) & ~$magnitude) == 0) {
        low += rest;
        high += other + (low < rest);
    } else {
        if (high < other || (high == other && low < rest)) { /* the smaller from the larger */
            m = high, high = other, other = m;
            m = low, low = rest, rest = m;
            sign ^= ~$magnitude;
        }
        high -= other + (low < rest);
        low -= rest;
        if (!(high | low)) {
            return 0.0;
        }
    }
    if (!high) {
        high = low;
        low = 0;
        e -= 64;
    }
    while (!(high >> 63)) {
        high = (high << 1) | (low >> 63);
        low <<= 1;
        e--;
    }
    return lw_round(high | (low != 0), e + 64, sign);
}
"""

_FMA32 = """
/* The product is exact as a double. The last bit of the sum tells whether
   it was too, so that rounding again is right. */
static float lw_integer_fmaf(float a, float b, float c) {
    const double product = (double)a * (double)b, sum = product + (double)c, part = sum - product;
    const double error = (product - (sum - part)) + ((double)c - part);
    union { double real; uint64_t bits; } both = {sum};
    if (error != 0 && !(both.bits & 1) &&
        (both.bits & UINT64_C(0x7ff0000000000000)) != UINT64_C(0x7ff0000000000000)) {
        both.bits += (error > 0) == (sum > 0) ? UINT64_C(1) : ~UINT64_C(0);
    }
    return (float)both.real;
}
"""

_SQRT = """
/* Two bits of the number give one bit of its root; a root never lies in the middle of two numbers. */
static $real lw_integer_sqrt$f($real x) {
    $uint m = lw_to_bits$f(x), root = 0, rest = 0;
    int e = (int)(m >> $fraction) - $bias - $fraction, k, p;
    if (m == 0 || m == ~$magnitude || m == $infinite) {
        return x;
    }
    if (m > $infinite) { /* negative or NaN */
        return lw_from_bits$f($quiet);
    }
    if (m < $hidden) {
        for (e = 1 - $bias - $fraction; m < $hidden; m <<= 1) {
            e--;
        }
    } else {
        m = (m & ($hidden - 1)) | $hidden;
    }
    k = $fraction + 2 + ((e - $fraction) & 1);
    for (p = 2 * ($fraction + 1); p >= 0; p -= 2) { /* of m 2^k, which has $fraction + 2 bits */
        rest = (rest << 2) | (p >= k ? (m >> (p - k)) & 3 : p == k - 1 ? (m << 1) & 3 : 0);
        root <<= 1;
        if (rest >= 2 * root + 1) {
            rest -= 2 * root + 1;
            root++;
        }
    }
    e = (e - k) / 2 + 1 + $fraction + $bias;
    return lw_from_bits$f((($uint)(e - 1) << $fraction) + (root >> 1) + (root & 1));
}
"""


def _with_instruction(dtype: str, operation: str, software: str) -> str:
    """Return `software` with an instruction in its place where the processor has one.

    LW_SOFTWARE disables instructions.
    """
    arguments, result = (("a", "b", "c"), "c") if operation == "fma" else (("x",), "root")
    parameters = ", ".join(f"$real {x}" for x in arguments)
    lines = [f"static inline $real lw_{operation}$f({parameters}) {{"]
    word = "#if"
    for condition, assembly in _PROCESSORS[dtype][operation]:
        lines.append(f"{word} defined(__GNUC__) && !defined(LW_SOFTWARE) && {condition}")
        lines += [] if result in arguments else [f"    $real {result};"]
        lines += [f"    {assembly}", f"    return {result};"]
        word = "#elif"
    lines += ["#else", f"    return lw_integer_{operation}$f({', '.join(arguments)});", "#endif", "}", ""]
    none = " && ".join(f"!({condition})" for condition, _ in _PROCESSORS[dtype][operation])
    needed = f"#if !defined(__GNUC__) || defined(LW_SOFTWARE) || ({none})"
    return "\n".join(["", needed + software + "#endif", "", *lines])


def _texts(dtype: str) -> dict[str, tuple[tuple[str, ...], str]]:
    fma = _FMA64 if dtype == "float64" else _FMA32
    bits = ("to_bits", "from_bits")
    return {
        "fma": (bits, _with_instruction(dtype, "fma", fma)),
        "sqrt": (bits, _with_instruction(dtype, "sqrt", _SQRT)),
    }


# by dtype, as the helpers: (the helpers it calls, its text)
FREESTANDING = {dtype: _texts(dtype) for dtype in _PROCESSORS}
