"""Check the sizes of files and functions: python tools/limits.py, run by make lint.

Files have at most 400 lines; functions at most 60 without their docstring, 10 parameters, and 4 levels of
nesting. Complexity is checked by ruff.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"
FILE_LINES = 400
FUNCTION_LINES = 60
PARAMETERS = 10
NESTING = 4

# Public functions with more parameters, each optional one by keyword as in SciPy; a further one needs a change here.
PUBLIC = {
    "linkwork.algorithms.constrained.constrained_dynamics_derivatives.constrained_dynamics_derivatives": 12,
    "linkwork.flexible.beam.beam": 11,
    "linkwork.flexible.nodal.from_nodes": 11,
    "linkwork.functions.constrained.constrained_dynamics": 14,
    "linkwork.functions.constrained.impact": 11,
    "linkwork.functions.contact.step": 15,
    "linkwork.functions.engine.model_function.model_function": 11,
    "linkwork.functions.hybrid.hybrid_dynamics": 15,
    "linkwork.functions.hybrid_derivatives.hybrid_dynamics_derivatives": 11,
    "linkwork.identification.excitation.excitation_trajectory": 12,
    "linkwork.identification.fit.fit_parameters": 13,
    "linkwork.interop.gymnasium.VectorEnv.__init__": 19,
    "linkwork.model.loop_builder.LoopBuilder.add_loop": 19,
    "linkwork.model.model.Model.with_loop": 13,
    "linkwork.model.tree_builder.TreeBuilder.add_joint": 17,
    "linkwork.simulation.rollout.rollout": 21,
    "linkwork.simulation.simulation.simulate": 23,
    "linkwork.studies.study.Study.__init__": 11,
}
# Functions that are still over a limit, with their lines and parameters: none may grow, and none be added.
REMAINING = {
    "linkwork.algorithms.tree.lie_derivatives.hybrid_dynamics_derivative": (70, 6),
    "linkwork.loops.analysis.ClusterAnalysis._on_supports": (65, 1),
}
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_BLOCKS = (ast.If, ast.For, ast.While, ast.With, ast.Try, ast.Match)


def main() -> int:
    """Print what is over a limit; return the exit status."""
    problems = [problem for path in sorted(SOURCE.rglob("*.py")) for problem in problems_of(path)]
    print("\n".join(problems) or "Sizes of files and functions are within limits.")
    return bool(problems)


def problems_of(path: Path) -> Iterator[str]:
    """Yield a sentence for each limit that a file exceeds."""
    text = path.read_text()
    if (lines := text.count("\n")) > FILE_LINES:
        yield f"{path}: {lines} lines, expected at most {FILE_LINES}"
    module = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
    for name, function in functions_in(ast.parse(text), module):
        lines, parameters = lines_of(function), parameters_of(function)
        max_lines, max_parameters = REMAINING.get(name, (FUNCTION_LINES, PUBLIC.get(name, PARAMETERS)))
        for kind, count, limit in (
            ("lines", lines, max(max_lines, FUNCTION_LINES)),
            ("parameters", parameters, max(max_parameters, PARAMETERS)),
            ("levels of nesting", nesting(function), NESTING),
        ):
            if count > limit:
                yield f"{path}:{function.lineno}: {name}: {count} {kind}, expected at most {limit}"


def functions_in(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Yield all functions and methods below a node, with their full names."""
    for child in ast.iter_child_nodes(node):
        name = f"{prefix}.{child.name}" if isinstance(child, (*_FUNCTIONS, ast.ClassDef)) else prefix
        if isinstance(child, _FUNCTIONS):
            yield name, child
        yield from functions_in(child, name)


def lines_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the lines of a function without decorators and docstring."""
    lines = (function.end_lineno or function.lineno) - function.lineno + 1
    first = function.body[0]
    if ast.get_docstring(function, clean=False) is not None:
        lines -= (first.end_lineno or first.lineno) - first.lineno + 1
    return lines


def parameters_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the number of parameters besides self and cls."""
    arguments = function.args
    named = [each.arg for each in (*arguments.posonlyargs, *arguments.args)]
    count = len(named[named[:1] in (["self"], ["cls"]) :]) + len(arguments.kwonlyargs)
    return count + (arguments.vararg is not None) + (arguments.kwarg is not None)


def nesting(node: ast.AST) -> int:
    """Return how deeply blocks are nested in a function; functions inside it count for themselves."""
    deepest = 0
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (*_FUNCTIONS, ast.ClassDef, ast.Lambda)):
            continue
        is_elif = isinstance(node, ast.If) and node.orelse == [child] and isinstance(child, ast.If)
        deepest = max(deepest, nesting(child) + (isinstance(child, _BLOCKS) and not is_elif))
    return deepest


if __name__ == "__main__":
    sys.exit(main())
