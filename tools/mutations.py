"""Small errors that can be planted in Python code: operators swapped, signs flipped, constants off by one,
terms dropped.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

OPERATORS = {
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "/",
    ast.Div: "*",
    ast.FloorDiv: "/",
    ast.Mod: "//",
    ast.Pow: "*",
}
SYMBOLS = {ast.MatMult: "@", ast.Sub: "-", ast.Div: "/"}  # of operators whose operands have an order
COMPARISONS = {
    ast.Lt: ("<=", ">="), ast.LtE: ("<", ">"), ast.Gt: (">=", "<="), ast.GtE: (">", "<"), ast.Eq: ("!=",), ast.NotEq: ("==",),
    ast.Is: ("is not",), ast.IsNot: ("is",), ast.In: ("not in",), ast.NotIn: ("in",),
}  # fmt: skip
LOOSE = {
    ("<", "<="),
    ("<=", "<"),
    (">", ">="),
    (">=", ">"),
}  # of numbers with fractions, the same nearly everywhere
SKIPPED = (ast.JoinedStr, ast.Raise, ast.Assert, ast.Import, ast.ImportFrom)


class Mutation(NamedTuple):
    """One error: what replaces the text between two places of a file, and of what kind it is."""

    kind: str
    line: int
    begin: int
    end: int
    text: str


class _Places:
    """Places of syntax nodes in a text, in bytes."""

    def __init__(self, source: bytes) -> None:
        self.source = source
        self.starts = [0]
        for line in source.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))

    def span(self, node: ast.AST) -> tuple[int, int]:
        begin = self.starts[node.lineno - 1] + node.col_offset  # type: ignore[attr-defined]
        return begin, self.starts[node.end_lineno - 1] + node.end_col_offset  # type: ignore[attr-defined]

    def text(self, node: ast.AST) -> str:
        begin, end = self.span(node)
        return self.source[begin:end].decode()


def mutations(source: bytes) -> list[Mutation]:
    """Return all errors that can be planted in a module; see `changes_meaning`."""
    tree = ast.parse(source)
    places = _Places(source)
    found = []
    for node in _reached(tree):
        begin, end = places.span(node)
        line = node.lineno  # type: ignore[attr-defined]
        found += [Mutation(kind, line, begin, end, text) for kind, text in _changes(node, places)]
    return found


def changes_meaning(source: bytes, mutation: Mutation) -> bool:
    """Return whether a planted error leaves a valid module with a different meaning."""
    try:
        return ast.dump(ast.parse(apply(source, mutation))) != ast.dump(ast.parse(source))
    except SyntaxError:
        return False


def apply(source: bytes, mutation: Mutation) -> bytes:
    """Return the source with an error planted."""
    return source[: mutation.begin] + mutation.text.encode() + source[mutation.end :]


def _reached(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield nodes whose change may change results: no annotations, error messages, decorators or
    documentation.
    """
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, SKIPPED):
            if isinstance(node, ast.Raise):
                yield node
            continue
        if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "__name__ == '__main__'"):
            continue
        if isinstance(node, (ast.expr, ast.stmt)):
            yield node
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for part in (*node.args.defaults, *filter(None, node.args.kw_defaults), *node.body):
                yield from (
                    _reached(ast.Module([part], []))
                    if isinstance(part, ast.stmt)
                    else _reached(ast.Expr(part))
                )
        elif isinstance(node, ast.AnnAssign):
            if node.value is not None:
                yield from _reached(ast.Expr(node.value))
        else:
            yield from _reached(node)


def _changes(node: ast.AST, places: _Places) -> Iterator[tuple[str, str]]:
    """Yield kinds of errors and the text that replaces a node."""
    match node:
        case ast.BinOp(left, op, right):
            a = places.text(left)
            b = places.text(right)
            if type(op) in OPERATORS:
                yield "operator", f"(({a}) {OPERATORS[type(op)]} ({b}))"
            if isinstance(op, (ast.Add, ast.Sub)):
                yield "dropped term", f"({a})"
                yield "dropped term", f"({b})"
            if type(op) in SYMBOLS:
                yield "swapped operands", f"(({b}) {SYMBOLS[type(op)]} ({a}))"
            if isinstance(op, (ast.Mult, ast.MatMult)):
                yield "sign", f"(-({places.text(node)}))"
        case ast.UnaryOp(ast.USub() | ast.Not(), operand):
            yield (
                "sign" if isinstance(node.op, ast.USub) else "negated condition",
                f"({places.text(operand)})",
            )
        case ast.Compare(left, [op], [right]):
            for other in COMPARISONS[type(op)]:
                kind = "boundary" if (_sign(op), other) in LOOSE else "comparison"
                yield kind, f"(({places.text(left)}) {other} ({places.text(right)}))"
        case ast.BoolOp(op, [first, second]):
            yield (
                "and / or",
                f"(({places.text(first)}) {'or' if isinstance(op, ast.And) else 'and'} ({places.text(second)}))",
            )
        case ast.Constant(bool() as value):
            yield "constant", str(not value)
        case ast.Constant(int() | float() as value):
            yield "constant", repr(value + 1)
            yield "constant", f"({value - 1!r})"
        case ast.If() | ast.While() | ast.IfExp():
            test = places.text(node.test)
            text = places.text(node)
            before = places.span(node.test)[0] - places.span(node)[0]
            head = text.encode()[:before].decode()
            tail = text.encode()[before + len(test.encode()) :].decode()
            yield "negated condition", f"{head}(not ({test})){tail}"
        case ast.Call(function, [*arguments], keywords) if len(arguments) > 1 and not _starred(arguments):
            for k in range(len(arguments) - 1):
                swapped = [*arguments[:k], arguments[k + 1], arguments[k], *arguments[k + 2 :]]
                named = [
                    f"{word.arg}=" * bool(word.arg) + "**" * (not word.arg) + places.text(word.value)
                    for word in keywords
                ]
                yield (
                    "swapped arguments",
                    f"{places.text(function)}({', '.join([*map(places.text, swapped), *named])})",
                )
        case ast.AugAssign(target, op, value) if type(op) in (ast.Add, ast.Sub):
            yield (
                "operator",
                f"{places.text(target)} {'-' if isinstance(op, ast.Add) else '+'}= {places.text(value)}",
            )
            yield "removed statement", "pass"
        case ast.Raise() | ast.Continue() | ast.Break() | ast.Expr(ast.Call()):
            yield "removed statement", "pass"


def _sign(op: ast.cmpop) -> str:
    return {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}.get(type(op), "")


def _starred(arguments: list[ast.expr]) -> bool:
    return any(isinstance(argument, ast.Starred) for argument in arguments)
