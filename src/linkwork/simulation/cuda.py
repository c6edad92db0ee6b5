"""Rollouts on a GPU: one kernel, and trajectories that it writes where they will lie."""

from __future__ import annotations

import math
from contextlib import ExitStack
from typing import Any

import numpy as np

from linkwork.compiler.runtime.cuda.arrays import Library, library_of, row_step
from linkwork.compiler.runtime.cuda.binding import call, current_gpu, gpu
from linkwork.compiler.runtime.cuda.kernel import CudaKernel
from linkwork.compiler.runtime.cuda.memory import THREAD_STREAM, Memory
from linkwork.compiler.runtime.results import POOL
from linkwork.errors import ShapeError
from linkwork.functions.contact import COEFFICIENTS
from linkwork.model import Model
from linkwork.model.parameters import known, shape_of
from linkwork.simulation.closedness import open_rows
from linkwork.simulation.control import Control
from linkwork.simulation.failure import CONTINUING, earlier_status, merge_status, stopped_status
from linkwork.simulation.one_kernel import kernel_for, segments
from linkwork.simulation.status import Status, has_status
from linkwork.simulation.traced import CARRIED, STEP_ARGS, ZERO, Laws, carried_size

Rows = tuple[int, int]  # address, and distance of rows in numbers: 0 for one row for all


def rollout_on_gpu(
    model: Model, q: Any, v: Any, tau: Any, control: Control, driven: dict[str, tuple[Any, tuple[int, ...]]],
    parameters: dict[str, Any], *, dt: float, steps: int, record_every: int, integrator: Any, dtype: str,
    contacts: Laws | None = None, warm_start: Any = None, earlier: Any = None,
) -> tuple[Any, Any, Any, Any, Any]:  # fmt: skip
    """Return q, v, status, steps and carried numbers as arrays of the library of the states."""
    own = [name for name in COEFFICIENTS if name in parameters and contacts is not None]
    names = (*own, *known(model, {name: x for name, x in parameters.items() if name not in own}))
    arrays: dict[str, tuple[Any, tuple[int, ...]]] = {"q": (q, (model.nq,)), "v": (v, (model.nv,)), **driven}
    count = 0 if contacts is None else len(contacts.candidates(model))
    arrays |= {name: (parameters[name], (count,) if name in own else shape_of(model, name)) for name in names}
    batch = _batch(arrays)
    each = False
    if "tau" in control.inputs:
        tau = np.zeros(model.nv, dtype) if tau is None else tau
        each = np.ndim(tau) == len(batch) + 2
        arrays["tau"] = (tau, (steps, model.nv) if each else (model.nv,))
        _batch({"tau": arrays["tau"]})
    size_carried = 0
    if contacts is not None:
        size_carried = carried_size(model, contacts)
    if contacts is not None and warm_start is not None:
        arrays["warm_start"] = (warm_start, (size_carried - len(CARRIED),))
        batch = (
            _batch(arrays)
            if not each
            else np.broadcast_shapes(batch, _batch({"warm_start": arrays["warm_start"]}))
        )
    kernel = kernel_for(model, control, integrator, names, target="cuda", dtype=dtype, contacts=contacts)
    libraries = [lib for lib in (library_of(x) for x, _ in arrays.values()) if lib is not None]
    main = libraries[0] if libraries else None
    first = next((x for x, _ in arrays.values() if library_of(x) is not None), None)
    here = gpu(main.view(first).gpu) if main is not None else current_gpu()
    rows = math.prod(batch)
    n = steps // record_every + 1
    with ExitStack() as stack:
        stack.enter_context(here.current())
        stream = main.stream(here.number) if main is not None else THREAD_STREAM
        memory = Memory(kernel, stream, stack)
        keep: list[Any] = []
        places = {
            name: _place(kernel, name, x, own, batch, memory, here.number, keep)
            for name, (x, own) in arrays.items()
        }
        shapes = [
            (*batch, n, model.nq),
            (*batch, n, model.nv),
            batch,
            *([(*batch, size_carried)] if contacts else []),
        ]
        made = [_made(kernel, main, shape, here.number, memory) for shape in shapes]
        (tq, tv, done, *last_carried), size = [address for _, address in made], np.dtype(dtype).itemsize
        for place, target, width in ((places["q"], tq, model.nq), (places["v"], tv, model.nv)):
            memory.copy_rows(target, n * width, place[0], place[1], width, rows)
        ends = _Ends(
            memory,
            model,
            places,
            {name: own for name, (_, own) in arrays.items()},
            (rows, names, control),
            each,
        )
        before = earlier_status(earlier, batch)
        unclosed = ends.unclosed()
        hold = unclosed | ~has_status(before, CONTINUING)  # these take no step
        here_now: list[Rows] = [(tq, n * model.nq), (tv, n * model.nv), (memory.take((rows,)), 1)]
        memory.clear(here_now[2][0], rows)
        spare = [[(memory.take((rows, w)), w) for w in (model.nq, model.nv)] for _ in range(2)]
        counts = [here_now[2][0], memory.take((rows,))]
        carried = [memory.take((rows, size_carried)) for _ in range(2)] if contacts is not None else []
        if carried:
            memory.clear(carried[0], rows * size_carried)
            if "warm_start" in places:
                memory.copy_rows(
                    carried[0], size_carried, *places["warm_start"], size_carried - len(CARRIED), rows
                )
        for number, (over, count, record) in enumerate(segments(steps, record_every, each)):
            how = np.array([dt, count, 0.0, over], dtype)
            if hold.any():
                how = np.where(hold[:, None] & (np.arange(STEP_ARGS) == ZERO), np.nan, how).astype(dtype)
            keep.append(how)
            more = [(address, size_carried) for address in carried]
            given = [
                *here_now[:2],
                (counts[number % 2], 1),
                *more[number % 2 :][:1],
                (memory.upload(how), 0 if how.ndim == 1 else STEP_ARGS),
            ]
            for name in (*control.inputs, *names):
                address, step = places[name]
                if name == "tau" and each:
                    address += over * model.nv * size
                given.append((address, step))
            if record is None:
                to = spare[number % 2]
            else:
                to = [
                    (tq + record * model.nq * size, n * model.nq),
                    (tv + record * model.nv * size, n * model.nv),
                ]
            after = [(counts[(number + 1) % 2], 1), *more[(number + 1) % 2 :][:1]]
            kernel.launch(here, rows, given, [*to, *after], stream, memory)
            here_now = list(to)
        last = len(list(segments(steps, record_every, each))) % 2
        memory.copy_rows(done, rows, counts[last], rows, rows, 1)
        for address in last_carried:
            memory.copy_rows(
                address, rows * size_carried, carried[last], rows * size_carried, rows * size_carried, 1
            )
        call("cuStreamSynchronize", stream)
        status = ends.status(
            before,
            unclosed,
            done,
            last_carried[0] if last_carried else None,
            size_carried,
            dt,
            steps,
            integrator,
        )
        told: Any = status.reshape(batch)
        if main is not None and not main.host_status:
            codes = status.astype(dtype)
            told, address = _made(kernel, main, batch, here.number, memory)
            if rows:
                call("cuMemcpyHtoD", address, codes.ctypes.data, codes.nbytes)
        result = [
            _returned(x, address, shape, memory, main)
            for (x, address), shape in zip(made, shapes, strict=True)
        ]
    if main is not None and not main.host_status:  # whole numbers of the library
        told = sum(((told == code) * code for code in set(status.tolist())), start=(told != told) * 0)
    return result[0], result[1], told, result[2], result[3] if contacts is not None else None


