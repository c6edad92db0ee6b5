"""One sample of a study: its model, state and inputs, rebuilt with identical bits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from linkwork.model import Model
from linkwork.simulation.status import Status
from linkwork.studies.outputs import evaluate_outputs
from linkwork.studies.quantities import COEFFICIENTS, arguments_of, check_values
from linkwork.studies.rows import compute_batch, model_numbers

if TYPE_CHECKING:
    from linkwork.studies.study import Study


@dataclass(frozen=True, eq=False)
class Sample:
    """A sample of a study.

    Attributes
    ----------
    index : int
        Its number.
    model : Model
        The model with the sample's parameters, for the viewer and for other functions.
    nominal : Model
        The model of the study, whose kernels the study uses with `parameters`.
    values : dict
        What varies, by name.
    q, v : ndarray or None
        The initial state.
    arrays, parameters, inputs, pd : dict
        Arguments of the call: arrays, parameters, the policy's inputs and fields of `lw.PD`.
    """

    study: Study
    index: int
    nominal: Model
    number: int
    values: dict[str, np.ndarray]
    arrays: dict[str, np.ndarray]
    parameters: dict[str, np.ndarray]
    inputs: dict[str, np.ndarray]
    pd: dict[str, np.ndarray]

    @classmethod
    def of(cls, study: Study, index: int) -> Sample:
        """Return a sample of a study."""
        drawn = study.sampler.draw(study.space, index, 1)
        number = 0
        if len(study.models) > 1:
            number = int(model_numbers(study, np.array([index]), drawn)[0])
        model = study.models[number]
        assigned = study.sampler.assign(study.space, number, drawn)
        values = check_values(study.sampler.names, assigned, study.space.described[number], np.array([index]))
        arguments = arguments_of(model, values, study.starts[number], 1)
        parts = ({name: np.array(x[0]) for name, x in each.items()} for each in arguments)
        return cls(study, index, model, number, {name: np.array(x[0]) for name, x in values.items()}, *parts)

    @property
    def model(self) -> Model:
        """The model with the sample's parameters."""
        numbers = {name: x for name, x in self.parameters.items() if name not in COEFFICIENTS}
        return self.nominal.with_parameters(numbers) if numbers else self.nominal

    @property
    def q(self) -> np.ndarray | None:
        """The initial configuration, (nq,)."""
        return self.arrays.get("q")

    @property
    def v(self) -> np.ndarray | None:
        """The initial velocity, (nv,)."""
        return self.arrays.get("v")

    def run(self, record_every: int | None = None) -> Any:
        """Compute the sample again, with the same bits.

        Parameters
        ----------
        record_every : int, optional
            Steps between the states of a rollout that are kept. Default: as in the study.

        Returns
        -------
        Rollout or dict
            The motion, q (n, nq), or the results of a model function by name.
        """
        batch = self._batch(record_every)
        if batch.motion is None:
            return {name: x[0] for name, x in batch.results.items()}
        first = type(batch.motion)(*(np.asarray(x)[0] for x in batch.motion))
        for name in ("steps", "impulses", "residual", "iterations"):
            value = getattr(batch.motion, name, None)
            setattr(first, name, None if value is None else np.asarray(value)[0])
        return first

    @property
    def status(self) -> Status:
        """The status at the end of the sample."""
        return Status(int(self._batch(None).status[0]))

    def outputs(self) -> dict[str, np.ndarray]:
        """Return the sample's outputs, computed again with the same bits."""
        batch = self._batch(None)
        return {name: x[0] for name, x in evaluate_outputs(self.study.outputs, batch).items()}

    def _batch(self, record_every: int | None) -> Any:
        drawn = self.study.sampler.draw(self.study.space, self.index, 1)
        return compute_batch(self.study, self.number, np.array([self.index]), drawn, record_every)

    def film(self, path: Any, *, frames: int = 100, **options: Any) -> Any:
        """Write a film of the sample's rollout; see `linkwork.visualization.film`."""
        from linkwork.visualization.film import film

        task: Any = self.study.task
        every = max(1, task.steps // frames)
        motion = self.run(record_every=every)
        times = np.arange(len(motion.q)) * every * task.dt
        return film(self.model, motion.q, times, path, **options)
