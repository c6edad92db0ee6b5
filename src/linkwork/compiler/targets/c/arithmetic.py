"""C text that detects by arithmetic compiler flags that change results and that nothing else reports."""

from __future__ import annotations

from string import Template

from linkwork.compiler.targets.c.helpers import Real

_TEXT = Template("""\
/* Whether flags of this compilation change arithmetic. The compiler does not know volatile numbers. */
static int lw_same$f($real got, $real want) {
    return memcmp(&got, &want, sizeof got) == 0;
}

static int lw_arithmetic$f(void) {
    static volatile $real lw_known[] = {
        $one, $three, $big, $near, $tiny, -$zero, INFINITY, NAN, $five, $seven};
    const $real one = lw_known[0], three = lw_known[1], big = lw_known[2];
    const $real near = lw_known[3], tiny = lw_known[4];
    const $real minus_zero = lw_known[5], infinite = lw_known[6], nan = lw_known[7];
    const $real five = lw_known[8], seven = lw_known[9];
    const $real again = lw_known[3]; /* another read: the two products are not one */
    const volatile $real product = near * near, third = one / three;
    const volatile $real fifth = five / three, seventh = seven / three;
    int bad = 0;
    if (!lw_same$f((one + big) - big, $zero) || !lw_same$f((big + one) - big, $zero) ||
        !lw_same$f(big * (one / big), one)) {
        bad++;
        printf("flags change arithmetic: sums or products are reordered (-fassociative-math)\\n");
    }
    if (!lw_same$f(five / $three, $fifth) || !lw_same$f(third, $third) ||
        !lw_same$f(fifth, $fifth) || !lw_same$f(seventh, $seventh)) {
        bad++;
        printf("flags change arithmetic: divisions are not rounded once (-freciprocal-math)\\n");
    }
    if (!lw_same$f(minus_zero + $zero, $zero) || !lw_same$f($zero - (one - one), $zero) ||
        !lw_same$f(minus_zero * one, -$zero)) {
        bad++;
        printf("flags change arithmetic: the sign of zero is lost (-fno-signed-zeros)\\n");
    }
    if (nan == nan || !(nan != nan) || infinite - infinite == $zero || !(infinite > big) ||
        nan * $zero == $zero) {
        bad++;
        printf("flags change arithmetic: NaN and infinities are disabled (-ffinite-math-only)\\n");
    }
    if (!lw_same$f(near * again - product, $zero)) {
        bad++;
        printf("flags change arithmetic: a * b + c is rounded once (-ffp-contract=fast)\\n");
    }
    if (!(tiny * $half > $zero)) {
        bad++;
        printf("flags change arithmetic: subnormal numbers are zero\\n");
    }
    if (!lw_same$f(one + $above, $next) || !lw_same$f(one + $below, one)) {
        bad++;
        printf("flags change arithmetic: sums are not rounded to nearest\\n");
    }
    return bad;
}
""")


def arithmetic_text(real: Real) -> str:
    """Return the C function `lw_arithmetic`, which counts the ways in which flags change results.

    For float32 its name is `lw_arithmeticf`.
    """
    unit = 2.0**-real.fraction  # from 1 to the next number
    numbers = {
        "zero": 0.0,
        "half": 0.5,
        "one": 1.0,
        "three": 3.0,
        "five": 5.0,
        "seven": 7.0,
        "third": 1.0 / 3.0,
        "fifth": 5.0 / 3.0,
        "seventh": 7.0 / 3.0,
        "big": 2.0 ** (real.fraction + 5),
        "near": 1.0 + 2.0 ** -(real.fraction // 2 + 2),
        "tiny": 2.0 ** (1 - real.bias),
        "above": 0.75 * unit,
        "next": 1.0 + unit,
        "below": 0.25 * unit,
    }
    return _TEXT.substitute(
        real=real.c, f=real.suffix, **{name: real.hexadecimal(real.round(x)) for name, x in numbers.items()}
    )
