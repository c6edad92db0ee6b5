"""Fits of models to recorded motions, and motions that excite parameters."""

from linkwork.identification.directions import Direction
from linkwork.identification.excitation import Excitation, excitation_trajectory
from linkwork.identification.fit import fit_parameters
from linkwork.identification.recordings import Recording
from linkwork.identification.result import FitResult

__all__ = ["Direction", "Excitation", "FitResult", "Recording", "excitation_trajectory", "fit_parameters"]
