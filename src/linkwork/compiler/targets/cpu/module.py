"""Kernel as LLVM modules: the bodies, and the loop over the rows of NumPy arrays around them.

The module exports four functions. `loop` and `run` have the signature of a NumPy generalised ufunc's inner
loop, (args, dims, steps, data); `data` points to the words

    [0] the `run` that does the work, replaced atomically by optimised code
    [1] the Python function that splits a batch among threads (see `share`)
    [2] the number of rows from which it is called
    [3] the functions of Python that it needs (see `share`)

`bound` is a C function of the Python API without arguments, for fixed arrays: its `self` is an ndarray of the
words [result object, Py_IncRef, args, dims, steps, data]. `direct` takes arguments (see `direct`).
"""

from __future__ import annotations

from linkwork.compiler.ir.program import Array, Program
from linkwork.compiler.targets.cpu.body import Body
from linkwork.compiler.targets.cpu.direct import direct_text
from linkwork.compiler.targets.cpu.entry import entry_text
from linkwork.compiler.targets.cpu.machine import COMMON, Machine
from linkwork.compiler.targets.cpu.rows import copy_name, copy_text
from linkwork.compiler.targets.cpu.types import Types
from linkwork.compiler.targets.cpu.virtual_machine import InterpretedBody

AnyBody = Body | InterpretedBody
EXPORTS = ("loop", "run", "bound", "direct")
MIN_TILE_ROWS = 3  # rows from which an incomplete tile is faster than single rows
STACK_LIMIT = 1 << 16  # bytes of work space on the stack; larger ones are allocated on the heap


def module_texts(program: Program, lanes: int, machine: Machine) -> list[str]:
    """Return the LLVM texts of a kernel: a body for one state and, for lanes > 1, one for `lanes` states.

    Each text is a module of its own, small enough for a compiler; together they form the kernel.
    """
    one = Body(program, 1, "lw.one", machine.registers, wide=lanes)
    many = Body(program, lanes, "lw.many", machine.registers) if lanes > 1 else None
    return _texts(program, one, many, machine)


def bytecode_texts(program: Program, lanes: int, machine: Machine) -> list[str]:
    """Return the LLVM texts of a kernel that runs the program as bytecode, which compile quickly.

    One state is computed with all lanes too.
    """
    body = InterpretedBody(program, lanes, "lw.many" if lanes > 1 else "lw.one")
    return _texts(program, None, body, machine) if lanes > 1 else _texts(program, body, None, machine)


def _texts(program: Program, one: AnyBody | None, many: AnyBody | None, machine: Machine) -> list[str]:
    wide = (many or one).types  # type: ignore[union-attr]
    scalar = Types(program.dtype, 1)
    frame = []
    texts = []
    if one:
        texts += one.functions()
        frame.append(one.declaration())
    if many:
        texts += many.functions()
        if many.outputs:
            texts.append(many.outputs.functions_text())
        frame.append(many.declaration())
    for shape in {array.shape: None for array in program.inputs}:
        frame.append(copy_text(copy_name("gather", shape), shape, scalar, into_strided=False))
    for shape in {array.shape: None for array in program.outputs}:
        frame.append(copy_text(copy_name("scatter", shape), shape, scalar, into_strided=True))
    texts.append("\n".join([*frame, _Run(program, one, many).text(), direct_text(program)]))
    attributes = wide.attributes
    modules = [text if text.startswith(COMMON) else text + attributes for text in texts]
    return [*modules, entry_text(machine.triple)]


