"""Parameter studies: samplers, tasks, reductions, executors and folders,
from one process to a Ray cluster.
"""

from linkwork.studies.distributions import (
    Choice,
    Constant,
    Distribution,
    Exponential,
    LogNormal,
    LogUniform,
    Normal,
    Offset,
    Scale,
    TruncatedNormal,
    Uniform,
)
from linkwork.studies.gradients import Gradient
from linkwork.studies.outputs import Batch, Final
from linkwork.studies.reductions import (
    Blocks,
    Extremes,
    Histogram,
    Mean,
    Quantiles,
    Reduction,
    SobolIndices,
    SuccessRate,
    Variance,
)
from linkwork.studies.result import StudyResult
from linkwork.studies.sample import Sample
from linkwork.studies.samplers import FromFunction, Grid, LatinHypercube, Random, Saltelli, Sampler, Sobol
from linkwork.studies.study import Study
from linkwork.studies.tasks import FunctionTask, RolloutTask

__all__ = [
    "Batch",
    "Blocks",
    "Choice",
    "Constant",
    "Distribution",
    "Exponential",
    "Extremes",
    "Final",
    "FromFunction",
    "FunctionTask",
    "Gradient",
    "Grid",
    "Histogram",
    "LatinHypercube",
    "LogNormal",
    "LogUniform",
    "Mean",
    "Normal",
    "Offset",
    "Quantiles",
    "Random",
    "Reduction",
    "RolloutTask",
    "Saltelli",
    "Sample",
    "Sampler",
    "Scale",
    "Sobol",
    "SobolIndices",
    "Study",
    "StudyResult",
    "SuccessRate",
    "TruncatedNormal",
    "Uniform",
    "Variance",
]
