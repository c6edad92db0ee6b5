"""What CUDA kernels are asked for, where there is no GPU: errors in one sentence, and where rows of arrays
lie.
"""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import pytest

import linkwork as lw
from linkwork.compiler.runtime.cuda import arrays
from linkwork.compiler.runtime.cuda.arrays import OnDevice, row_step

ARM = lw.robots.arm()


class Elsewhere:
    """An array that says it lies on a GPU."""

    dtype = "float32"

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape
        self.__cuda_array_interface__ = {"shape": shape, "typestr": "<f4", "data": (0, False), "version": 3}


@pytest.mark.skipif(importlib.util.find_spec("cuda") is not None, reason="cuda-bindings are here")
def test_what_is_missing_is_told() -> None:
    for ask in (
        lambda: lw.compile(lw.forward_dynamics, ARM, target="cuda"),
        lambda: lw.forward_dynamics(ARM, *[np.zeros(ARM.nv)] * 3, device="cuda"),
        lambda: lw.forward_dynamics(ARM, *[Elsewhere((4, ARM.nv))] * 3),  # arrays on a GPU choose it
        lambda: lw.rollout(ARM, np.zeros(ARM.nq), np.zeros(ARM.nv), dt=1e-3, steps=2, device="cuda"),
    ):
        with pytest.raises(lw.MissingPackageError, match="pip install 'linkwork\\[cuda\\]'"):
            ask()


def test_mistakes_are_told() -> None:
    with pytest.raises(lw.TargetError, match="target: expected one of cpu, cuda"):
        lw.compile(lw.forward_dynamics, ARM, target="gpu")
    zeros = np.zeros(ARM.nv)
    with pytest.raises(lw.LinkworkError, match="device: expected one of cpu, cuda, got 'tpu'"):
        lw.forward_dynamics(ARM, zeros, zeros, zeros, device="tpu")
    kernel = lw.compile(lw.forward_dynamics, ARM)
    with pytest.raises(lw.DtypeError, match="v is on a GPU and this kernel on the CPU"):
        kernel(zeros, Elsewhere((ARM.nv,)), zeros)
    with pytest.raises(lw.ModelError, match="give policy="):
        lw.rollout(ARM, zeros, zeros, lambda q, v, t: q, dt=1e-3, steps=2, device="cuda")


def view(a: np.ndarray) -> OnDevice:
    return OnDevice(0, a.shape, tuple(s // a.itemsize for s in a.strides), str(a.dtype), 0)


@pytest.mark.parametrize(
    ("made", "batch", "wanted"),
    [
        (lambda: np.zeros((5, 7)), (5,), 7),
        (lambda: np.zeros((10, 7))[::2], (5,), 14),
        (lambda: np.zeros((2, 3, 7)), (2, 3), 7),
        (lambda: np.zeros(7), (5,), 0),
        (lambda: np.zeros((1, 7)), (5,), 0),
        (lambda: np.zeros((2, 1, 7)), (2, 3), None),  # repeated in the middle
        (lambda: np.asfortranarray(np.zeros((5, 7))), (5,), None),
        (lambda: np.zeros((3, 2, 7)).transpose(1, 0, 2), (2, 3), None),
        (lambda: np.zeros((5, 14))[:, ::2], (5,), None),
        (lambda: np.zeros((5, 3, 7))[:, 1], (5,), 21),  # one step of trajectories
    ],
)
def test_rows_are_walked_where_they_lie(made: Any, batch: tuple[int, ...], wanted: int | None) -> None:
    assert row_step(view(made()), (7,), batch) == wanted


def test_arrays_of_this_machine_are_no_arrays_on_a_gpu() -> None:
    assert arrays.library_of(np.zeros(3)) is None and arrays.library_of([1.0]) is None
    assert arrays.library_of(Elsewhere((3,))) is not None
