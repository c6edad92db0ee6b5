"""The digest of this package's own code, however it is installed: as files, in a zip, compiled only, or frozen."""

from __future__ import annotations

import hashlib
import pkgutil
import sys
from collections.abc import Iterable, Iterator
from importlib.machinery import ModuleSpec
from types import CodeType
from typing import Any

PACKAGE = __name__.partition(".")[0]


def code_digest(rooms: Iterable[str], package: str = PACKAGE) -> str | None:
    """Digest of all modules in some rooms of a package ("ir", "targets/cpu", "." for all of it).

    None where one of them cannot be read: then nothing tells two versions of the package apart.
    """
    digest = hashlib.sha256()
    for room in rooms:
        name = package if room == "." else f"{package}.{room.replace('/', '.')}"
        try:
            parts = dict(_modules(_spec(name, package)))
        except Exception:  # loaders of others may fail in any way
            return None
        loaded = {known for known in sys.modules if known == name or known.startswith(f"{name}.")}
        if not parts or not loaded <= parts.keys():  # the loader does not list all that it loads
            return None
        for module, data in sorted(parts.items()):
            digest.update(b"%d %s %d " % (len(module), module.encode(), len(data)) + data)
    return digest.hexdigest()


def _spec(name: str, package: str) -> ModuleSpec:
    """Where a package or a package in it was loaded from, without loading it."""
    if name == package:
        found = sys.modules[name].__spec__
    else:
        parent, _, _ = name.rpartition(".")
        found = next(spec for spec in _inside(_spec(parent, package)) if spec.name == name)
    if found is None:
        raise ImportError(name)
    return found


def _modules(spec: ModuleSpec) -> Iterator[tuple[str, bytes]]:
    """The names and code of a module and, in a package, of all modules below it."""
    yield spec.name, _code(spec)
    for inner in _inside(spec):
        yield from _modules(inner)


def _inside(spec: ModuleSpec) -> Iterator[ModuleSpec]:
    for found in pkgutil.iter_modules(spec.submodule_search_locations or ()):
        inner = found.module_finder.find_spec(f"{spec.name}.{found.name}", None)
        if inner is None:
            raise ImportError(found.name)
        yield inner


def _code(spec: ModuleSpec) -> bytes:
    """The file that a module is loaded from (source, bytecode, library); its code where there is no file."""
    loader: Any = spec.loader
    if hasattr(loader, "get_data") and hasattr(loader, "get_filename"):
        try:
            return b"file " + loader.get_data(loader.get_filename(spec.name))
        except (OSError, ImportError):
            pass  # frozen: it only says where its file once was
    code = loader.get_code(spec.name)
    if code is None:
        raise ImportError(spec.name)
    return b"code " + repr(_parts(code)).encode("utf-8", "surrogatepass")


def _parts(value: Any) -> Any:
    """What a code object does, as plain values that are written the same way in every process, wherever it came from."""
    if isinstance(value, CodeType):
        names = (value.co_name, value.co_names, value.co_varnames, value.co_freevars, value.co_cellvars)
        counts = (value.co_flags, value.co_argcount, value.co_posonlyargcount, value.co_kwonlyargcount)
        return "code", names, counts, value.co_code, value.co_exceptiontable, _parts(value.co_consts)
    if isinstance(value, tuple):
        return tuple(map(_parts, value))
    if isinstance(value, frozenset):
        return "set", sorted(map(repr, map(_parts, value)))
    return value
