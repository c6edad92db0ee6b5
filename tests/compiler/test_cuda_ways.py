"""The way from a program to a kernel on a GPU, with the compiler and the measurement replaced: every
candidate is emitted.
"""

from __future__ import annotations

from typing import Any

import pytest
from test_cuda_pairs import limbs

import linkwork as lw
from linkwork.compiler.targets.cuda import DEVICES
from linkwork.compiler.targets.cuda import pairs as pairs_module


class FakeGpu:
    number = 0
    device = DEVICES["sm_90"]
    name = "none"


def test_every_way_is_emitted_and_the_fastest_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    from linkwork.compiler.runtime.cuda import build as kernel_module

    monkeypatch.setattr(pairs_module, "MIN_PAIRS", 5)
    monkeypatch.setattr(kernel_module, "MIN_MEASURED_SIZE", 0)
    monkeypatch.setattr(kernel_module, "MAX_CANDIDATES", 100)
    texts: list[str] = []

    def compiled(source: str, arch: str) -> bytes:
        texts.append(source)
        return source.encode()

    def measured(kernel: Any, here: Any, rows: int) -> float:
        header, _ = kernel._code[here.device.arch]
        return float(header["threads"] != header["rows"]) + 1e-3 * header["threads"]

    monkeypatch.setattr(kernel_module, "compile_text", compiled)
    monkeypatch.setattr(kernel_module, "measure_rate", measured)
    program = limbs()
    lowered = lw.lower(program, "float64", arranged=None)
    header, cubin = kernel_module.fastest(program, lowered, FakeGpu())  # type: ignore[arg-type]
    assert len(texts) > 4 and any("lw_fetch_pairs<" in text for text in texts)
    assert header["rows"] * 2 == header["threads"] == 256 and not header["gaps"]
    assert b"const int second = lane & 1;" in cubin
