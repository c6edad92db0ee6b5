"""Reductions: results over all samples, in memory that does not grow with their number."""

from linkwork.studies.reductions.base import Blocks, Reduction
from linkwork.studies.reductions.counting import Histogram, SuccessRate
from linkwork.studies.reductions.moments import Mean, Variance
from linkwork.studies.reductions.ordered import Extremes, Quantiles
from linkwork.studies.reductions.sensitivity import SobolIndices

__all__ = [
    "Blocks",
    "Extremes",
    "Histogram",
    "Mean",
    "Quantiles",
    "Reduction",
    "SobolIndices",
    "SuccessRate",
    "Variance",
]
