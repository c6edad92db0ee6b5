"""Values of samples that are drawn on the GPU, with the bits of `samplers.Random`."""

from __future__ import annotations

import ctypes
import math
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from linkwork.compiler.runtime.cuda.device_arrays import DeviceArray, DeviceScope
from linkwork.functions.compile import compile as compile_kernel
from linkwork.model import parameters
from linkwork.studies.cuda.launch import launch
from linkwork.studies.cuda.text import THREADS
from linkwork.studies.distributions import ELEMENTARY, Stage
from linkwork.studies.philox import WORDS_PER_BLOCK, stream_key
from linkwork.studies.quantities import check_values
from linkwork.studies.samplers import Random

if TYPE_CHECKING:
    from linkwork.studies.study import Study

WHOLE_STATES = ("q", "v", "dq", "tau")


def draws_on_device(study: Study) -> bool:
    """Return whether all values of a study may be arrays on the GPU."""
    model = study.models[0]
    if not isinstance(study.sampler, Random) or len(study.models) > 1 or model.loops:
        return False
    described = study.space.described[0]
    for name in study.sampler.names:
        if described[name].zero is not None:
            return False
        if name in WHOLE_STATES:
            if len(described[name].shape) != 1:
                return False
        elif name.partition("@")[0] not in parameters.KINDS:
            return False
    return True


class DeviceDraws:
    """Values of samples `first` to `first + rows - 1` on the GPU."""

    def __init__(self, study: Study, scope: DeviceScope, first: int, rows: int) -> None:
        self._study = study
        self._scope = scope
        self._first = first
        self._rows = rows
        self._flag = scope.upload(np.zeros(1, np.int32))
        self.values: dict[str, Any] = {}
        sampler = study.sampler
        assert isinstance(sampler, Random)
        for name, distribution in sampler.distributions.items():
            quantity = study.space.described[0][name]
            stages = distribution.stages(quantity.nominal)
            if stages is None:
                self.values[name] = scope.upload(self._on_host(name))
                continue
            words = 1 if distribution.shared else math.prod(quantity.shape)
            x = self._stages(self._uniforms(name, words), stages, words, quantity.shape)
            shape = (rows, *quantity.shape)
            self.values[name] = DeviceArray(x.address, shape, x.dtype, x.gpu, math.prod(quantity.shape))
            minimum = ctypes.c_double(quantity.minimum)
            count = math.prod(shape)
            launch("check", _blocks(count), ctypes.c_longlong(count), x, minimum, self._flag)

    def check(self) -> None:
        """Raise StudyError if a value is not finite or below its minimum."""
        if self._flag.get()[0]:
            for name in self._study.sampler.names:
                self._on_host(name)

    def _on_host(self, name: str) -> np.ndarray:
        """Return the values of a quantity, or raise; the host names the first invalid sample."""
        study = self._study
        sampler = study.sampler
        assert isinstance(sampler, Random)
        alone = Random({name: sampler.distributions[name]})
        values = alone.assign(study.space, 0, alone.draw(study.space, self._first, self._rows))
        index = np.arange(self._first, self._first + self._rows)
        return check_values([name], values, study.space.described[0], index)[name]

    def _uniforms(self, name: str, words: int) -> DeviceArray:
        key = stream_key(self._study.seed, name)
        count = self._rows * words
        first = self._first * words
        x = self._scope.empty((count,), np.float64)
        blocks = (first + count - 1) // WORDS_PER_BLOCK - first // WORDS_PER_BLOCK + 1 if count else 0
        low, high = (ctypes.c_ulonglong(k) for k in (key & (2**64 - 1), key >> 64))
        launch("uniforms", _blocks(blocks), ctypes.c_longlong(first), ctypes.c_longlong(count), low, high, x)
        return x

    def _stages(
        self, x: DeviceArray, stages: tuple[Stage, ...], words: int, shape: tuple[int, ...]
    ) -> DeviceArray:
        """Return values of uniform numbers, (rows * words,): (rows * size,) for a quantity of a shape."""
        size = math.prod(shape)
        pending: list[Stage] = []
        for stage in stages:
            if stage.kind not in ELEMENTARY:
                pending.append(stage)
                continue
            x, words = self._scaled(x, pending, words, shape)
            x = _elementary(stage.kind)(x)
            pending = []
        if pending or words != size:
            x, _ = self._scaled(x, pending, words, shape, is_last=True)
        return x

    def _scaled(
        self, x: DeviceArray, stages: list[Stage], words: int, shape: tuple[int, ...], is_last: bool = False
    ) -> tuple[DeviceArray, int]:
        """Return numbers after products, sums and limits, and how many each row has then.

        A draw that components share is one number of each row until components differ.
        """
        if not stages and not is_last:
            return x, words
        differ = any(value.size > 1 for stage in stages for value in stage.values)
        target = math.prod(shape) if differ or is_last else words
        for factors in _combined(stages, shape if target == math.prod(shape) else ()):
            count = self._rows * target
            result = self._scope.empty((count,), np.float64)
            numbers = self._scope.upload(factors)
            arrays = [numbers.part(k * target) for k in range(4)]
            shared = ctypes.c_int(words != target)
            sizes = ctypes.c_longlong(count), ctypes.c_longlong(target)
            launch("scale", _blocks(count), *sizes, shared, x, result, *arrays)
            x = result
            words = target
        return x, words


def _combined(stages: list[Stage], shape: tuple[int, ...]) -> list[np.ndarray]:
    """Return factor, summand, lower and upper limit for each launch, (4 * size,): it multiplies, then adds,
    then limits.

    Neutral are 1, -0.0 and infinities, which leave all bits as they are.
    """
    order = ("multiply", "add", "clip")
    neutral = np.empty((4, *shape))
    neutral.reshape(4, -1)[:] = np.array([[1.0], [-0.0], [-np.inf], [np.inf]])
    launches = [neutral.copy()]
    position = 0
    for kind, values in stages:
        place = order.index(kind)
        if place < position:
            launches.append(neutral.copy())
        position = place + 1
        for k, value in enumerate(values):
            launches[-1][place + k] = value.reshape(()) if value.size == 1 else value
    return [each.reshape(-1) for each in launches]


def _blocks(count: int) -> int:
    return -(-count // THREADS)


@cache
def _elementary(name: str) -> Any:
    """Return the kernel of an elementary function on the GPU."""
    return compile_kernel(ELEMENTARY[name], {"u": ()}, target="cuda")
