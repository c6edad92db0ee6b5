"""Limits on the size of models and on the work of loop analysis, as machine-independent counts."""

from __future__ import annotations

from dataclasses import dataclass, fields
from numbers import Integral

from linkwork.errors import LimitError, ModelError
from linkwork.spatial.constants import set_frozen


@dataclass(frozen=True)
class Limits:
    """Limits on the size of files and models, by which hostile files are rejected within seconds and 500 MB.

    Limits do not change how a file is interpreted. Raise them for large models:
    `lw.load(path, limits=lw.Limits(links=50_000))`.

    Parameters
    ----------
    size : int
        Bytes of a file.
    elements : int
        XML elements and attributes; a fifth of them for MJCF, including copies made by ``<replicate>``.
    links : int
        Links and joints.
    cluster : int
        Bodies coupled by loops and couplings, without simple mimic joints; four times as many loops and
        couplings are allowed.
    closing : int
        Work for closing loops: bodies plus equations, summed over all Newton steps. A four-bar linkage takes
        about 400.
    """

    size: int = 64 * 2**20
    elements: int = 250_000
    links: int = 4_000
    cluster: int = 150
    closing: int = 50_000

    def __post_init__(self) -> None:
        for field in fields(self):
            limit = getattr(self, field.name)
            if isinstance(limit, bool) or not isinstance(limit, Integral) or limit < 1:
                raise ModelError(f"limits: {field.name}: expected an integer of at least 1, got {limit!r}")
            set_frozen(self, field.name, int(limit))

    def raised(self, name: str) -> str:
        """Return a hint on how to raise a limit."""
        return (
            f"to allow it, raise the limit above {getattr(self, name)} by lw.load(..., "
            f"limits=lw.Limits({name}=...))"
        )


def checked_limits(limits: object) -> Limits:
    """Return `limits`, or the defaults for None."""
    if limits is None:
        return Limits()
    if not isinstance(limits, Limits):
        raise ModelError(f"limits: expected linkwork.Limits, such as lw.Limits(links=50_000), got {limits!r}")
    return limits


class Budget:
    """Counts the work of closing loops against the limit `closing`; without limits it is unbounded."""

    def __init__(self, limits: Limits | None) -> None:
        self.limits = limits
        self.spent = 0

    def spend(self, count: int) -> None:
        """Count work; raise LimitError if the total exceeds the limit."""
        self.spent += count
        if self.limits and self.spent > self.limits.closing:
            raise LimitError(
                f"closing the loops takes more work than the limit of {self.limits.closing} bodies and "
                "equations over all Newton steps: check placements and lengths; "
                f"{self.limits.raised('closing')}"
            )
