"""Outputs: the numbers of each sample that reductions read and folders keep."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, final

import numpy as np

from linkwork.compiler.runtime.arguments import is_on_gpu
from linkwork.errors import LinkworkError, StudyError
from linkwork.functions.engine.call_arguments import on_host
from linkwork.functions.engine.model_function import ModelFunction
from linkwork.studies.quantities import COEFFICIENTS

if TYPE_CHECKING:
    from linkwork.studies.study import Study

COLUMNS = ("index", "status", "steps", "model")  # of every folder


@dataclass(frozen=True, eq=False)
class Batch:
    """Samples of one model, the argument of output functions. The first dimension of arrays is the sample.

    Attributes
    ----------
    model : Model
        The model of the study; `parameters` holds what differs between samples.
    index : ndarray, shape (rows,)
        Indices of the samples.
    values, parameters, arrays : mapping of str to ndarray
        Sampled quantities, parameters of the model, and arguments of the call.
    status, steps : ndarray, shape (rows,)
        Why each row ended, and after how many steps.
    q, v : ndarray, shape (rows, n, nq) and (rows, n, nv), or None
        States of a rollout, the initial one first; None for a `FunctionTask`.
    motion : Rollout or None
        The rollout.
    results : mapping of str to ndarray
        Results of a `FunctionTask` by name.
    task : RolloutTask or FunctionTask
        Task of the study.
    """

    model: Any
    index: np.ndarray
    values: Mapping[str, np.ndarray]
    parameters: Mapping[str, np.ndarray]
    status: np.ndarray
    steps: np.ndarray
    q: np.ndarray | None
    v: np.ndarray | None
    motion: Any
    results: Mapping[str, np.ndarray]
    arrays: Mapping[str, np.ndarray]
    task: Any


Output = Callable[[Batch], Any]


@final
@dataclass(frozen=True, eq=False)
class Final:
    """A function of the model in each sample's last state, with the sample's own parameters.

    Parameters
    ----------
    function : ModelFunction
        A function of q, or of q and v: `lw.kinetic_energy`, `lw.center_of_mass`, `lw.frame_pose`.
    options : dict, optional
        Its options, such as ``{"frame": "hand"}``.
    """

    function: Any
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        arrays = getattr(self.function, "required", None)
        if not isinstance(self.function, ModelFunction) or arrays not in (("q",), ("q", "v")):
            raise StudyError(
                f"Final: expected a function of a model and of q, or q and v, got {self.function!r}"
            )

    def __call__(self, batch: Batch) -> Any:
        if batch.q is None or batch.v is None:
            raise StudyError("Final: expected a study of rollouts")
        arrays = (batch.q[:, -1], batch.v[:, -1])[: len(self.function.required)]
        numbers = {name: x for name, x in batch.parameters.items() if name not in COEFFICIENTS}
        named: dict[str, Any] = {"parameters": numbers} if numbers else {}
        if is_on_gpu(batch.q):
            named["device"] = "cuda"
        result = self.function(batch.model, *arrays, **self.options, **named)
        return result[0] if isinstance(result, tuple) else result


def check_outputs(outputs: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return outputs by name, each a name or a function, or raise."""
    if not isinstance(outputs or {}, Mapping):
        raise StudyError(
            f"study: outputs: expected a dict of functions by name, got {type(outputs).__name__}"
        )
    for name, each in (outputs or {}).items():
        if not isinstance(name, str) or not name:
            raise StudyError(f"study: outputs: expected names that are texts, got {name!r}")
        if not callable(each) and not isinstance(each, str):
            raise StudyError(
                f"study: output {name!r}: expected a function of a batch or a name, got {each!r}"
            )
        if name in COLUMNS and each != name:
            raise StudyError(f"study: output {name!r}: expected another name; folders have a column {name!r}")
    return dict(outputs or {})


def check_shapes(study: Study, outputs: Mapping[str, Any], first: int, last: int) -> None:
    """Raise StudyError if outputs of samples `first` to `last - 1` have other shapes than those of the first
    samples.
    """
    for name, x in outputs.items():
        expected = study.output_shape(name)
        if x.shape[1:] != expected:
            label = f"got {x.shape[1:]} in samples {first} to {last - 1}"
            raise StudyError(f"study: output {name!r}: expected shape {expected}, {label}")


def evaluate_outputs(
    outputs: Mapping[str, Any], batch: Batch, on_device: frozenset[str] = frozenset()
) -> dict[str, Any]:
    """Return the outputs of a batch, (rows, ...) of float64 each; those named in `on_device` stay on the GPU
    where they are there.
    """
    result = {}
    rows = len(batch.index)
    for name, each in outputs.items():
        try:
            value = _named(each, batch) if isinstance(each, str) else each(batch)
            is_kept = name in on_device and is_on_gpu(value) and value.dtype == np.float64
            array = value if is_kept else _as_floats(value)
        except LinkworkError as error:
            raise StudyError(f"study: output {name!r}: {error}") from error
        except Exception as error:
            label = f"samples {batch.index[0]} to {batch.index[-1]}"
            raise StudyError(
                f"study: output {name!r} raised {type(error).__name__} in {label}: {error}"
            ) from error
        if array.ndim < 1 or array.shape[0] != rows:
            raise StudyError(
                f"study: output {name!r}: expected one row per sample, ({rows}, ...), got {array.shape}"
            )
        result[name] = array
    return result


def _as_floats(value: Any) -> np.ndarray:
    array = np.asarray(on_host(value))
    if array.dtype.kind not in "buif":
        raise StudyError(f"expected real numbers, got dtype {array.dtype}")
    return array.astype(float, copy=False)


def _named(name: str, batch: Batch) -> Any:
    """Return a result of the task; else a quantity. "q" and "v" of a rollout are its last state, whether or
    not they vary.
    """
    if batch.q is not None and batch.v is not None:
        known = {"q": batch.q[:, -1], "v": batch.v[:, -1], "steps": batch.steps, "trajectory_q": batch.q}
        known["trajectory_v"] = batch.v
    else:
        known = dict(batch.results)
    known = {**batch.values, **known}
    if name not in known:
        raise StudyError(f"unknown name {name!r}; expected one of {', '.join(known)}, or a function")
    return known[name]
