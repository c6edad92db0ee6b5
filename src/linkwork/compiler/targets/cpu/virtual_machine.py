"""Virtual machine that runs bytecode, as LLVM text: one function per operation, each jumping to the next.

The functions are those of `operations`, so results have the same bits as compiled code. Each takes the
address of its record, the registers, the addresses of arrays (see `bytecode`), and the table of all
functions.
"""

from __future__ import annotations

from functools import cache

from linkwork.compiler.ir.operations import BOOL, CORE, REAL
from linkwork.compiler.ir.program import Program
from linkwork.compiler.targets.cpu.bytecode import OPCODES, WORDS_PER_RECORD, Bytecode
from linkwork.compiler.targets.cpu.layout import body_parameters, stores_of
from linkwork.compiler.targets.cpu.machine import COMMON
from linkwork.compiler.targets.cpu.operations import declarations, operation
from linkwork.compiler.targets.cpu.outputs import Outputs
from linkwork.compiler.targets.cpu.types import Types

# byte offsets of words in a record
_OUT = 4
_A = 8
_B = 12
_C = 16
_PARAMETERS = "ptr %pc, ptr %registers, ptr %arrays, ptr %table"
_ALIGNED = 64  # bytes, alignment of the work space


class InterpretedBody:
    """Computing part of a kernel, as `Body`, that runs bytecode.

    Its machine code is common to all programs.
    """

    def __init__(self, program: Program, lanes: int, name: str) -> None:
        self.types = Types(program.dtype, lanes)
        self.name = name
        self.parameters = body_parameters(program, lanes)
        self.outputs = Outputs(program, self.types, {}) if lanes > 1 else None
        if self.outputs:  # columns wait in one array instead of the outputs
            places = {v: [(0, column) for column in columns] for v, columns in self.outputs.columns.items()}
        self.bytecode = Bytecode(program, self.types, places if self.outputs else stores_of(program))
        self.scratch = self.bytecode.registers + (self.outputs.size if self.outputs else 0)

    def declaration(self) -> str:
        """Return the declaration of this body for other modules."""
        return f"declare void @{self.name}({', '.join(kind for kind, _ in self.parameters)}) nonlazybind\n"

    def functions(self) -> list[str]:
        """Return the texts of the machine, of each chunk of bytecode, and of the function that runs them."""
        names = [f"{self.name}.{k}" for k in range(len(self.bytecode.chunks))]
        chunks = [_chunk(name, chunk) for name, chunk in zip(names, self.bytecode.chunks)]
        return [machine_text(self.types), *chunks, self._whole(names)]

    def _whole(self, names: list[str]) -> str:
        # the first is the scratch
        words = self.parameters[1:]
        tables = ""
        rows = ""
        waiting = ""
        if self.outputs:
            tables, rows = self.outputs.rows_text(self.bytecode.registers)
            tables = self.outputs.declarations() + tables
            end = self.bytecode.registers * self.types.bytes
            waiting = f"%waiting = getelementptr i8, ptr %scratch, i64 {end}\n"
            words = [p for p in words if p[1].startswith("%in")] + [("ptr", "%waiting")]
        else:  # the distance of rows is unused, but has a word
            words = [w for p in words for w in ([p, ("i64", "0")] if p[1].startswith("%in") else [p])]
        puts = "".join(
            f"%w{k} = getelementptr i64, ptr %arrays, i64 {k}\nstore {kind} {value}, ptr %w{k}\n"
            for k, (kind, value) in enumerate(words)
        )
        calls = "".join(f"call void @{name}(ptr %scratch, ptr %arrays)\n" for name in names)
        parameters = ", ".join(f"{kind} {name}" for kind, name in self.parameters)
        declarations = "".join(f"declare void @{name}(ptr, ptr) nonlazybind\n" for name in names)
        return f"""{declarations}{tables}
define void @{self.name}({parameters}) #0 {{
%arrays = alloca [{len(words)} x i64]
{waiting}{puts}{calls}{rows}ret void
}}
"""


