"""Readable text of a program: one value per line, inputs as array elements, loops indented."""

from __future__ import annotations

from typing import Any

from linkwork.compiler.ir.liveness import needed_values

_INLINE = ("const", "input", "neg")
_INFIX = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",
    "lt": "<",
    "le": "<=",
    "eq": "==",
    "and": "&",
    "or": "|",
}


def to_text(program: Any, *, indent: str = "") -> str:
    """Return the text of everything that the outputs need.

    Constants, inputs and negations are written where they are used, not on lines of their own.
    """
    names = _names(program)
    needed = needed_values(program)
    dead = sum(op not in _INLINE and not used for (op, _, _), used in zip(program.code, needed, strict=True))
    size = f"{len(program.code)} instructions" + (f", {dead} unused ones not shown" if dead else "")
    inputs = ", ".join(_signature(a) for a in program.inputs)
    outputs = ", ".join(_signature(a) for a in program.outputs)
    lines = [f"{indent}{program.name}({inputs}) -> {outputs}    # {program.dtype}, {size}"]
    for value, (op, args, attr) in enumerate(program.code):
        if op in _INLINE or not needed[value]:
            continue
        if op == "loop":
            start = ", ".join(names[a] for a in args[: attr.states])
            outer = ", ".join(names[a] for a in args[attr.states :])
            word = "skippable loop" if attr.skippable else "loop"
            turns = f"{word} at most {attr.limit} times"
            lines.append(f"{indent}  %{value} = {turns} from ({start}) with outer = ({outer})")
            lines.append(to_text(attr.body, indent=indent + "    "))
        elif op == "map":
            rows = [", ".join(names[a] for a in row) for row in attr.rows(args)]
            shared = ", ".join(names[a] for a in attr.shared(args))
            lines.append(
                f"{indent}  %{value} = map over {attr.count} rows ({'; '.join(rows)}) with shared = "
                f"({shared})"
            )
            lines.append(to_text(attr.body, indent=indent + "    "))
        elif op == "result":
            lines.append(f"{indent}  %{value} = %{args[0]}.state[{attr}]")
        else:
            lines.append(f"{indent}  %{value} = {_expression(op, [names[a] for a in args])}")
    for array, values in zip(program.outputs, program.results, strict=True):
        lines.append(f"{indent}  {array.name} = [{', '.join(names[v] for v in values)}]")
    return "\n".join(lines)


def _expression(op: str, args: list[str]) -> str:
    if op in _INFIX:
        return f"{args[0]} {_INFIX[op]} {args[1]}"
    return f"{op}({', '.join(args)})"


def _names(program: Any) -> list[str]:
    names: list[str] = []
    for value, (op, args, attr) in enumerate(program.code):
        if op == "const":
            names.append(repr(attr))
        elif op == "input":
            array = program.inputs[attr[0]]
            names.append(array.name + element_text(array.shape, attr[1]))
        elif op == "neg":
            names.append(f"-{names[args[0]]}")
        else:
            names.append(f"%{value}")
    return names


def element_text(shape: tuple[int, ...], element: int) -> str:
    """Return `[i,j]` for a row-major element number; the empty string for a scalar."""
    index = []
    for size in reversed(shape):
        element, k = divmod(element, size)
        index.append(str(k))
    return f"[{','.join(reversed(index))}]" if index else ""


def _signature(array: Any) -> str:
    return array.name + (f"[{','.join(map(str, array.shape))}]" if array.shape else "")
