"""Conversion between rows of user arrays and columns that a body computes with, as LLVM text.

A row is one state's array; lane k of a column is an element of row k. Inputs are loaded in blocks of `lanes`
elements of each row and transposed in registers. Columns of outputs come in no order: they wait in memory
(see `outputs`) until the functions of `unpack_text` write them as rows. `gather` and `scatter` copy a strided
row to a contiguous one and back.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from linkwork.compiler.targets.cpu.machine import COMMON
from linkwork.compiler.targets.cpu.types import Types


def row_pointers(base: str, lanes: int) -> list[str]:
    """Return the start of each lane's row: `base` and the following rows, `base.step` bytes apart."""
    lines = []
    for k in range(lanes):
        lines.append(f"{base}.m{k} = mul i64 {k}, {base}.step")
        lines.append(f"{base}.r{k} = getelementptr i8, ptr {base}, i64 {base}.m{k}")
    return lines


def load_columns(t: Types, base: str, block: int, size: int) -> tuple[list[str], list[str]]:
    """Return instructions that load block number `block` of an array, and the names of its columns.

    `size` is the number of elements of the array.
    """
    lines = []
    rows = []
    for k in range(t.lanes):
        at = f"{base}.b{block}.a{k}"
        row = f"{base}.b{block}.l{k}"
        lines.append(f"{at} = getelementptr i8, ptr {base}.r{k}, i64 {block * t.bytes}")
        if (block + 1) * t.lanes <= size:
            lines.append(f"{row} = load {t.real}, ptr {at}, align {t.item}")
        else:
            mask = _mask(t, size - block * t.lanes)
            call = f"call {t.real} @llvm.masked.load.{t.suffix}.p0"
            lines.append(
                f"{row} = {call}(ptr {at}, i32 {t.item}, {t.condition} {mask}, {t.real} zeroinitializer)"
            )
        rows.append(row)
    moves, columns = _transpose(t, rows, f"{base}.b{block}.t")
    return lines + moves, columns


def _transpose(t: Types, rows: list[str], tag: str, half: int | None = None) -> tuple[list[str], list[str]]:
    """Return instructions that transpose `lanes` vectors in log2(lanes) steps, and the names of the results.

    With `half` the steps for larger blocks are done already.
    """
    n = t.lanes
    half = t.lanes // 2 if half is None else half
    lines: list[str] = []
    while half >= 1:
        # blocks of size `half` off the diagonal change places
        low = ", ".join(f"i32 {k if not k & half else n + k - half}" for k in range(n))
        high = ", ".join(f"i32 {k + half if not k & half else n + k}" for k in range(n))
        new = list(rows)
        for i in (i for i in range(n) if not i & half):
            for place, mask in ((i, low), (i + half, high)):
                new[place] = f"{tag}{half}.{place}"
                pair = f"{t.real} {rows[i]}, {t.real} {rows[i + half]}"
                lines.append(f"{new[place]} = shufflevector {pair}, <{n} x i32> <{mask}>")
        rows = new
        half = half // 2
    return lines, rows