def _chunk(name: str, records: bytes) -> str:
    data = "\\" + records.hex("\\")
    return f"""@code = private constant [{len(records)} x i8] c"{data}", align 8
declare void @lw.start(ptr, ptr, ptr) nonlazybind
define void @{name}(ptr %registers, ptr %arrays) #0 {{
call void @lw.start(ptr @code, ptr %registers, ptr %arrays)
ret void
}}
"""


@cache
def machine_text(t: Types) -> str:
    """Return the module of `lw.start(record, registers, arrays)`, which runs records up to the next `end`.

    It is common to all programs.
    """
    handlers = [_core(name, t) for name in CORE] + [
        _handler("const", _const(t), t),
        _handler("input", _input(t), t),
        _handler("output", _output(t), t),
        _handler("move", _load("a", REAL, t) + _keep("%a", REAL, t), t),
        _handler("begin", _begin(t), t),
        _repeat(t),
        f"define internal void @lw.end({_PARAMETERS}) #1 {{\nret void\n}}\n",
    ]
    table = ", ".join(f"ptr @lw.{name}" for name in OPCODES)
    return f"""{COMMON}{declarations(t)}
@lw.table = private constant [{len(OPCODES)} x ptr] [{table}]
{"".join(handlers)}
define void @lw.start(ptr %pc, ptr %registers, ptr %arrays) #1 {{
%op = load i32, ptr %pc
%place = getelementptr ptr, ptr @lw.table, i32 %op
%first = load ptr, ptr %place
call void %first(ptr %pc, ptr %registers, ptr %arrays, ptr @lw.table)
ret void
}}
{t.attributes}"""


def _next(record: str) -> str:
    """Return a jump to the function of another record: a tail call, so that the stack does not grow."""
    return f"""%op = load i32, ptr {record}
%place = getelementptr ptr, ptr %table, i32 %op
%next = load ptr, ptr %place
musttail call void %next(ptr {record}, ptr %registers, ptr %arrays, ptr %table)
ret void
"""


def _handler(name: str, text: str, t: Types) -> str:
    after = f"%after = getelementptr i8, ptr %pc, i64 {4 * WORDS_PER_RECORD}\n"
    return f"define internal void @lw.{name}({_PARAMETERS}) #1 {{\n{text}{after}{_next('%after')}}}\n"


def _word(name: str, at: int) -> str:
    """Return a word of the record as a 64-bit number."""
    return f"""%{name}.w = getelementptr i8, ptr %pc, i64 {at}
%{name}.n = load i32, ptr %{name}.w
%{name}.i = sext i32 %{name}.n to i64
"""


def _register(name: str, at: int) -> str:
    return _word(name, at) + f"%{name}.p = getelementptr i8, ptr %registers, i64 %{name}.i\n"


def _load(name: str, kind: str, t: Types, at: int = _A) -> str:
    """Return an operand: the register in a word of the record."""
    align = min(t.bytes, _ALIGNED)
    if kind == REAL:
        return _register(name, at) + f"%{name} = load {t.real}, ptr %{name}.p, align {align}\n"
    mask = f"%{name}.m = load {t.integer}, ptr %{name}.p, align {align}\n"
    return _register(name, at) + mask + f"%{name} = icmp ne {t.integer} %{name}.m, {t.integer_constant(0)}\n"


def _keep(value: str, kind: str, t: Types) -> str:
    """Store the result in its register."""
    text = _register("out", _OUT)
    align = min(t.bytes, _ALIGNED)
    stored_type = t.real
    if kind == BOOL:
        text = text + f"%out.m = sext {t.condition} {value} to {t.integer}\n"
        value = "%out.m"
        stored_type = t.integer
    return text + f"store {stored_type} {value}, ptr %out.p, align {align}\n"


