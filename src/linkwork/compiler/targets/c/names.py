"""Names that are safe in C and in C++ code that includes a header: no keyword, macro or library function."""

from __future__ import annotations

import re
from collections.abc import Iterable

from linkwork.errors import TargetError


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


KEYWORDS = _words(
    """
    auto break case char const continue default do double else enum extern float for goto if inline int long
    register restrict return short signed sizeof static struct switch typedef union unsigned void volatile
    while alignas alignof and and_eq asm bitand bitor bool catch char16_t char32_t char8_t class co_await
    co_return co_yield compl concept const_cast consteval constexpr constinit decltype delete dynamic_cast
    explicit export false friend mutable namespace new noexcept not not_eq nullptr operator or or_eq private
    protected public reinterpret_cast requires static_assert static_cast template this thread_local throw true
    try typeid typename typeof typeof_unqual using virtual wchar_t xor xor_eq I main unix linux i386 near far
    small errno stdin stdout stderr complex imaginary noreturn signbit isnan isinf
    """
)

_MATH = _words(
    """
    acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh drem erf erfc exp exp10 exp2 expm1 fabs
    fdim finite floor fma fmax fmin fmod frexp gamma hypot ilogb j0 j1 jn ldexp lgamma llrint llround log
    log10 log1p log2 logb lrint lround modf nan nearbyint nextafter nexttoward pow pow10 remainder remquo rint
    round roundeven scalb scalbln scalbn significand sin sincos sinh sqrt tan tanh tgamma trunc y0 y1 yn cabs
    cacos cacosh carg casin casinh catan catanh ccos ccosh cexp cimag clog conj cpow cproj creal csin csinh
    csqrt ctan ctanh
    """
)

# Names that the C library or the compiler declares.
LIBRARY = _words(
    """
    abort abs alloca asctime assert atexit atof atoi atol atoll bcmp bcopy bsearch bzero calloc clearerr clock
    ctermid ctime dcgettext dgettext difftime div dprintf execl execle execlp execv execve execvp exit
    explicit_bzero fclose fdopen feof ferror fflush ffs ffsl ffsll fgetc fgetpos fgets fileno flockfile
    fmemopen fopen fork fprintf fputc fputs fread free freopen fscanf fseek fseeko fsetpos ftell ftello
    ftrylockfile funlockfile fwrite getc getchar getdelim getenv getline gets gettext getw gmtime imaxabs
    imaxdiv index isalnum isalpha isascii isblank iscntrl isdigit isgraph isinff isinfl islower isnanf isnanl
    isprint ispunct isspace isupper iswalnum isxdigit labs ldiv lgamma_r llabs lldiv localeconv localtime
    longjmp malloc mblen mbstowcs mbtowc memalign memccpy memchr memcmp memcpy memmove mempcpy memset mktime
    open_memstream pclose perror popen posix_memalign printf putc putchar puts putw qsort raise rand read
    realloc remove rename renameat rewind rindex scanf setbuf setbuffer setjmp setlinebuf setlocale setvbuf
    signal signgam snprintf sprintf srand sscanf stpcpy stpncpy strcasecmp strcat strchr strcmp strcoll strcpy
    strcspn strdup strerror strerror_r strfmon strftime strlen strncasecmp strncat strncmp strncpy strndup
    strnlen strpbrk strrchr strsep strsignal strspn strstr strtod strtof strtok strtok_r strtol strtold
    strtoll strtoul strtoull strxfrm system tempnam time tmpfile tmpnam toascii tolower toupper ungetc va_arg
    va_copy va_end va_start vdprintf vfprintf vfscanf vprintf vscanf vsnprintf vsprintf vsscanf wcstombs
    wctomb write
    """
) | frozenset(base + suffix for base in _MATH for suffix in ("", "f", "l"))

# NAME.h must not hide a header of the C library.
HEADERS = _words(
    """
    assert complex ctype errno features fenv float inttypes iso646 limits locale math memory sched setjmp
    signal stdalign stdarg stdatomic stdbool stddef stdint stdio stdlib stdnoreturn string strings tgmath
    threads time uchar wchar wctype
    """
)

# Macros by convention, and names used by generated code.
_RESERVED = re.compile(
    r"[A-Z][A-Z0-9_]*[A-Z0-9]|s|n|sqrtf?|fmaf?|t\d+|state\d*|outer\d*|lw_.*[^_]|.*_(part|loop)\d+"
)


def array_names(names: Iterable[str], functions: Iterable[str]) -> list[str]:
    """Return distinct C parameter names of a function's arrays, none a keyword or a function name."""
    taken = set(functions)
    out = []
    for name in names:
        safe = _suffix(name, taken | KEYWORDS)
        taken.add(safe)
        out.append(safe)
    return out


def function_names(names: Iterable[str]) -> list[str]:
    """Return distinct names of a library's functions, distinct as upper-case macros too."""
    taken: set[str] = set()
    out = []
    for name in names:
        safe = plain_name = function_name(name)
        number = 1
        while safe.upper() in taken:
            number += 1
            safe = f"{plain_name}_{number}"
        taken.add(safe.upper())
        out.append(safe)
    return out


def function_name(name: str) -> str:
    """Return the name of a C function and its files; raise `TargetError` if it is not an identifier."""
    if not (isinstance(name, str) and name.isidentifier() and name.isascii()):
        raise TargetError(f"name of a C function: expected an ASCII identifier, got {name!r}")
    return _suffix(name, KEYWORDS | LIBRARY | HEADERS)


def _suffix(name: str, taken: Iterable[str]) -> str:
    if name.startswith("_"):  # reserved for the compiler
        name = "u" + name
    while name in taken or _RESERVED.fullmatch(name):
        name += "_"
    return name
