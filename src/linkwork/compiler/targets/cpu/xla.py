"""XLA custom call of a kernel as LLVM text: one function on a call frame of XLA's FFI.

XLA keeps buffers dense and row-major, so rows are adjacent. A buffer has the batch dimensions of the call,
then the array's own; or only its own, and then every row reads the same. The offsets are those of XLA's
header xla/ffi/api/c_api.h, whose layout is stable.
"""

from __future__ import annotations

from linkwork.compiler.ir.program import Array
from linkwork.compiler.targets.cpu.types import Types

# offsets in a call frame
EXTENSION = 8
API = 16
ARGUMENTS = 72
RESULTS = 112
# offsets in a buffer
DATA = 24
RANK = 32
DIMENSIONS = 40
METADATA = 1  # extension by which XLA queries the FFI version of a handler
# offsets in that extension
MAJOR = 24
MINOR = 28
TRAITS = 32
API_MINOR = 36  # offset of the interface's own version
VERSION = 3  # supported minor version
PAGE = 4096
LARGE = 1 << 22  # bytes from which NumPy requests huge pages
HUGE_PAGES = 14  # MADV_HUGEPAGE


def xla_text(
    inputs: tuple[Array, ...], outputs: tuple[Array, ...], dtype: str, loop: int, data: int, advise: int = 0
) -> str:
    """Return the function `xla` of a kernel with the addresses of its `loop`, its data and madvise.

    XLA allocates fresh memory for large results; page faults of 4 kB pages take longer than computing the
    numbers, so huge pages are requested unless `advise` is 0.
    """
    item = Types(dtype, 1).item
    count = len(inputs) + len(outputs)
    steps = [0] * count
    for array in inputs + outputs:
        core = []
        after = item
        for size in reversed(array.shape):
            core.append(after)
            after *= size
        steps += reversed(core)
    places = [("arguments", k, array) for k, array in enumerate(inputs)] + [
        ("results", k, array) for k, array in enumerate(outputs)
    ]
    operands = "\n".join(_operand(n, *place, item) for n, place in enumerate(places))
    fixed = "\n".join(
        f"%s{k} = getelementptr i64, ptr %steps, i64 {k}\nstore i64 {step}, ptr %s{k}"
        for k, step in enumerate(steps)
        if k >= count
    )
    first = len(inputs)
    asked = "\n".join(_ask(first + k, array.size * item, advise) for k, array in enumerate(outputs) if advise)
    return f"""
declare i32 @llvm.umin.i32(i32, i32)
define ptr @xla(ptr %frame) {{
entry:
%pointers = alloca [{count} x ptr]
%steps = alloca [{len(steps)} x i64]
%rows = alloca i64
{_METADATA_TEXT}run:
%argumentsp = getelementptr i8, ptr %frame, i64 {ARGUMENTS}
%arguments = load ptr, ptr %argumentsp
%resultsp = getelementptr i8, ptr %frame, i64 {RESULTS}
%results = load ptr, ptr %resultsp
{operands}
{fixed}
{_count_rows(len(inputs))}store i64 %n, ptr %rows
{asked}
%loop = inttoptr i64 {loop} to ptr
%data = inttoptr i64 {data} to ptr
call void %loop(ptr %pointers, ptr %rows, ptr %steps, ptr %data)
ret ptr null
}}
"""


_METADATA_TEXT = f"""\
%extp = getelementptr i8, ptr %frame, i64 {EXTENSION}
%ext = load ptr, ptr %extp
%plain = icmp eq ptr %ext, null
br i1 %plain, label %run, label %look
look:
%typep = getelementptr i8, ptr %ext, i64 8
%type = load i32, ptr %typep
%asks = icmp eq i32 %type, {METADATA}
br i1 %asks, label %tell, label %run
tell:
%metap = getelementptr i8, ptr %ext, i64 24
%meta = load ptr, ptr %metap
%apip = getelementptr i8, ptr %frame, i64 {API}
%api = load ptr, ptr %apip
%majorp = getelementptr i8, ptr %meta, i64 {MAJOR}
%minorp = getelementptr i8, ptr %meta, i64 {MINOR}
%traitsp = getelementptr i8, ptr %meta, i64 {TRAITS}
store i32 0, ptr %majorp
store i32 {VERSION}, ptr %minorp
store i32 0, ptr %traitsp
%unknown = icmp eq ptr %api, null
br i1 %unknown, label %told, label %older
older:
%nowp = getelementptr i8, ptr %api, i64 {API_MINOR}
%now = load i32, ptr %nowp
%least = call i32 @llvm.umin.i32(i32 %now, i32 {VERSION})
store i32 %least, ptr %minorp
br label %told
told:
ret ptr null
"""


def _count_rows(first: int) -> str:
    """Return the code that multiplies the batch dimensions of output `first`: the rows %n of the call."""
    return f"""\
%dimsp = getelementptr i8, ptr %b{first}, i64 {DIMENSIONS}
%dims = load ptr, ptr %dimsp
br label %next
next:
%k = phi i64 [ 0, %run ], [ %k2, %more ]
%n = phi i64 [ 1, %run ], [ %n2, %more ]
%some = icmp slt i64 %k, %lead{first}
br i1 %some, label %more, label %call
more:
%dp = getelementptr i64, ptr %dims, i64 %k
%d = load i64, ptr %dp
%n2 = mul i64 %n, %d
%k2 = add i64 %k, 1
br label %next
call:
"""


def _operand(n: int, where: str, k: int, array: Array, item: int) -> str:
    """Return the data of an array and the distance of its rows, 0 without batch dimensions."""
    return f"""%bp{n} = getelementptr ptr, ptr %{where}, i64 {k}
%b{n} = load ptr, ptr %bp{n}
%datap{n} = getelementptr i8, ptr %b{n}, i64 {DATA}
%data{n} = load ptr, ptr %datap{n}
%rankp{n} = getelementptr i8, ptr %b{n}, i64 {RANK}
%rank{n} = load i64, ptr %rankp{n}
%lead{n} = sub i64 %rank{n}, {len(array.shape)}
%batched{n} = icmp sgt i64 %lead{n}, 0
%step{n} = select i1 %batched{n}, i64 {array.size * item}, i64 0
%put{n} = getelementptr ptr, ptr %pointers, i64 {n}
store ptr %data{n}, ptr %put{n}
%s{n} = getelementptr i64, ptr %steps, i64 {n}
store i64 %step{n}, ptr %s{n}"""


def _ask(n: int, row: int, advise: int) -> str:
    """Return the request of huge pages for a large result."""
    return f"""%bytes{n} = mul i64 %n, {row}
%large{n} = icmp uge i64 %bytes{n}, {LARGE}
br i1 %large{n}, label %ask{n}, label %asked{n}
ask{n}:
%at{n} = ptrtoint ptr %data{n} to i64
%over{n} = add i64 %at{n}, {PAGE - 1}
%page{n} = and i64 %over{n}, -{PAGE}
%skipped{n} = sub i64 %page{n}, %at{n}
%rest{n} = sub i64 %bytes{n}, %skipped{n}
%begin{n} = inttoptr i64 %page{n} to ptr
%advise{n} = inttoptr i64 {advise} to ptr
%told{n} = call i32 %advise{n}(ptr %begin{n}, i64 %rest{n}, i32 {HUGE_PAGES})
br label %asked{n}
asked{n}:"""
