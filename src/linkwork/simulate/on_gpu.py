"""Rollouts on a GPU: one kernel, and trajectories that it writes where they will lie."""

from __future__ import annotations

import math
from contextlib import ExitStack
from typing import Any

import numpy as np

from linkwork.contact import Contacts
from linkwork.errors import ShapeError
from linkwork.model import Model
from linkwork.model.parameters import known, shape_of
from linkwork.runtime.cuda.arrays import Library, library_of, row_step
from linkwork.runtime.cuda.binding import call, current_gpu, gpu
from linkwork.runtime.cuda.kernel import CudaKernel, Memory
from linkwork.simulate.control import Control
from linkwork.simulate.one_kernel import kernel_for, segments
from linkwork.simulate.status import Status
from linkwork.simulate.traced import CARRIED, COEFFICIENTS, carried_size

Rows = tuple[int, int]  # address, and distance of rows in numbers: 0 for one row for all


def rollout_on_gpu(
    model: Model, q: Any, v: Any, tau: Any, control: Control, driven: dict[str, tuple[Any, tuple[int, ...]]],
    parameters: dict[str, Any], *, dt: float, steps: int, every: int, integrator: Any, dtype: str,
    contacts: Contacts | None = None, warm_start: Any = None,
) -> tuple[Any, Any, Any, Any, Any]:  # fmt: skip
    """q, v, status and steps, as arrays of the library of the states, or of NumPy; and what is carried with contacts."""
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
        batch = _batch(arrays) if not each else np.broadcast_shapes(batch, _batch({"warm_start": arrays["warm_start"]}))
    kernel, _ = kernel_for(model, control, integrator, names, target="cuda", dtype=dtype, each=each, contacts=contacts)
    libraries = [lib for lib in (library_of(x) for x, _ in arrays.values()) if lib is not None]
    main = libraries[0] if libraries else None
    first = next((x for x, _ in arrays.values() if library_of(x) is not None), None)
    here = gpu(main.view(first).gpu) if main is not None else current_gpu()
    rows = math.prod(batch)
    n = steps // every + 1
    with ExitStack() as stack:
        stack.enter_context(here.current())
        stream = main.stream(here.number) if main is not None else 0
        memory = Memory(kernel, stream, stack)
        keep: list[Any] = []
        places = {name: _place(kernel, name, x, own, batch, memory, here.number, keep) for name, (x, own) in arrays.items()}
        shapes = [(*batch, n, model.nq), (*batch, n, model.nv), batch, *([(*batch, size_carried)] if contacts else [])]
        made = [_made(kernel, main, shape, here.number, memory) for shape in shapes]
        (tq, tv, done, *last_carried), size = [address for _, address in made], np.dtype(dtype).itemsize
        for place, target, width in ((places["q"], tq, model.nq), (places["v"], tv, model.nv)):
            memory.copy_rows(target, n * width, place[0], place[1], width, rows)
        here_now: list[Rows] = [(tq, n * model.nq), (tv, n * model.nv), (memory.take((rows,)), 1)]
        memory.clear(here_now[2][0], rows)
        spare = [[(memory.take((rows, w)), w) for w in (model.nq, model.nv)] for _ in range(2)]
        counts = [here_now[2][0], memory.take((rows,))]
        carried = [memory.take((rows, size_carried)) for _ in range(2)] if contacts is not None else []
        if carried:
            memory.clear(carried[0], rows * size_carried)
            if "warm_start" in places:
                memory.copy_rows(carried[0], size_carried, *places["warm_start"], size_carried - len(CARRIED), rows)
        for number, (over, count, record) in enumerate(segments(steps, every, each)):
            how = np.array([dt, count, 0.0, over], dtype)
            keep.append(how)
            more = [(address, size_carried) for address in carried]
            given = [*here_now[:2], (counts[number % 2], 1), *more[number % 2 :][:1], (memory.upload(how), 0)]
            for name in (*control.inputs, *names):
                address, step = places[name]
                if name == "tau" and each:
                    address += over * model.nv * size
                given.append((address, step))
            if record is None:
                ends = spare[number % 2]
            else:
                ends = [(tq + record * model.nq * size, n * model.nq), (tv + record * model.nv * size, n * model.nv)]
            after = [(counts[(number + 1) % 2], 1), *more[(number + 1) % 2 :][:1]]
            kernel.launch(here, rows, given, [*ends, *after], stream, memory)
            here_now = list(ends)
        last = len(list(segments(steps, every, each))) % 2
        memory.copy_rows(done, rows, counts[last], rows, rows, 1)
        for address in last_carried:
            memory.copy_rows(address, rows * size_carried, carried[last], rows * size_carried, rows * size_carried, 1)
        call("cuStreamSynchronize", stream)
        found = [_returned(x, address, shape, dtype, main) for (x, address), shape in zip(made, shapes, strict=True)]
    stopped = found[2] != steps
    status = stopped * int(Status.NOT_FINITE)
    if contacts is None:
        return found[0], found[1], status, found[2], None
    failed = (found[3][..., -1] > 0.0) & ~stopped
    return found[0], found[1], status + failed * int(Status.CONTACT_NOT_CONVERGED), found[2], found[3]


def _batch(arrays: dict[str, tuple[Any, tuple[int, ...]]]) -> tuple[int, ...]:
    leads = []
    for name, (x, own) in arrays.items():
        shape = tuple(np.shape(x)) if library_of(x) is None else tuple(x.shape)
        if shape[len(shape) - len(own) :] != own:
            raise ShapeError(f"rollout: {name} has shape {shape}, not (..., {', '.join(map(str, own))})")
        leads.append(shape[: len(shape) - len(own)])
    try:
        return np.broadcast_shapes(*leads)
    except ValueError:
        pairs = ", ".join(f"{name} {lead}" for name, lead in zip(arrays, leads))
        raise ShapeError(f"rollout: the leading dimensions do not go together: {pairs}") from None


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
    """Where the rows of an array lie on the GPU; it is copied there from this machine."""
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
        view, step = library.view(x), size
    return view.address, step


def _made(kernel: CudaKernel, library: Library | None, shape: tuple[int, ...], number: int, memory: Memory) -> tuple[Any, int]:
    if library is None:
        return None, memory.take(shape)
    made = kernel.empty(library, shape, number)
    return made, library.view(made).address


def _returned(x: Any, address: int, shape: tuple[int, ...], dtype: str, library: Library | None) -> Any:
    if library is not None:
        return x
    out = np.empty(shape, dtype)
    if out.size:
        call("cuMemcpyDtoH", out.ctypes.data, address, out.nbytes)
    return out