class _Run:
    """Writer of `run`: whole and partial tiles first, then single rows."""

    def __init__(self, program: Program, one: AnyBody | None, many: AnyBody | None) -> None:
        self.program = program
        self.one = one
        self.many = many
        self.lanes = many.types.lanes if many else 1
        self.item = Types(program.dtype, 1).item
        self.min_tile_rows = MIN_TILE_ROWS if one else 1
        self.arrays: tuple[Array, ...] = program.inputs + program.outputs
        self.inputs = range(len(program.inputs))
        self.outputs = range(len(program.inputs), len(self.arrays))

    def text(self) -> str:
        setup = "\n".join(self._operand(k) for k in range(len(self.arrays)))
        tiles = ""
        start = "br label %singles"
        come = "[ 0, %start ]"
        if self.many:
            tiles = self._tiles()
            start = (
                f"%few0 = icmp ult i64 %n, {self.min_tile_rows}\nbr i1 %few0, label %singles, label %tiles"
            )
            come += ", [ %tnext, %tdone ]"
        if self.one:
            come += ", [ %snext, %sdone ]"
        return f"""
declare i64 @llvm.umin.i64(i64, i64)
declare ptr @malloc(i64) nonlazybind
declare void @free(ptr) nonlazybind
define void @run(ptr %args, ptr %dims, ptr %steps, ptr %data) #0 {{
entry:
%n = load i64, ptr %dims
%none = icmp eq i64 %n, 0
br i1 %none, label %quit, label %begin
quit:
ret void
begin:
{setup}
{self._workspace()}
br label %start
start:
{start}
{tiles}
singles:
%si = phi i64 {come}
%sover = icmp uge i64 %si, %n
br i1 %sover, label %finish, label %single
single:
{self._single()}
finish:
{self._release()}
ret void
}}
"""

    def _places(self) -> list[tuple[str, int]]:
        """Return names and bytes of the work space's pieces: contiguous rows per array, and the scratch."""
        places = [
            (f"%rows{k}", max(array.size, 1) * self.lanes * self.item) for k, array in enumerate(self.arrays)
        ]
        scratch = max(body.scratch * body.types.lanes for body in (self.one, self.many) if body)
        places.append(("%scratch", max(scratch, 1) * self.item))
        return places

    def _workspace(self) -> str:
        lines = []
        offset = 0
        for name, size in self._places():
            lines.append(f"{name} = getelementptr i8, ptr %work, i64 {offset}")
            offset += -(-size // 64) * 64
        self.on_heap = offset > STACK_LIMIT
        if not self.on_heap:
            return "\n".join([f"%work = alloca [{offset} x i8], align 64", *lines])
        get = f"""%heap = call ptr @malloc(i64 {offset + 64})
%poor = icmp eq ptr %heap, null
br i1 %poor, label %poor0, label %rich
{self._no_memory()}
rich:
%address = ptrtoint ptr %heap to i64
%up = add i64 %address, 63
%aligned = and i64 %up, -64
%work = inttoptr i64 %aligned to ptr"""
        return "\n".join([get, *lines])

    def _no_memory(self) -> str:
        """Return text that fills the results with NaN if no work space can be allocated."""
        calls = "\n".join(self._copy(k, "0", "%n", "null") for k in self.outputs)
        return f"poor0:\n{calls}\nret void"

    def _release(self) -> str:
        return "call void @free(ptr %heap)" if self.on_heap else ""

    def _operand(self, k: int) -> str:
        """Return text for the base, the row stride, and whether rows may be used in place.

        They may if they are contiguous and not shared. Core strides follow the steps of all arrays.
        """
        array = self.arrays[k]
        first = len(self.arrays) + sum(len(a.shape) for a in self.arrays[:k])
        lines = [
            f"%basep{k} = getelementptr ptr, ptr %args, i64 {k}",
            f"%base{k} = load ptr, ptr %basep{k}",
            f"%stepp{k} = getelementptr i64, ptr %steps, i64 {k}",
            f"%step{k} = load i64, ptr %stepp{k}",
            f"%strides{k} = getelementptr i64, ptr %steps, i64 {first}",
        ]
        plain = "true"
        after = self.item
        for axis in reversed(range(len(array.shape))):
            if array.shape[axis] > 1:
                tag = f"{k}.{axis}"
                lines += [
                    f"%sp{tag} = getelementptr i64, ptr %strides{k}, i64 {axis}",
                    f"%s{tag} = load i64, ptr %sp{tag}",
                    f"%same{tag} = icmp eq i64 %s{tag}, {after}",
                    f"%plain{tag} = and i1 {plain}, %same{tag}",
                ]
                plain = f"%plain{tag}"
            after *= array.shape[axis]
        if (
            k in self.outputs
        ):  # NumPy lets an output be an input itself: such rows are written when all is read
            for other in self.inputs:
                lines.append(f"%apart{k}.{other} = icmp ne ptr %base{k}, %base{other}")
                lines.append(f"%alone{k}.{other} = and i1 {plain}, %apart{k}.{other}")
                plain = f"%alone{k}.{other}"
        lines.append(f"%plain{k} = and i1 {plain}, true")
        return "\n".join(lines)

    def _row(self, k: int, index: str, tag: str) -> str:
        return (
            f"%off{k}{tag} = mul i64 {index}, %step{k}\n"
            f"%row{k}{tag} = getelementptr i8, ptr %base{k}, i64 %off{k}{tag}\n"
        )

    def _copy(self, k: int, index: str, count: str, rows: str | None = None, last: str = "-1") -> str:
        """Return a call that copies `count` strided rows to contiguous ones (an input) or back (an output).

        Rows beyond `last` repeat that one: they fill the lanes of an incomplete tile.
        """
        name = copy_name("gather" if k in self.inputs else "scatter", self.arrays[k].shape)
        return (
            f"call void @{name}(ptr %base{k}, i64 %step{k}, ptr %strides{k}, ptr {rows or f'%rows{k}'}, "
            f"i64 {index}, i64 {count}, i64 {last})"
        )

    def _tiles(self) -> str:
        """Return the body with lanes on the user's rows, or on copies of strided or missing rows."""
        text = f"""tiles:
%ti = phi i64 [ 0, %start ], [ %tnext, %tdone ]
%tleft = sub i64 %n, %ti
%count = call i64 @llvm.umin.i64(i64 %tleft, i64 {self.lanes})
%full = icmp eq i64 %count, {self.lanes}
%last = sub i64 %count, 1
"""
        for k, array in enumerate(self.arrays):
            text += f"""{self._row(k, "%ti", "t")}%t{k}.direct = and i1 %plain{k}, %full
%t{k}.base = select i1 %t{k}.direct, ptr %row{k}t, ptr %rows{k}
%t{k}.step = select i1 %t{k}.direct, i64 %step{k}, i64 {array.size * self.item}
"""
        for k in self.inputs:
            text += f"""br i1 %t{k}.direct, label %t{k}.next, label %t{k}.from
t{k}.from:
{self._copy(k, "%ti", str(self.lanes), last="%last")}
br label %t{k}.next
t{k}.next:
"""
        rows = ", ".join(f"ptr %t{k}.base, i64 %t{k}.step" for k in range(len(self.arrays)))
        text += f"call void @lw.many(ptr %scratch, {rows})\n"
        for k in self.outputs:
            text += f"""br i1 %t{k}.direct, label %t{k}.next, label %t{k}.from
t{k}.from:
{self._copy(k, "%ti", "%count")}
br label %t{k}.next
t{k}.next:
"""
        text += f"""br label %tdone
tdone:
%tnext = add i64 %ti, %count
%trest = sub i64 %n, %tnext
%few = icmp ult i64 %trest, {self.min_tile_rows}
br i1 %few, label %singles, label %tiles
"""
        return text

    def _single(self) -> str:
        """Return the one-lane body, directly on the user's rows if they are contiguous."""
        if not self.one:
            return "unreachable"
        text = ""
        for k in self.inputs:
            text += f"""{self._row(k, "%si", "s")}br i1 %plain{k}, label %s{k}.next, label %s{k}.from
s{k}.from:
{self._copy(k, "%si", "1")}
br label %s{k}.next
s{k}.next:
%s{k} = select i1 %plain{k}, ptr %row{k}s, ptr %rows{k}
"""
        for k in self.outputs:
            text += f"{self._row(k, '%si', 's')}%s{k} = select i1 %plain{k}, ptr %row{k}s, ptr %rows{k}\n"
        pointers = ", ".join(f"ptr %s{k}" for k in range(len(self.arrays)))
        text += f"call void @lw.one(ptr %scratch, {pointers})\n"
        for k in self.outputs:
            text += f"""br i1 %plain{k}, label %s{k}.next, label %s{k}.from
s{k}.from:
{self._copy(k, "%si", "1")}
br label %s{k}.next
s{k}.next:
"""
        return text + "br label %sdone\nsdone:\n%snext = add i64 %si, 1\nbr label %singles"
