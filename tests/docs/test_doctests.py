"""Examples in docstrings run as they are written."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import numpy as np
import pytest

import linkwork as lw

SOURCE = Path(lw.__file__).parent
MODULES = [path for path in sorted(SOURCE.rglob("*.py")) if ">>> " in path.read_text(encoding="utf-8")]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_examples_of_a_module(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    name = ".".join(("linkwork", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    results = doctest.testmod(
        importlib.import_module(name), extraglobs={"lw": lw, "np": np}, optionflags=options
    )
    assert results.attempted > 0 and results.failed == 0