class _Ends:
    """Initial and final rows of a rollout, fetched from the GPU."""

    def __init__(
        self, memory: Memory, model: Model, places: dict[str, Rows], shapes: dict[str, tuple[int, ...]],
        inputs: tuple[int, tuple[str, ...], Control], each: bool,
    ) -> None:  # fmt: skip
        self.memory = memory
        self.kernel = kernel = memory.kernel
        self.model = model
        self.places = places
        self.shapes = shapes
        self.each = each
        self.rows, self.names, self.control = inputs
        self.size = np.dtype(kernel.dtype).itemsize

    def fetched(self, place: Rows, own: tuple[int, ...], chosen: np.ndarray) -> np.ndarray:
        """Return some rows of an array on the GPU, (selected, *row_shape)."""
        address, step = place
        result = np.empty((len(chosen), *own), self.kernel.dtype)
        if not result.size:
            return result
        if step == 0:
            self.memory.fetch(result[:1], address)
            result[:] = result[0]
        elif len(chosen) == self.rows and step == math.prod(own):
            self.memory.fetch(result, address)
        else:
            for k, row in enumerate(chosen.tolist()):
                self.memory.fetch(result[k : k + 1], address + row * step * self.size)
        return result

    def _taken(self, name: str, chosen: np.ndarray) -> np.ndarray:
        return self.fetched(self.places[name], self.shapes[name], chosen)

    def _numbers(self, chosen: np.ndarray) -> dict[str, np.ndarray]:
        """Parameters of the model."""
        return {
            name: self._taken(name, chosen).astype(float) for name in self.names if name not in COEFFICIENTS
        }

    def unclosed(self) -> np.ndarray:
        """Return rows whose loops are open at the start, (rows,) of bool."""
        if not self.model.loops:
            return np.zeros(self.rows, dtype=bool)
        every = np.arange(self.rows)
        q = self._taken("q", every).astype(float)
        return open_rows(self.model, q, self._numbers(every), dtype=str(np.dtype(self.kernel.dtype)))

    def status(
        self, before: np.ndarray, unclosed: np.ndarray, done: int, carried: int | None, width: int, dt: float, steps: int,
        integrator: Any,
    ) -> np.ndarray:  # fmt: skip
        """Return the status of all rows, (rows,); `before` is that of an earlier rollout."""
        every = np.arange(self.rows)
        taken = self.fetched((done, 1), (), every).astype(int)
        going = has_status(before, CONTINUING)
        status = np.full(self.rows, int(Status.OK))
        if carried is not None:
            ends = self.fetched((carried, width), (width,), every)
            status[ends[:, -1] > 0.0] = int(Status.CONTACT_NOT_CONVERGED)
        stopped = np.flatnonzero(((taken != steps) | unclosed) & going)
        if len(stopped):
            solved = (
                np.zeros(len(stopped), dtype=bool)
                if carried is None
                else np.isfinite(ends[stopped]).all(axis=1)
            )
            start = self._taken("q", stopped), self._taken("v", stopped)
            last = self._last(start, stopped, taken[stopped], width, dt)
            numbers = self._numbers(stopped)
            start, last = ((x[0].astype(float), x[1].astype(float)) for x in (start, last))
            status[stopped] = stopped_status(
                self.model, start, last, unclosed[stopped], solved, dt, integrator, numbers
            )
        return merge_status(before, status)

    def _last(
        self, start: tuple[np.ndarray, np.ndarray], rows: np.ndarray, taken: np.ndarray, width: int, dt: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the states of rows after the steps that they took, by taking the same steps again."""
        q = start[0].copy()
        v = start[1].copy()
        subset = np.flatnonzero(taken > 0)
        if not len(subset):
            return q, v
        given = {name: self._taken(name, rows[subset]) for name in (*self.control.inputs, *self.names)}
        carried = np.zeros((len(subset), width), self.kernel.dtype)
        if "warm_start" in self.places:
            carried[:, : width - len(CARRIED)] = self._taken("warm_start", rows[subset])
        state = [
            q[subset],
            v[subset],
            np.zeros(len(subset), self.kernel.dtype),
            *([carried] if width else []),
        ]
        ends = [state[0].copy(), state[1].copy()]
        count = taken[subset]
        for over in range(int(count.max()) if self.each else 1):
            remaining = np.flatnonzero(count > over)
            how = np.column_stack([np.full(len(remaining), x) for x in (dt, 1.0, 0.0, over)])
            if not self.each:
                how[:, 1] = count
            inputs = [
                x[remaining, over] if name == "tau" and self.each else x[remaining]
                for name, x in given.items()
            ]
            result = self.kernel(*(x[remaining] for x in state), how.astype(self.kernel.dtype), *inputs)
            for x, new in zip(state, result, strict=True):
                x[remaining] = new
            ends[0][remaining], ends[1][remaining] = result[0], result[1]
        q[subset], v[subset] = ends
        return q, v


def _batch(arrays: dict[str, tuple[Any, tuple[int, ...]]]) -> tuple[int, ...]:
    leads = []
    for name, (x, own) in arrays.items():
        shape = tuple(np.shape(x)) if library_of(x) is None else tuple(x.shape)
        if shape[len(shape) - len(own) :] != own:
            raise ShapeError(
                f"rollout: {name}: expected shape (..., {', '.join(map(str, own))}), got shape {shape}"
            )
        leads.append(shape[: len(shape) - len(own)])
    try:
        return np.broadcast_shapes(*leads)
    except ValueError:
        pairs = ", ".join(f"{name} {lead}" for name, lead in zip(arrays, leads))
        raise ShapeError(f"rollout: the leading dimensions cannot be broadcast: {pairs}") from None


def _place(
    kernel: CudaKernel,
    name: str,
    x: Any,
    own: tuple[int, ...],
    batch: tuple[int, ...],
    memory: Memory,
    number: int,
    keep: list[Any],
) -> Rows:
    """Return the address of the rows of an array on the GPU, copied there if necessary."""
    library = library_of(x)
    size = math.prod(own)
    if library is None:
        flat = np.asarray(x, kernel.dtype)
        single = flat.size == size
        flat = np.ascontiguousarray(flat if single else np.broadcast_to(flat, (*batch, *own)))
        keep.append(flat)
        return memory.upload(flat), 0 if single else size
    library.before([x])
    view = library.view(x)
    kernel.checked(name, view, number)
    step = row_step(view, own, batch)
    if step is None:
        x = library.packed(x, (*batch, *own))
        keep.append(x)
        view = library.view(x)
        step = size
    return view.address, step


def _made(
    kernel: CudaKernel, library: Library | None, shape: tuple[int, ...], number: int, memory: Memory
) -> tuple[Any, int]:
    if library is None:
        return None, memory.take(shape)
    made = kernel.empty(library, shape, number)
    return made, library.view(made).address


def _returned(x: Any, address: int, shape: tuple[int, ...], memory: Memory, library: Library | None) -> Any:
    if library is not None:
        return x
    out = POOL.empty(shape, memory.kernel.dtype)
    memory.fetch(out, address)
    return out
