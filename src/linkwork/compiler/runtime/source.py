"""Digest of this package's code, loaded from files, a zip, bytecode only, or a frozen application."""

from __future__ import annotations

import hashlib
import pkgutil
import sys
from collections.abc import Iterable, Iterator
from importlib.machinery import ModuleSpec
from types import CodeType
from typing import Any

from linkwork.compiler.runtime.signals import reraise_signal

PACKAGE = __name__.partition(".")[0]


def code_digest(packages: Iterable[str], package: str = PACKAGE) -> str | None:
    """Return a digest of all modules in parts of a package, or None if one cannot be read.

    `packages` are paths such as "compiler/ir", or "." for the whole package. Without a digest two versions
    of the package cannot be distinguished.
    """
    digest = hashlib.sha256()
    for path in packages:
        name = package if path == "." else f"{package}.{path.replace('/', '.')}"
        try:
            modules = dict(_modules(_spec(name, package)))
        except Exception as error:  # foreign loaders may fail in any way
            reraise_signal(error)
            return None
        loaded = {known for known in sys.modules if known == name or known.startswith(f"{name}.")}
        if not modules or not loaded <= modules.keys():  # the loader does not list all modules that it loads
            return None
        for module, data in sorted(modules.items()):
            digest.update(b"%d %s %d " % (len(module), module.encode(), len(data)) + data)
    return digest.hexdigest()


def _spec(name: str, package: str) -> ModuleSpec:
    """Return the spec of a package or subpackage without importing it."""
    if name == package:
        spec = sys.modules[name].__spec__
    else:
        parent, _, _ = name.rpartition(".")
        spec = next(spec for spec in _submodules(_spec(parent, package)) if spec.name == name)
    if spec is None:
        raise ImportError(name)
    return spec


def _modules(spec: ModuleSpec) -> Iterator[tuple[str, bytes]]:
    """Yield the names and code of a module and, for a package, of all modules below it."""
    yield spec.name, _code(spec)
    for inner in _submodules(spec):
        yield from _modules(inner)


def _submodules(spec: ModuleSpec) -> Iterator[ModuleSpec]:
    """Yield the specs of the modules directly inside a package."""
    for module in pkgutil.iter_modules(spec.submodule_search_locations or ()):
        inner = module.module_finder.find_spec(f"{spec.name}.{module.name}", None)
        if inner is None:
            raise ImportError(module.name)
        yield inner


def _code(spec: ModuleSpec) -> bytes:
    """Return the file that a module is loaded from (source, bytecode, library), or its code object."""
    loader: Any = spec.loader
    if hasattr(loader, "get_data") and hasattr(loader, "get_filename"):
        try:
            return b"file " + loader.get_data(loader.get_filename(spec.name))
        except (OSError, ImportError) as error:
            reraise_signal(error)  # frozen: the file name is that of the build machine
    code = loader.get_code(spec.name)
    if code is None:
        raise ImportError(spec.name)
    return b"code " + repr(_plain(code)).encode("utf-8", "surrogatepass")


def _plain(value: Any) -> Any:
    """Return a code object as plain values with the same repr in every process."""
    if isinstance(value, CodeType):
        names = (value.co_name, value.co_names, value.co_varnames, value.co_freevars, value.co_cellvars)
        counts = (value.co_flags, value.co_argcount, value.co_posonlyargcount, value.co_kwonlyargcount)
        return "code", names, counts, value.co_code, value.co_exceptiontable, _plain(value.co_consts)
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    if isinstance(value, frozenset):
        return "set", sorted(map(repr, map(_plain, value)))
    return value
