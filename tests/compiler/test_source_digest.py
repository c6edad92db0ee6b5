"""The cache's key holds the code of the package however it is installed: as files, in a zip, compiled only,
frozen.
"""

from __future__ import annotations

import compileall
import importlib
import importlib.abc
import importlib.machinery
import py_compile
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import linkwork
from linkwork.compiler.runtime import compiler, source
from linkwork.compiler.runtime import kernel as module
from linkwork.compiler.runtime.cache import Cache
from waiting import PATIENCE

SOURCE = Path(linkwork.__file__).parent
FILES = [
    "__init__.py",
    "ir/__init__.py",
    "ir/program.py",
    "targets/__init__.py",
    "targets/cpu/__init__.py",
    "targets/cpu/m.py",
]


def as_files(tree: Path) -> Path:
    return tree


def as_zip(tree: Path) -> Path:
    with zipfile.ZipFile(tree.with_suffix(".zip"), "w") as archive:
        for path in sorted(tree.rglob("*.py*")):
            if path.is_file():
                archive.write(path, path.relative_to(tree))
    return tree.with_suffix(".zip")


def compiled_only(tree: Path) -> Path:
    by_content = py_compile.PycInvalidationMode.UNCHECKED_HASH  # not by time, which passes between two trees
    assert compileall.compile_dir(tree, legacy=True, quiet=1, ddir="same", invalidation_mode=by_content)
    for path in tree.rglob("*.py"):
        path.unlink()
    return tree


def compiled_in_a_zip(tree: Path) -> Path:
    return as_zip(compiled_only(tree))


WAYS: dict[str, Callable[[Path], Path]] = {
    f.__name__: f for f in (as_files, as_zip, compiled_only, compiled_in_a_zip)
}


@pytest.fixture
def forget() -> Iterator[None]:
    before = list(sys.path)
    yield
    sys.path[:] = before
    for name in [name for name in sys.modules if name.partition(".")[0] == "tiny"]:
        del sys.modules[name]
    sys.path_importer_cache.clear()
    importlib.invalidate_caches()


def digest_of(root: Path, way: str, rooms: tuple[str, ...], **texts: str) -> str | None:
    """The digest of a package of FILES, some of them with another text, installed in a way."""
    tree = root / str(len(list(root.iterdir()))) / "tree"
    for name in {**dict.fromkeys(FILES), **texts}:
        (tree / "tiny" / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / "tiny" / name).write_text(texts.get(name, "GRAVITY = 9.81\n"))
    place = WAYS[way](tree)
    sys.path.insert(0, str(place))
    try:
        importlib.invalidate_caches()
        importlib.import_module("tiny")
        return source.code_digest(rooms, "tiny")
    finally:
        sys.path.remove(str(place))
        for name in [name for name in sys.modules if name.partition(".")[0] == "tiny"]:
            del sys.modules[name]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.usefixtures("forget")
def test_the_digest_holds_every_module_of_its_rooms(tmp_path: Path, way: str) -> None:
    other = "GRAVITY = 9.82\n"
    whole = [digest_of(tmp_path, way, (".",), **texts) for texts in ({}, *({name: other} for name in FILES))]
    assert None not in whole and len(set(whole)) == len(FILES) + 1
    assert whole[0] not in (None, digest_of(tmp_path, way, (".",), **{"ir/new.py": ""}))
    rooms = ("ir", "targets/cpu")
    some = [digest_of(tmp_path, way, rooms, **texts) for texts in ({}, *({name: other} for name in FILES))]
    assert [digest == some[0] for digest in some[1:]] == [not name.startswith(rooms) for name in FILES]


class Frozen(importlib.abc.InspectLoader):
    """A loader of code that has no files, as those of frozen programs; and its finder, which may list its
    modules.
    """

    def __init__(self, texts: dict[str, str | None], lists: bool = True) -> None:
        self.texts = texts
        self.lists = lists

    def get_source(self, fullname: str) -> None:
        return None

    def get_code(self, fullname: str) -> Any:
        text = self.texts[fullname]
        return None if text is None else compile(text, "<frozen>", "exec", dont_inherit=True)

    def find_spec(self, fullname: str, target: Any = None) -> Any:
        if fullname not in self.texts:
            return None
        package = any(name.startswith(fullname + ".") for name in self.texts)
        return importlib.machinery.ModuleSpec(fullname, self, is_package=package)

    def iter_modules(self, prefix: str = "") -> Any:
        for name in self.texts if self.lists else ():
            if name.count(".") == 1:
                yield prefix + name.rpartition(".")[2], False


