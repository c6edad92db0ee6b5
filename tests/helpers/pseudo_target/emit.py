"""From a program to Python source."""

from __future__ import annotations

from linkwork.compiler.ir.program import BoundedLoop, Program

EXPRESSIONS = {
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "div": "{0} / {1}",
    "neg": "-{0}",
    "fma": "h.fma({0}, {1}, {2})",
    "sqrt": "h.sqrt({0})",
    "abs": "abs({0})",
    "min": "h.select({0} < {1}, {0}, {1})",
    "max": "h.select({0} > {1}, {0}, {1})",
    "rint": "h.rint({0})",
    "pow2": "h.pow2({0})",
    "exponent": "h.exponent({0})",
    "lt": "{0} < {1}",
    "le": "{0} <= {1}",
    "eq": "{0} == {1}",
    "and": "{0} & {1}",
    "or": "{0} | {1}",
    "not": "~{0}",
    "select": "h.select({0}, {1}, {2})",
}


def emit(program: Program, name: str = "run") -> str:
    """The text of a function of the input columns and the helpers `h`; a loop's body becomes a function
    inside it.
    """
    lines = [f"def {name}(inputs, h):"]
    for value, (op, args, attr) in enumerate(program.code):
        named = [f"v{a}" for a in args]
        if op in EXPRESSIONS:
            text = EXPRESSIONS[op].format(*named)
        elif op == "const":
            text = f"h.constant({attr if isinstance(attr, bool) else attr.hex()!r})"
        elif op == "input":
            text = f"inputs[{attr[0]}][{attr[1]}]"
        elif isinstance(attr, BoundedLoop):
            body = emit(attr.body, f"step{value}")
            lines += [f"    {line}" for line in body.splitlines()]
            text = f"h.loop(step{value}, [{', '.join(named)}], {attr.states}, {attr.limit})"
        else:  # a result: one state of a loop
            text = f"{named[0]}[{attr}]"
        lines.append(f"    v{value} = {text}")
    results = (f"[{', '.join(f'v{v}' for v in values)}]" for values in program.results)
    lines.append(f"    return [{', '.join(results)}]")
    return "\n".join(lines) + "\n"
