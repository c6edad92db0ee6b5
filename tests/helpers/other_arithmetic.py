"""Another machine's arithmetic: linkwork with a BLAS that sums from the last term to the first, and a
mathematical library and LAPACK whose last bits are others. Run as a script: it prints one line for each
program of the robots that are named."""

from __future__ import annotations

import ast
import builtins
import importlib.abc
import importlib.machinery
import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np


def backwards(a: Any, b: Any) -> Any:
    """a @ b, floats summed from the last term to the first."""
    if not all(isinstance(x, np.ndarray) and x.dtype == float for x in (a, b)):
        return a @ b
    found = a[..., ::-1].astype(object) @ (b[::-1] if b.ndim == 1 else b[..., ::-1, :]).astype(object)
    return found.astype(float) if isinstance(found, np.ndarray) else float(found)


class _Products(ast.NodeTransformer):
    def visit_BinOp(self, node: ast.BinOp) -> Any:
        self.generic_visit(node)
        if not isinstance(node.op, ast.MatMult):
            return node
        return ast.copy_location(
            ast.Call(ast.Name("_backwards", ast.Load()), [node.left, node.right], []), node
        )


class _Loader(importlib.machinery.SourceFileLoader):
    def get_code(self, fullname: str) -> Any:
        tree = ast.fix_missing_locations(_Products().visit(ast.parse(self.get_data(self.path))))
        return compile(tree, self.path, "exec", dont_inherit=True)


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        spec = (
            importlib.machinery.PathFinder.find_spec(name, path, target)
            if name.partition(".")[0] == "linkwork"
            else None
        )
        if spec and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


def install() -> None:
    """Change the arithmetic of everything that is imported from now on."""
    rng = np.random.default_rng(0)

    def shaken(x: Any) -> Any:
        x = np.asarray(x)
        return x * (1.0 + rng.choice([-2.2e-16, 0.0, 2.2e-16], size=x.shape)) if x.dtype == float else x

    def other(function: Callable[..., Any]) -> Callable[..., Any]:
        def changed(*args: Any, **named: Any) -> Any:
            found = function(*args, **named)
            if not isinstance(found, tuple):
                return shaken(found)
            return (
                type(found)(*map(shaken, found)) if hasattr(found, "_fields") else tuple(map(shaken, found))
            )

        return changed

    builtins._backwards = backwards  # type: ignore[attr-defined]
    sys.meta_path.insert(0, _Finder())
    for name in ("norm", "svd", "lstsq", "eigvalsh", "inv", "solve", "pinv", "det"):
        setattr(np.linalg, name, other(getattr(np.linalg, name)))
    for name in (
        "sin",
        "cos",
        "arctan2",
        "arcsin",
        "arccos",
        "exp",
        "log",
        "hypot",
        "dot",
        "einsum",
        "inner",
    ):
        setattr(np, name, other(getattr(np, name)))
    for name in ("sin", "cos", "tan", "atan2", "hypot", "asin", "acos", "exp", "log"):
        setattr(math, name, other(getattr(math, name)))


def skew_chain() -> Any:
    """A chain of joints about skew axes, with skew inertias."""
    from linkwork.joints import Cylindrical, Helical, Planar, Prismatic, Revolute
    from linkwork.model import ModelBuilder

    rng = np.random.default_rng(3)
    builder = ModelBuilder("skew")
    on = "world"
    for k, kind in enumerate((Revolute, Prismatic, Cylindrical, Planar, Helical)):
        B = rng.normal(size=(3, 3))
        A = (B.astype(object) @ B.T.astype(object)).astype(float)
        axis = tuple(rng.normal(size=3).tolist())
        builder.add_body(
            f"b{k}", mass=1.0 + k, center=rng.normal(size=3), inertia=np.trace(A) * np.eye(3) - A
        )
        where = {"xyz": rng.normal(size=3), "rpy": rng.normal(size=3), "armature": 0.1}
        builder.add_joint(
            f"j{k}", Helical(0.1, axis) if kind is Helical else kind(axis), parent=on, child=f"b{k}", **where
        )
        on = f"b{k}"
    return builder.add_frame("tip", body=on, xyz=(0.1, 0.2, 0.3), rpy=(0.4, 0.5, 0.6)).build()


def main(names: list[str]) -> None:
    import linkwork as lw
    from linkwork.compiler.passes import lower

    for name in names:
        model = skew_chain() if name == "skew_chain" else getattr(lw.robots, name)()
        print(name, model.digest)
        for function in (lw.forward_dynamics, lw.inverse_dynamics, lw.mass_matrix):
            print(name, function.__name__, lower(function.program(model)).digest)
    chain = skew_chain()
    for constraint in (lw.OnPlane("tip", normal=(0.3, 0.5, 0.7)), lw.Weld("tip")):
        print(constraint, lower(lw.constrained_dynamics.program(chain, constraints=(constraint,))).digest)
    print("frame", lower(lw.frame_jacobian.program(chain, frame="tip")).digest)


if __name__ == "__main__":
    if sys.argv[1] == "other":
        install()
    main(sys.argv[2:])