def frozen_digest(monkeypatch: pytest.MonkeyPatch, loader: Frozen) -> str | None:
    spec = loader.find_spec("tiny")
    spec.submodule_search_locations = ["nowhere"]
    package = ModuleType("tiny")
    package.__spec__ = spec
    monkeypatch.setitem(sys.modules, "tiny", package)
    monkeypatch.setitem(sys.modules, "tiny.a", ModuleType("tiny.a"))
    monkeypatch.setitem(sys.path_importer_cache, "nowhere", loader)  # type: ignore[arg-type]
    return source.code_digest((".",), "tiny")


def test_the_digest_of_code_without_files(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "def f(x):\n    return {x in {1, 2, 'a', None}: 9.81}\n"
    texts: dict[str, str | None] = {"tiny": "", "tiny.a": text, "tiny.b": ""}
    first = frozen_digest(monkeypatch, Frozen(texts))
    assert first is not None and first == frozen_digest(monkeypatch, Frozen(dict(texts)))
    for old, new in (("9.81", "9.82"), ("'a'", "'b'"), ("x in", "x not in"), ("def f", "y = 1\ndef f")):
        changed = text.replace(old, new)
        assert frozen_digest(monkeypatch, Frozen({**texts, "tiny.a": changed})) not in (None, first)


def test_code_that_cannot_be_read_has_no_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    texts: dict[str, str | None] = {"tiny": "", "tiny.a": "x = 1"}
    assert frozen_digest(monkeypatch, Frozen(texts)) is not None
    assert frozen_digest(monkeypatch, Frozen({**texts, "tiny.b": None})) is None  # machine code
    assert frozen_digest(monkeypatch, Frozen(texts, lists=False)) is None  # a is loaded, but not listed
    assert source.code_digest(("no/such/room",)) is None


def test_without_a_digest_nothing_is_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "source_digest", lambda rooms=None: None)
    cache = Cache(tmp_path / "cache")
    for build in (
        lambda program: module.build_kernel(program, cache=cache),
        lambda program: module.build_named_kernel("identity", lambda: program, "float64", cache=cache),
    ):
        kernel = build(linkwork.trace(lambda x: x * 2.0, {"x": 2}))
        assert kernel([1.0, 2.0]).tolist() == [2.0, 4.0]
    assert not (tmp_path / "cache").exists() and "cannot read" in cache.notes[-1]


RUN = """
import sys
sys.path.insert(0, sys.argv[1])
import linkwork as lw, linkwork.robots
model = lw.robots.four_bar()
print(lw.__file__.startswith(sys.argv[1]), lw.mass_matrix(model, [0.1] * model.nq).tolist())
"""


LATER = """
_trace = trace
def trace(body, inputs, name):
    return _trace(lambda *arrays: body(*arrays) + 1.0, inputs, name=name)
"""


@pytest.mark.parametrize("way", ["as_zip", pytest.param("compiled_only", marks=pytest.mark.slow)])
def test_two_versions_share_no_kernel(tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole package, twice: in the second, mass matrices are one too large."""
    monkeypatch.setenv("LINKWORK_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("PYTHONPATH", raising=False)
    found = []
    for version in ("first", "second"):
        tree = tmp_path / version
        shutil.copytree(SOURCE, tree / "linkwork", ignore=shutil.ignore_patterns("__pycache__", "bench"))
        if version == "second":
            with (tree / "linkwork/functions/engine/traced_function.py").open("a") as file:
                file.write(LATER)
        place = WAYS[way](tree)
        done = subprocess.run(
            [sys.executable, "-c", RUN, str(place)], capture_output=True, text=True, timeout=PATIENCE
        )
        assert done.stdout.startswith("True"), done.stderr
        found.append(done.stdout)
    assert found[0] != found[1]