def _load_rows(t: Types, columns: list[tuple[str, int]], tag: str) -> tuple[str, list[str]]:
    """Return instructions that load the columns of a block, each at some bytes from a pointer, and transpose
    them into rows.

    Halves of columns are loaded: then the first step takes no shuffle, since processors load into half a
    register.
    """
    n = t.lanes
    half = t.lanes // 2
    part = f"<{half} x {t.scalar}>"
    every = ", ".join(f"i32 {k}" for k in range(n))
    lines = []
    pairs = []
    for i in range(n):
        first = i % half
        side = i // half
        name = f"%{tag}{i}"
        for k, column in enumerate((first, first + half)):
            at = f"{name}.{k}"
            base, offset = columns[column]
            lines.append(f"{at}.p = getelementptr i8, ptr {base}, i64 {offset + side * half * t.item}")
            lines.append(f"{at} = load {part}, ptr {at}.p, align {half * t.item}")
        pairs.append(name)
        lines.append(f"{name} = shufflevector {part} {name}.0, {part} {name}.1, <{n} x i32> <{every}>")
    moves, rows = _transpose(t, pairs, f"%{tag}t", half // 2)
    return "\n".join(lines + moves), rows


UNPACK = "lw.unpack"
UNPACK_LONG = "lw.unpack.long"
UNPACK_LAST = "lw.unpack.last"
LINE = 64  # bytes of a cache line
MIN_LONG_BLOCKS = 16  # rows with as many blocks are written by whole cache lines


def _from_table(
    t: Types, tag: str, table: str, first: int, columns: str, count: int
) -> tuple[str, list[str]]:
    """Return instructions that read `count` places of a table from entry `first` on, and the pointers."""
    lines = []
    pointers = []
    for c in range(count):
        at = f"%{tag}{c}"
        pointers.append(at)
        lines += [
            f"{at}.p = getelementptr i32, ptr {table}, i64 {first + c}",
            f"{at}.n = load i32, ptr {at}.p",
            f"{at}.z = zext i32 {at}.n to i64",
            f"{at} = getelementptr i8, ptr {columns}, i64 {at}.z",
        ]
    return "\n".join(lines), pointers


def _load_block(
    t: Types, block: int, *, scattered: bool, table: str = "%entry.p", tag: str = "source"
) -> tuple[str, list[str]]:
    """Return instructions that load block `block` after a table entry, and the names of its rows."""
    per_block = t.lanes if scattered else 1  # entries of the table
    places, columns = _from_table(t, f"{tag}{block}.", table, block * per_block, "%columns", per_block)
    within = [(p, 0) for p in columns] if scattered else [(columns[0], c * t.bytes) for c in range(t.lanes)]
    moves, rows = _load_rows(t, within, f"{tag}{block}.b")
    return f"{places}\n{moves}", rows


def unpacker(t: Types, blocks: int) -> str:
    """Return the name of the function that writes the first, complete blocks of rows.

    Long rows are written by whole cache lines, since Intel processors take twice as long for a store across
    two. Sixteen rows at once would leave too few registers.
    """
    return UNPACK_LONG if t.bytes == LINE and t.lanes == 8 and blocks >= MIN_LONG_BLOCKS else UNPACK


def _unpack_long(t: Types, *, scattered: bool) -> str:
    """Return `unpack.long`, which writes whole cache lines, each from two blocks of a row.

    The first and the last block are stored directly, since their cache lines belong to other rows too.
    """
    n = t.lanes
    lanes = range(t.lanes)
    pick = "@llvm.x86.avx512.vpermi2var.pd.512"
    iota = ", ".join(f"i64 {n + k}" for k in lanes)
    starts = "\n".join(
        f"""%row.n{k} = ptrtoint ptr %row.r{k} to i64
%row.past{k} = and i64 %row.n{k}, {LINE - t.item}
%row.back{k} = sub i64 0, %row.past{k}
%line{k} = getelementptr i8, ptr %row.r{k}, i64 %row.back{k}
%past{k}.i = udiv i64 %row.past{k}, {t.item}
%past{k}.v = insertelement {t.integer} poison, i64 %past{k}.i, i64 0
%past{k} = shufflevector {t.integer} %past{k}.v, {t.integer} poison, <{n} x i32> zeroinitializer
%which{k} = sub {t.integer} <{iota}>, %past{k}"""
        for k in lanes
    )
    first, rows0 = _load_block(t, 0, scattered=scattered, table="%table", tag="first")
    moves, rows = _load_block(t, 0, scattered=scattered)
    head = "\n".join(f"store {t.real} {rows0[k]}, ptr %row.r{k}, align {t.item}" for k in lanes)
    phis = "\n".join(f"%before{k} = phi {t.real} [ {rows0[k]}, %start ], [ {rows[k]}, %loop ]" for k in lanes)
    puts = "\n".join(
        f"""%put{k} = call {t.real} {pick}({t.real} %before{k}, {t.integer} %which{k}, {t.real} {rows[k]})
%at{k} = getelementptr i8, ptr %line{k}, i64 %place
store {t.real} %put{k}, ptr %at{k}, align {t.item}"""
        for k in lanes
    )
    tail = "\n".join(
        f"%end{k} = getelementptr i8, ptr %row.r{k}, i64 %place\n"
        f"store {t.real} {rows[k]}, ptr %end{k}, align {t.item}"
        for k in lanes
    )
    return f"""
declare {t.real} {pick}({t.real}, {t.integer}, {t.real})
define void @{UNPACK_LONG}(ptr %table, i64 %count, ptr %columns, ptr %row, i64 %row.step) #0 {{
start:
{chr(10).join(row_pointers("%row", n))}
{starts}
{first}
{head}
br label %loop
loop:
%k = phi i64 [ 1, %start ], [ %k2, %loop ]
{phis}
%entry.k = mul i64 %k, {n if scattered else 1}
%entry.p = getelementptr i32, ptr %table, i64 %entry.k
%place = mul i64 %k, {t.bytes}
{moves}
{puts}
%k2 = add i64 %k, 1
%more = icmp ult i64 %k2, %count
br i1 %more, label %loop, label %done
done:
{tail}
ret void
}}
"""


def _unpack(t: Types, *, scattered: bool) -> str:
    # stores that fill a line of a row follow each other
    n = t.lanes
    together = max(1, LINE // t.bytes)
    loads = []
    stores = []
    for b in range(together):
        lines, rows = _load_block(t, b, scattered=scattered)
        loads.append(lines)
        stores += [(k, b, name) for k, name in enumerate(rows)]
    puts = "\n".join(
        f"%at{k}.{b} = getelementptr i8, ptr %at{k}, i64 {b * t.bytes}\n"
        f"store {t.real} {name}, ptr %at{k}.{b}, align {t.item}"
        for k, b, name in sorted(stores)
    )
    at = "\n".join(f"%at{k} = getelementptr i8, ptr %row.r{k}, i64 %place" for k in range(n))
    return f"""
define void @{UNPACK}(ptr %table, i64 %count, ptr %columns, ptr %row, i64 %row.step) #0 {{
start:
{chr(10).join(row_pointers("%row", n))}
br label %loop
loop:
%k = phi i64 [ 0, %start ], [ %k2, %loop ]
%entry.k = mul i64 %k, {n if scattered else 1}
%entry.p = getelementptr i32, ptr %table, i64 %entry.k
%place = mul i64 %k, {t.bytes}
{at}
{chr(10).join(loads)}
{puts}
%k2 = add i64 %k, {together}
%more = icmp ult i64 %k2, %count
br i1 %more, label %loop, label %done
done:
ret void
}}
"""


def _unpack_last(t: Types, *, scattered: bool) -> str:
    n = t.lanes
    places, columns = _from_table(t, "c", "%table", 0, "%columns", n) if scattered else ("", [])
    moves, rows = _load_rows(
        t, [(p, 0) for p in columns] or [("%columns", c * t.bytes) for c in range(n)], "b"
    )
    masked = "\n".join(
        f"call void @llvm.masked.store.{t.suffix}.p0({t.real} {name}, ptr %row.r{k}, i32 {t.item}, "
        f"{t.condition} %mask)"
        for k, name in enumerate(rows)
    )
    iota = ", ".join(f"i64 {k}" for k in range(n))
    parameters = "ptr %table, " * scattered + "ptr %columns, ptr %row, i64 %row.step, i64 %left"
    return f"""
define void @{UNPACK_LAST}({parameters}) #0 {{
{chr(10).join(row_pointers("%row", n))}
{places}
{moves}
%l0 = insertelement <{n} x i64> poison, i64 %left, i64 0
%l1 = shufflevector <{n} x i64> %l0, <{n} x i64> poison, <{n} x i32> zeroinitializer
%mask = icmp ult <{n} x i64> <{iota}>, %l1
{masked}
ret void
}}
"""


UNPACKERS = {UNPACK: _unpack, UNPACK_LONG: _unpack_long, UNPACK_LAST: _unpack_last}


@cache
def unpack_text(t: Types, names: tuple[str, ...], *, scattered: bool) -> str:
    """Return the module of the named functions, which write columns as rows, `step` bytes apart, by blocks.

    `unpack(table, count, columns, row, step)` writes blocks whose columns are at the places of a table
    [bytes]. `unpack.long` does the same for rows with many blocks, by stores of whole cache lines; it needs
    registers of 512 bits. `unpack.last(columns, row, step, left)` writes the first `left` elements of a
    block. If columns are `scattered`, each has its own place in the table, and `unpack.last` gets a table
    before its columns. The module is common to all programs.
    """
    functions = "".join(UNPACKERS[name](t, scattered=scattered) for name in names)
    return f"{COMMON}{row_declarations(t)}{functions}{t.attributes}"


def unpack_declarations(names: Iterable[str], *, scattered: bool) -> str:
    """Return declarations of the functions of `unpack_text` for other modules."""
    table = "ptr, " * scattered
    parameters = dict.fromkeys((UNPACK, UNPACK_LONG), "ptr, i64, ptr, ptr, i64")
    parameters[UNPACK_LAST] = f"{table}ptr, ptr, i64, i64"
    return "".join(f"declare void @{name}({parameters[name]}) nonlazybind\n" for name in names)


def _mask(t: Types, count: int) -> str:
    """Return the condition that holds for the first `count` lanes."""
    return f"<{', '.join('i1 true' if k < count else 'i1 false' for k in range(t.lanes))}>"


def row_declarations(t: Types) -> str:
    """Return declarations of the intrinsics for incomplete blocks."""
    return (
        "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)\n"
        f"declare {t.real} @llvm.masked.load.{t.suffix}.p0(ptr, i32, {t.condition}, {t.real})\n"
        f"declare void @llvm.masked.store.{t.suffix}.p0({t.real}, ptr, i32, {t.condition})\n"
    )


def copy_name(verb: str, shape: tuple[int, ...]) -> str:
    """Return the name of the function that copies rows of a shape: `verb` is gather or scatter."""
    return ".".join([verb, *map(str, shape)])


def copy_text(name: str, shape: tuple[int, ...], t: Types, *, into_strided: bool) -> str:
    """Return `name(base, step, strides, rows, first, count, last)`, which copies rows between two layouts.

    Row `first + j` of the strided array, but at most row `first + last`, and contiguous row j, for all
    j < count. If rows are copied into strided places, a null pointer for the contiguous ones gives NaN.
    """
    offsets = []
    total = "0"
    size = 1
    for axis in reversed(range(len(shape))):
        offsets.append(
            f"%d{axis} = udiv i64 %k, {size}\n%i{axis} = urem i64 %d{axis}, {shape[axis]}\n"
            f"%sp{axis} = getelementptr i64, ptr %strides, i64 {axis}\n%s{axis} = load i64, ptr %sp{axis}\n"
            f"%o{axis} = mul i64 %i{axis}, %s{axis}\n%t{axis} = add i64 {total}, %o{axis}"
        )
        total = f"%t{axis}"
        size *= shape[axis]
    if into_strided:
        move = f"""br i1 %none, label %empty, label %there
there:
%y = load {t.scalar}, ptr %c, align {t.item}
br label %empty
empty:
%x = phi {t.scalar} [ {t.constant(float("nan"))}, %loop ], [ %y, %there ]
store {t.scalar} %x, ptr %p, align {t.item}
br label %next"""
    else:
        move = f"""%x = load {t.scalar}, ptr %p, align {t.item}
store {t.scalar} %x, ptr %c, align {t.item}
br label %next"""
    parameters = "ptr %base, i64 %step, ptr %strides, ptr %rows, i64 %first, i64 %count, i64 %last"
    return f"""
define internal void @{name}({parameters}) #0 {{
entry:
%none = icmp eq ptr %rows, null
br label %row
row:
%j = phi i64 [ 0, %entry ], [ %j2, %row.next ]
%l = call i64 @llvm.umin.i64(i64 %j, i64 %last)
%at = add i64 %first, %l
%offset = mul i64 %at, %step
%strided = getelementptr i8, ptr %base, i64 %offset
%place = mul i64 %j, {size * t.item}
%contiguous = getelementptr i8, ptr %rows, i64 %place
br label %loop
loop:
%k = phi i64 [ 0, %row ], [ %k2, %next ]
{chr(10).join(offsets)}
%p = getelementptr i8, ptr %strided, i64 {total}
%c = getelementptr {t.scalar}, ptr %contiguous, i64 %k
{move}
next:
%k2 = add i64 %k, 1
%more = icmp ult i64 %k2, {size}
br i1 %more, label %loop, label %row.next
row.next:
%j2 = add i64 %j, 1
%rest = icmp ult i64 %j2, %count
br i1 %rest, label %row, label %done
done:
ret void
}}
"""
