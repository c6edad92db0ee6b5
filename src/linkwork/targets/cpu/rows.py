"""Between the rows of user arrays and the columns that a body computes with, as LLVM text.

A row is one state's array; lane k of a column is an element of row k. Inputs are loaded in blocks of `lanes` elements of
each row and transposed in registers. Outputs are first written as columns into a tile, column c at tile[c * lanes], because
they come in no order, and `unpack` turns the tile into rows. `gather` and `scatter` make a strided row contiguous and back.
"""

from __future__ import annotations

from linkwork.ir.program import Array
from linkwork.targets.cpu.types import Types


def row_pointers(base: str, lanes: int) -> list[str]:
    """Where each lane's row of an array begins: `base` and the rows after it, `base.step` bytes apart."""
    lines = []
    for k in range(lanes):
        lines.append(f"{base}.m{k} = mul i64 {k}, {base}.step")
        lines.append(f"{base}.r{k} = getelementptr i8, ptr {base}, i64 {base}.m{k}")
    return lines


def load_columns(t: Types, base: str, block: int, size: int) -> tuple[list[str], list[str]]:
    """Instructions that load block number `block` of an array with `size` elements, and the names of its columns."""
    lines, rows = [], []
    for k in range(t.lanes):
        at, row = f"{base}.b{block}.a{k}", f"{base}.b{block}.l{k}"
        lines.append(f"{at} = getelementptr i8, ptr {base}.r{k}, i64 {block * t.bytes}")
        if (block + 1) * t.lanes <= size:
            lines.append(f"{row} = load {t.real}, ptr {at}, align {t.item}")
        else:
            mask = _mask(t, size - block * t.lanes)
            call = f"call {t.real} @llvm.masked.load.{t.suffix}.p0"
            lines.append(f"{row} = {call}(ptr {at}, i32 {t.item}, {t.condition} {mask}, {t.real} zeroinitializer)")
        rows.append(row)
    moves, columns = _transpose(t, rows, f"{base}.b{block}.t")
    return lines + moves, columns


def _transpose(t: Types, rows: list[str], tag: str) -> tuple[list[str], list[str]]:
    """Instructions that transpose `lanes` vectors of `lanes` reals in log2(lanes) steps, and the names of the result."""
    n, half = t.lanes, t.lanes // 2
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
        rows, half = new, half // 2
    return lines, rows


def tile_items(array: Array, lanes: int) -> int:
    """Reals that the tile of an output holds: whole blocks of `lanes` columns, so that no block ends early."""
    return -(-array.size // lanes) * lanes * lanes


def unpack_text(t: Types) -> str:
    """`unpack(tile, row, step, size)`: a tile into `lanes` rows."""
    n = t.lanes
    pointers = "\n".join(row_pointers("%row", n))
    at = "\n".join(f"%at{k} = getelementptr i8, ptr %row.r{k}, i64 %bytes" for k in range(n))
    loads = "\n".join(
        f"%s{k} = getelementptr i8, ptr %in, i64 {k * t.bytes}\n%a{k} = load {t.real}, ptr %s{k}, align {t.bytes}"
        for k in range(n)
    )
    moves, rows = _transpose(t, [f"%a{k}" for k in range(n)], "%t")
    stores = "\n".join(f"store {t.real} {name}, ptr %at{k}, align {t.item}" for k, name in enumerate(rows))
    masked = "\n".join(
        f"call void @llvm.masked.store.{t.suffix}.p0({t.real} {name}, ptr %at{k}, i32 {t.item}, {t.condition} %mask)"
        for k, name in enumerate(rows)
    )
    iota = ", ".join(f"i64 {k}" for k in range(n))
    return f"""
define internal void @unpack(ptr noalias %tile, ptr %row, i64 %row.step, i64 %size) #0 {{
entry:
{pointers}
br label %block
block:
%c = phi i64 [ 0, %entry ], [ %c2, %whole ]
%left = sub i64 %size, %c
%bytes = mul i64 %c, {t.item}
%inbytes = mul i64 %c, {t.bytes}
%in = getelementptr i8, ptr %tile, i64 %inbytes
{at}
%some = icmp ugt i64 %left, 0
br i1 %some, label %move, label %done
move:
{loads}
{chr(10).join(moves)}
%fits = icmp uge i64 %left, {n}
br i1 %fits, label %whole, label %partial
whole:
{stores}
%c2 = add i64 %c, {n}
br label %block
partial:
%l0 = insertelement <{n} x i64> poison, i64 %left, i64 0
%l1 = shufflevector <{n} x i64> %l0, <{n} x i64> poison, <{n} x i32> zeroinitializer
%mask = icmp ult <{n} x i64> <{iota}>, %l1
{masked}
br label %done
done:
ret void
}}
"""


def _mask(t: Types, count: int) -> str:
    """The condition that holds for the first `count` lanes."""
    return f"<{', '.join('i1 true' if k < count else 'i1 false' for k in range(t.lanes))}>"


def row_declarations(t: Types) -> str:
    """The intrinsics that loads and stores of incomplete blocks call."""
    return (
        "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)\n"
        f"declare {t.real} @llvm.masked.load.{t.suffix}.p0(ptr, i32, {t.condition}, {t.real})\n"
        f"declare void @llvm.masked.store.{t.suffix}.p0({t.real}, ptr, i32, {t.condition})\n"
    )


def copy_text(name: str, array: Array, t: Types, *, into_strided: bool) -> str:
    """`name(strided, strides, contiguous)`: copy one row of an array between a strided and a contiguous place.

    Into a strided place, a null pointer for the contiguous one stands for a row of NaN.
    """
    offsets, total, after = [], "0", 1
    for axis in reversed(range(len(array.shape))):
        offsets.append(
            f"%d{axis} = udiv i64 %k, {after}\n%i{axis} = urem i64 %d{axis}, {array.shape[axis]}\n"
            f"%sp{axis} = getelementptr i64, ptr %strides, i64 {axis}\n%s{axis} = load i64, ptr %sp{axis}\n"
            f"%o{axis} = mul i64 %i{axis}, %s{axis}\n%t{axis} = add i64 {total}, %o{axis}"
        )
        total = f"%t{axis}"
        after *= array.shape[axis]
    if into_strided:
        move = f"""%none = icmp eq ptr %contiguous, null
br i1 %none, label %empty, label %there
there:
%y = load {t.scalar}, ptr %c, align {t.item}
br label %empty
empty:
%x = phi {t.scalar} [ {t.constant(float("nan"))}, %loop ], [ %y, %there ]
store {t.scalar} %x, ptr %p, align {t.item}
br label %next"""
    else:
        move = f"%x = load {t.scalar}, ptr %p, align {t.item}\nstore {t.scalar} %x, ptr %c, align {t.item}\nbr label %next"
    return f"""
define internal void @{name}(ptr %strided, ptr %strides, ptr noalias %contiguous) #0 {{
entry:
br label %loop
loop:
%k = phi i64 [ 0, %entry ], [ %k2, %next ]
{chr(10).join(offsets)}
%p = getelementptr i8, ptr %strided, i64 {total}
%c = getelementptr {t.scalar}, ptr %contiguous, i64 %k
{move}
next:
%k2 = add i64 %k, 1
%more = icmp ult i64 %k2, {array.size}
br i1 %more, label %loop, label %done
done:
ret void
}}
"""
