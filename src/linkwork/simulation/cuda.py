"""Rollouts on a GPU: one kernel, which writes trajectories into the arrays that are returned."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np

from linkwork.compiler.runtime.cuda.arrays import Library, library_of, row_step
from linkwork.compiler.runtime.cuda.binding import call, current_gpu, gpu
from linkwork.compiler.runtime.cuda.kernel import CudaKernel
from linkwork.compiler.runtime.cuda.memory import THREAD_STREAM, Memory
from linkwork.compiler.runtime.results import POOL
from linkwork.errors import ShapeError
from linkwork.model import Model
from linkwork.model.parameters import known, shape_of
from linkwork.simulation.control import Control
from linkwork.simulation.cuda_status import FinalStates, Rows
from linkwork.simulation.failure import CONTINUING_STATUSES, earlier_status
from linkwork.simulation.one_kernel import kernel_for, segments
from linkwork.simulation.rollout_problem import RolloutCall
from linkwork.simulation.rollout_result import Rollout, with_contact
from linkwork.simulation.status import has_status
from linkwork.simulation.traced import CARRIED, STEP_ARGS, ZERO, carried_size

Arrays = dict[str, tuple[Any, tuple[int, ...]]]  # each with the shape of one row


def rollout_on_gpu(rollout: RolloutCall) -> Rollout:
    """Return a rollout as arrays of the library of its states."""
    control = rollout.control
    assert control is not None
    schedule = rollout.schedule
    arguments = _arguments(rollout, control)
    kernel = kernel_for(
        rollout.model, control, schedule.integrator, arguments.parameters, target="cuda", dtype=rollout.dtype,
        contacts=rollout.laws,
    )  # fmt: skip
    arrays_of_library = [x for x, _ in arguments.arrays.values() if library_of(x) is not None]
    library = library_of(arrays_of_library[0]) if arrays_of_library else None
    device = current_gpu() if library is None else gpu(library.view(arrays_of_library[0]).gpu)
    with ExitStack() as stack:
        stack.enter_context(device.current())
        stream = THREAD_STREAM if library is None else library.stream(device.number)
        memory = Memory(kernel, stream, stack)
        run = _GpuRollout(rollout.model, control, kernel, arguments, memory, device, library)
        results = run.allocate_results(schedule.steps // schedule.record_every + 1)
        before = earlier_status(rollout.status, arguments.batch)
        unclosed = run.final_states.unclosed()
        is_held = unclosed | ~has_status(before, CONTINUING_STATUSES)  # these rows take no step
        calls = list(segments(schedule.steps, schedule.record_every, arguments.is_per_step))
        run.take_steps(results, schedule.dt, calls, is_held)
        call("cuStreamSynchronize", stream)
        carried = results["carried"].address if "carried" in results else None
        codes = run.final_states.status(
            before, unclosed, results["steps"].address, carried, arguments.carried_size, schedule
        )
        status = run.returned_status(codes)
        returned = {name: run.returned(result) for name, result in results.items()}
    if library is not None and not library.host_status:  # whole numbers of the library
        status = sum(((status == code) * code for code in set(codes.tolist())), start=(status != status) * 0)
    result = Rollout(returned["q"], returned["v"], status)
    result.steps = returned["steps"]
    return with_contact(result, returned.get("carried"), rollout.laws)


@dataclass(frozen=True)
class _Arguments:
    """Arrays of a rollout by name, and what follows from their shapes."""

    arrays: Arrays
    parameters: tuple[str, ...]  # names, in the order of the kernel's inputs
    batch: tuple[int, ...]
    is_per_step: bool  # forces are given for each step
    carried_size: int  # of numbers that each row passes from step to step besides its state


def _arguments(rollout: RolloutCall, control: Control) -> _Arguments:
    model = rollout.model
    contacts = rollout.laws
    coefficients = rollout.coefficients
    names = (*coefficients, *known(model, rollout.parameters))
    arrays: Arrays = {"q": (rollout.q, (model.nq,)), "v": (rollout.v, (model.nv,)), **rollout.control_arrays}
    candidate_count = 0 if contacts is None else len(contacts.candidates(model))
    for name in names:
        if name in coefficients:
            arrays[name] = (coefficients[name], (candidate_count,))
        else:
            arrays[name] = (rollout.parameters[name], shape_of(model, name))
    batch = _batch(arrays)
    is_per_step = False
    if "tau" in control.inputs:
        tau = np.zeros(model.nv, rollout.dtype) if rollout.tau is None else rollout.tau
        is_per_step = np.ndim(tau) == len(batch) + 2
        arrays["tau"] = (tau, (rollout.schedule.steps, model.nv) if is_per_step else (model.nv,))
        _batch({"tau": arrays["tau"]})
    size = 0 if contacts is None else carried_size(model, contacts)
    if contacts is not None and rollout.warm_start is not None:
        arrays["warm_start"] = (rollout.warm_start, (size - len(CARRIED),))
        if is_per_step:
            batch = np.broadcast_shapes(batch, _batch({"warm_start": arrays["warm_start"]}))
        else:
            batch = _batch(arrays)
    return _Arguments(arrays, names, batch, is_per_step, size)


@dataclass(frozen=True)
class _Result:
    """An array on the GPU that a rollout returns; `array` is None without a library of arrays."""

    array: Any
    address: int
    shape: tuple[int, ...]


class _GpuRollout:
    """Arrays of one rollout on the GPU and the calls of its kernel."""

    def __init__(
        self, model: Model, control: Control, kernel: CudaKernel, arguments: _Arguments, memory: Memory,
        device: Any,
        library: Library | None,
    ) -> None:  # fmt: skip
        self.model = model
        self.kernel = kernel
        self.arguments = arguments
        self.memory = memory
        self.device = device
        self.library = library
        self.batch = arguments.batch
        self.rows = math.prod(self.batch)
        self.inputs = (*control.inputs, *arguments.parameters)
        self._alive: list[Any] = []  # host arrays that the stream still copies
        self.places = {name: self._place(name, x, shape) for name, (x, shape) in arguments.arrays.items()}
        row_shapes = {name: shape for name, (_, shape) in arguments.arrays.items()}
        description = (self.rows, arguments.parameters, control)
        self.final_states = FinalStates(
            memory, model, self.places, row_shapes, description, arguments.is_per_step
        )

    def allocate_results(self, count: int) -> dict[str, _Result]:
        """Return arrays for `count` states of each row, with the initial states in place."""
        model = self.model
        shapes = {
            "q": (*self.batch, count, model.nq),
            "v": (*self.batch, count, model.nv),
            "steps": self.batch,
        }
        if self.arguments.carried_size:
            shapes["carried"] = (*self.batch, self.arguments.carried_size)
        results = {name: self._allocate(shape) for name, shape in shapes.items()}
        for name, size in (("q", model.nq), ("v", model.nv)):
            address, stride = self.places[name]
            self.memory.copy_rows(results[name].address, count * size, address, stride, size, self.rows)
        return results

    def take_steps(
        self, results: Mapping[str, _Result], dt: float, calls: list[tuple[int, int, int | None]],
        is_held: np.ndarray
    ) -> None:  # fmt: skip
        """Call the kernel for each of `calls` (see `segments`); rows that are held, (rows,), take no step.

        Recorded states are written to the results, others to one of two places in turns.
        """
        model, memory, size = self.model, self.memory, self.arguments.carried_size
        count = results["q"].shape[-2]
        state: list[Rows] = [
            (results["q"].address, count * model.nq),
            (results["v"].address, count * model.nv),
        ]
        step_counts = [memory.take((self.rows,)) for _ in range(2)]
        memory.clear(step_counts[0], self.rows)
        spare = [[(memory.take((self.rows, n)), n) for n in (model.nq, model.nv)] for _ in range(2)]
        carried = self._initial_carried() if size else []
        for turn, (previous, steps, record) in enumerate(calls):
            now = turn % 2
            arguments = [*state, (step_counts[now], 1), *((x, size) for x in carried[now : now + 1])]
            arguments.append(self._step_arguments(dt, steps, previous, is_held))
            arguments += [self._input(name, previous) for name in self.inputs]
            state = spare[now] if record is None else self._recorded(results, record)
            after = [(step_counts[1 - now], 1), *((x, size) for x in carried[1 - now : 2 - now])]
            self.kernel.launch(self.device, self.rows, arguments, [*state, *after], memory.stream, memory)
        last = len(calls) % 2
        memory.copy_rows(results["steps"].address, self.rows, step_counts[last], self.rows, self.rows, 1)
        if size:
            total = self.rows * size
            memory.copy_rows(results["carried"].address, total, carried[last], total, total, 1)

    def returned(self, result: _Result) -> Any:
        """Return a result as an array of the library, or of NumPy."""
        if self.library is not None:
            return result.array
        array = POOL.empty(result.shape, self.kernel.dtype)
        self.memory.fetch(array, result.address)
        return array

    def returned_status(self, codes: np.ndarray) -> Any:
        """Return status numbers, (rows,), as numbers of the library if it has its status on the GPU."""
        if self.library is None or self.library.host_status:
            return codes.reshape(self.batch)
        status = self._allocate(self.batch)
        numbers = codes.astype(self.kernel.dtype)
        if self.rows:
            call("cuMemcpyHtoD", status.address, numbers.ctypes.data, numbers.nbytes)
        return status.array

    def _initial_carried(self) -> list[int]:
        """Return two places for carried numbers, the first with zeros or the given impulses."""
        size = self.arguments.carried_size
        places = [self.memory.take((self.rows, size)) for _ in range(2)]
        self.memory.clear(places[0], self.rows * size)
        if "warm_start" in self.places:
            self.memory.copy_rows(places[0], size, *self.places["warm_start"], size - len(CARRIED), self.rows)
        return places

    def _step_arguments(self, dt: float, steps: int, previous: int, is_held: np.ndarray) -> Rows:
        values = np.array([dt, steps, 0.0, previous], self.kernel.dtype)
        if is_held.any():
            is_zero = np.arange(STEP_ARGS) == ZERO
            values = np.where(is_held[:, None] & is_zero, np.nan, values).astype(self.kernel.dtype)
        self._alive.append(values)
        return self.memory.upload(values), 0 if values.ndim == 1 else STEP_ARGS

    def _input(self, name: str, previous: int) -> Rows:
        address, stride = self.places[name]
        if name == "tau" and self.arguments.is_per_step:
            address += previous * self.model.nv * np.dtype(self.kernel.dtype).itemsize
        return address, stride

    def _recorded(self, results: Mapping[str, _Result], record: int) -> list[Rows]:
        itemsize = np.dtype(self.kernel.dtype).itemsize
        places = []
        for name in ("q", "v"):
            count, size = results[name].shape[-2:]
            places.append((results[name].address + record * size * itemsize, count * size))
        return places

    def _allocate(self, shape: tuple[int, ...]) -> _Result:
        if self.library is None:
            return _Result(None, self.memory.take(shape), shape)
        array = self.kernel.empty(self.library, shape, self.device.number)
        return _Result(array, self.library.view(array).address, shape)

    def _place(self, name: str, x: Any, row_shape: tuple[int, ...]) -> Rows:
        """Return the address of the rows of an array on the GPU, copied there if necessary."""
        library = library_of(x)
        size = math.prod(row_shape)
        if library is None:
            flat = np.asarray(x, self.kernel.dtype)
            is_single = flat.size == size
            if not is_single:
                flat = np.broadcast_to(flat, (*self.batch, *row_shape))
            flat = np.ascontiguousarray(flat)
            self._alive.append(flat)
            return self.memory.upload(flat), 0 if is_single else size
        library.before([x])
        view = library.view(x)
        self.kernel.checked(name, view, self.device.number)
        stride = row_step(view, row_shape, self.batch)
        if stride is None:
            x = library.packed(x, (*self.batch, *row_shape))
            self._alive.append(x)
            view = library.view(x)
            stride = size
        return view.address, stride


def _batch(arrays: Arrays) -> tuple[int, ...]:
    """Return the common leading dimensions of arrays; raise if their shapes do not match."""
    leads = []
    for name, (x, row_shape) in arrays.items():
        shape = tuple(np.shape(x)) if library_of(x) is None else tuple(x.shape)
        first = len(shape) - len(row_shape)
        if shape[first:] != row_shape:
            expected = ", ".join(map(str, row_shape))
            raise ShapeError(f"rollout: {name}: expected shape (..., {expected}), got shape {shape}")
        leads.append(shape[:first])
    try:
        return np.broadcast_shapes(*leads)
    except ValueError:
        pairs = ", ".join(f"{name} {lead}" for name, lead in zip(arrays, leads))
        raise ShapeError(f"rollout: the leading dimensions cannot be broadcast: {pairs}") from None
