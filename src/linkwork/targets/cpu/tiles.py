"""Between the rows of user arrays and tiles: transposition in registers, as LLVM text.

Rows may lie anywhere at any distance (strided batches) and their elements too (strided rows): `pack` and `unpack` move
contiguous rows of several states into a tile and back, `gather` and `scatter` make a strided row contiguous and back.
"""

from __future__ import annotations

from linkwork.ir.program import Array
from linkwork.targets.cpu.types import Types


def tile_items(array: Array, lanes: int) -> int:
    """Reals that the tile of an array holds: whole blocks of `lanes` columns, so that no block ends early."""
    columns = -(-array.size // lanes) * lanes
    return max(columns, 1) * lanes


def _transpose(t: Types, rows: list[str], tag: str) -> tuple[list[str], list[str]]:
    """Instructions that transpose `lanes` vectors of `lanes` reals in log2(lanes) steps, and the names of the columns."""
    lines, n, half = [], t.lanes, t.lanes // 2
    step = 0
    while half >= 1:
        # swap the off-diagonal blocks of size `half`
        new = list(rows)
        for i in range(n):
            if i & half:
                continue
            a, b = rows[i], rows[i + half]
            low = [k if not k & half else n + k - half for k in range(n)]
            high = [k + half if not k & half else n + k for k in range(n)]
            for name, mask in ((f"%{tag}{step}.{i}", low), (f"%{tag}{step}.{i + half}", high)):
                text = ", ".join(f"i32 {k}" for k in mask)
                lines.append(f"{name} = shufflevector {t.real} {a}, {t.real} {b}, <{n} x i32> <{text}>")
            new[i], new[i + half] = f"%{tag}{step}.{i}", f"%{tag}{step}.{i + half}"
        rows, half, step = new, half // 2, step + 1
    return lines, rows


def pack_text(t: Types) -> str:
    """`pack(row, step, size, tile)`: `lanes` rows into a tile."""
    n = t.lanes
    pointers = _row_pointers(n)
    at = "\n".join(f"%at{k} = getelementptr i8, ptr %row{k}, i64 %bytes" for k in range(n))
    loads = "\n".join(f"%a{k} = load {t.real}, ptr %at{k}, align {t.item}" for k in range(n))
    masked = "\n".join(
        f"%b{k} = call {t.real} @llvm.masked.load.{t.suffix}.p0(ptr %at{k}, i32 {t.item}, {t.condition} %mask, "
        f"{t.real} zeroinitializer)"
        for k in range(n)
    )
    full, columns = _transpose(t, [f"%a{k}" for k in range(n)], "f")
    part, rest = _transpose(t, [f"%b{k}" for k in range(n)], "p")

    def stores(names: list[str], tag: str) -> str:
        return "\n".join(
            f"%{tag}{k} = getelementptr i8, ptr %out, i64 {k * t.bytes}\nstore {t.real} {name}, ptr %{tag}{k}, align {t.bytes}"
            for k, name in enumerate(names)
        )

    return f"""
define internal void @pack(ptr %row, i64 %step, i64 %size, ptr noalias %tile) #1 {{
entry:
{pointers}
br label %block
block:
%c = phi i64 [ 0, %entry ], [ %c2, %whole ]
%left = sub i64 %size, %c
%bytes = mul i64 %c, {t.item}
%outbytes = mul i64 %c, {t.bytes}
%out = getelementptr i8, ptr %tile, i64 %outbytes
{at}
%fits = icmp uge i64 %left, {n}
br i1 %fits, label %whole, label %tail
whole:
{loads}
{chr(10).join(full)}
{stores(columns, "w")}
%c2 = add i64 %c, {n}
br label %block
tail:
%some = icmp ugt i64 %left, 0
br i1 %some, label %partial, label %done
partial:
{_mask_text(t)}
{masked}
{chr(10).join(part)}
{stores(rest, "r")}
br label %done
done:
ret void
}}
"""


def unpack_text(t: Types) -> str:
    """`unpack(tile, row, step, size)`: a tile into `lanes` rows."""
    n = t.lanes
    pointers = _row_pointers(n)
    at = "\n".join(f"%at{k} = getelementptr i8, ptr %row{k}, i64 %bytes" for k in range(n))
    loads = "\n".join(
        f"%s{k} = getelementptr i8, ptr %in, i64 {k * t.bytes}\n%a{k} = load {t.real}, ptr %s{k}, align {t.bytes}"
        for k in range(n)
    )
    moves, rows = _transpose(t, [f"%a{k}" for k in range(n)], "t")
    stores = "\n".join(f"store {t.real} {name}, ptr %at{k}, align {t.item}" for k, name in enumerate(rows))
    masked = "\n".join(
        f"call void @llvm.masked.store.{t.suffix}.p0({t.real} {name}, ptr %at{k}, i32 {t.item}, {t.condition} %mask)"
        for k, name in enumerate(rows)
    )
    return f"""
define internal void @unpack(ptr noalias %tile, ptr %row, i64 %step, i64 %size) #1 {{
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
{_mask_text(t)}
{masked}
br label %done
done:
ret void
}}
"""


def _row_pointers(n: int) -> str:
    return "\n".join(f"%m{k} = mul i64 {k}, %step\n%row{k} = getelementptr i8, ptr %row, i64 %m{k}" for k in range(n))


def _mask_text(t: Types) -> str:
    n = t.lanes
    iota = ", ".join(f"i64 {k}" for k in range(n))
    return (
        f"%l0 = insertelement <{n} x i64> poison, i64 %left, i64 0\n"
        f"%l1 = shufflevector <{n} x i64> %l0, <{n} x i64> poison, <{n} x i32> zeroinitializer\n"
        f"%mask = icmp ult <{n} x i64> <{iota}>, %l1"
    )


def tile_declarations(t: Types) -> str:
    """The intrinsics that `pack` and `unpack` call."""
    return (
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
