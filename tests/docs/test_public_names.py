"""Public names: imported on first use, and declared alike for Python and for type checkers."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import linkwork as lw

STUB = Path(lw.__file__).with_suffix(".pyi")


def test_the_stub_declares_what_the_package_provides() -> None:
    declared = {}
    for node in ast.parse(STUB.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom):
            declared |= {name.asname: (node.module, name.name) for name in node.names}
    for name in lw.__all__:
        module, attribute = declared.pop(name)
        value = getattr(lw, name)
        imported = __import__(module, fromlist=[attribute])
        assert value is getattr(imported, attribute), name
    assert declared == {}


def test_functions_are_not_hidden_by_packages() -> None:
    code = "import linkwork.simulation, linkwork.visualization, linkwork.spatial_operators, linkwork.loops, linkwork as lw\n"
    code += "print(callable(lw.simulate), callable(lw.view), callable(lw.operators), callable(lw.loop))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True"] * 4


def test_importing_the_package_imports_no_other_package() -> None:
    packages = ("linkwork", "numpy", "llvmlite")
    code = (
        f"import sys, linkwork; print(*sorted(name for name in sys.modules if name.startswith({packages})))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["linkwork", "linkwork.version"]


def test_derivative_rules_are_found_without_importing_their_module() -> None:
    """The rule of `step` stands in a module that nothing else imports."""
    code = "import linkwork as lw; print(lw.step.rule is not None, lw.forward_dynamics.rule is not None)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "True"]


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'forward_dynamic'"):
        lw.forward_dynamic  # noqa: B018
    assert isinstance(lw.simulation, ModuleType) and "forward_dynamics" in dir(lw)


def test_every_module_can_be_imported() -> None:
    """Modules without optional packages import; the others name the missing package."""
    names = [module.name for module in pkgutil.walk_packages(lw.__path__, "linkwork.")]
    assert len(names) > 400
    for name in names:
        if name in ("linkwork.__main__", "linkwork.formats.mjcf_child"):  # programs
            continue
        try:
            importlib.import_module(name)
        except lw.MissingPackageError:
            assert name.startswith("linkwork.interop.")
