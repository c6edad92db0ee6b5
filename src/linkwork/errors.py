"""Exceptions and warnings of linkwork; all exceptions derive from `LinkworkError`."""

from __future__ import annotations


class LinkworkError(Exception):
    """Base class of all exceptions that linkwork raises."""


class TraceError(LinkworkError, TypeError):
    """A traced function used an operation that cannot be traced, such as branching on a symbol's value."""


class ProgramError(LinkworkError, ValueError):
    """A program violates the rules of the intermediate representation."""


class ShapeError(LinkworkError, ValueError):
    """An array has the wrong shape; the message names the argument."""


class DtypeError(LinkworkError, TypeError):
    """An array has a dtype that cannot be used without loss; the message names the argument."""


class OverlapError(LinkworkError, ValueError):
    """An output array shares memory with another array of the same call."""


class DifferentiationError(LinkworkError, ValueError):
    """A program contains an operation that cannot be differentiated in the requested mode."""


class TargetError(LinkworkError, RuntimeError):
    """A target cannot compile or run a program on this machine."""


class CacheError(LinkworkError, RuntimeError):
    """The folder of the kernel cache cannot be used as requested."""


class ModelError(LinkworkError, ValueError):
    """A model or its file is invalid, or a requested name is unknown; the message names the part."""


class LimitError(ModelError):
    """A file or the model in it exceeds one of `Limits`; the message names it and how to raise it."""


class ClosureError(ModelError):
    """Loops could not be closed; the message names them, the remaining gap, and what to try."""


class MissingPackageError(LinkworkError, ImportError):
    """A package required by an optional feature is not installed; the message says how to install it."""


class StudyError(LinkworkError, ValueError):
    """A study, its folder or a request to it is invalid; the message names the part."""


class InactiveActuatorsWarning(UserWarning):
    """Actuators of a model have no effect because no controls are given; the message names them."""


class UntestedShapesWarning(UserWarning):
    """Some pairs of shapes have no collision function and pass through each other; the message names them."""


class InitialPenetrationWarning(UserWarning):
    """Shapes overlap at the start of a motion; the message names the bodies and the depth."""
