"""Every error that linkwork raises on purpose, under one root."""

from __future__ import annotations


class LinkworkError(Exception):
    """Root of all errors that linkwork raises on purpose."""


class TraceError(LinkworkError, TypeError):
    """A traced function did something that no program can express, such as branching on a symbol's value."""


class ProgramError(LinkworkError, ValueError):
    """A program breaks the rules of the intermediate representation."""


class ShapeError(LinkworkError, ValueError):
    """An array has the wrong shape; the message names the argument."""


class DtypeError(LinkworkError, TypeError):
    """An array has a dtype that cannot be used without loss; the message names the argument."""


class OverlapError(LinkworkError, ValueError):
    """An output array shares memory with another array of the same call."""


class DifferentiationError(LinkworkError, ValueError):
    """A program holds something that cannot be differentiated in the asked direction."""


class TargetError(LinkworkError, RuntimeError):
    """A target cannot compile or run a program here."""


class CacheError(LinkworkError, RuntimeError):
    """The kernel cache folder cannot be used as asked."""


class ModelError(LinkworkError, ValueError):
    """A model, a file it is read from, or a name asked of it, is not right; the message says which part and
    why.
    """


class LimitError(ModelError):
    """A file, or what it describes, is larger than a limit.

    The message names the limit and how to raise it.
    """


class ClosureError(ModelError):
    """Loops could not be closed in a state; the message says which, by how much they are open, and what to
    try.
    """


class MissingPackageError(LinkworkError, ImportError):
    """A package that an optional part needs is not installed; the message says how to install it."""


class StudyError(LinkworkError, ValueError):
    """A study, its folder or what it was asked to do is invalid; the message names the part."""


class InactiveActuatorsWarning(UserWarning):
    """Servos of a model do not act in a motion without forces; the message names them, and what lets them
    act.
    """


class UntestedShapesWarning(UserWarning):
    """Shapes that take part in contact cannot be tested, alone or against each other, so they pass through;
    the message names them, and a remedy.
    """


class InitialPenetrationWarning(UserWarning):
    """Shapes overlap at the start of a motion; the message names the bodies, and says how deep they are."""