def _core(name: str, t: Types) -> str:
    row = CORE[name]
    operands = list(zip("abc", row.operand_kinds, (_A, _B, _C)))
    loads = "".join(_load(letter, kind, t, at) for letter, kind, at in operands)
    compute = operation(name, "%r", [f"%{letter}" for letter, _, _ in operands], t)
    return _handler(name, f"{loads}{compute}\n{_keep('%r', row.result_kind, t)}", t)


def _const(t: Types) -> str:
    bits = f"%bp = getelementptr i8, ptr %pc, i64 {_B}\n%x = load {t.scalar}, ptr %bp, align 4\n"
    return bits + _all_lanes(t) + _keep("%r", REAL, t)


def _all_lanes(t: Types) -> str:
    """Return %r: the scalar %x in all lanes."""
    if t.lanes == 1:
        return f"%r = select i1 true, {t.scalar} %x, {t.scalar} %x\n"
    mask = f"<{t.lanes} x i32> zeroinitializer"
    return (
        f"%x0 = insertelement {t.real} poison, {t.scalar} %x, i64 0\n"
        f"%r = shufflevector {t.real} %x0, {t.real} poison, {mask}\n"
    )


def _array(name: str, at: int, field: int) -> str:
    """Return an address word of an array."""
    return f"""{_word(f"{name}.o", at)}%{name}.q = getelementptr i8, ptr %arrays, i64 %{name}.o.i
%{name}.f = getelementptr i64, ptr %{name}.q, i64 {field}
%{name} = load {"ptr" if field == 0 else "i64"}, ptr %{name}.f
"""


def _input(t: Types) -> str:
    """Return an element of each lane's row."""
    text = _array("base", _A, 0) + _word("e", _B) + "%at0 = getelementptr i8, ptr %base, i64 %e.i\n"
    if t.lanes == 1:
        return text + f"%r = load {t.scalar}, ptr %at0, align {t.item}\n" + _keep("%r", REAL, t)
    text += _array("step", _A, 1)
    row = "poison"
    for k in range(t.lanes):
        name = "%r" if k == t.lanes - 1 else f"%r{k}"
        text += f"%x{k} = load {t.scalar}, ptr %at{k}, align {t.item}\n"
        text += f"{name} = insertelement {t.real} {row}, {t.scalar} %x{k}, i64 {k}\n"
        if k < t.lanes - 1:
            text += f"%at{k + 1} = getelementptr i8, ptr %at{k}, i64 %step\n"
        row = name
    return text + _keep("%r", REAL, t)


def _output(t: Types) -> str:
    """Store a value as a column of the output's tile, or as an element of the only row."""
    operands = _load("a", REAL, t) + _array("base", _B, 0) + _word("e", _C)
    return f"""{operands}%at = getelementptr i8, ptr %base, i64 %e.i
store {t.real} %a, ptr %at, align {min(t.bytes, _ALIGNED)}
"""


def _begin(t: Types) -> str:
    """Activate all lanes and reset the count of iterations."""
    return f"{_register('count', _A)}store i32 0, ptr %count.p\n{_keep(t.constant(True), BOOL, t)}"


def _repeat(t: Types) -> str:
    """Jump back to the first record of a loop's body while any lane is active, up to the limit."""
    lines = (
        f"%any = call i1 @llvm.vector.reduce.or.v{t.lanes}i1({t.condition} %a)"
        if t.lanes > 1
        else "%any = and i1 %a, true"
    )
    return f"""define internal void @lw.repeat({_PARAMETERS}) #1 {{
{_load("a", BOOL, t)}{_register("out", _OUT)}{_word("limit", _B)}{_word("back", _C)}{lines}
%before = load i32, ptr %out.p
%count = add i32 %before, 1
store i32 %count, ptr %out.p
%more = icmp ult i32 %count, %limit.n
%go = and i1 %more, %any
%by = select i1 %go, i64 %back.i, i64 {4 * WORDS_PER_RECORD}
%after = getelementptr i8, ptr %pc, i64 %by
{_next("%after")}}}
"""
