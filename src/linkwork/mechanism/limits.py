"""Limits on the size of models and on the work of loop analysis, as machine-independent counts."""

from __future__ import annotations

from dataclasses import dataclass, fields
from numbers import Integral

from linkwork.errors import LimitError, ModelError
from linkwork.spatial.constants import set_frozen


@dataclass(frozen=True)
class Limits:
    """Limits on what is read from a file, so that a hostile one is refused within a few seconds and 500 MB.

    Larger ones can be given: `lw.load(path, limits=lw.Limits(links=50_000))`. They never change what a file
    means.
    """

    size: int = 64 * 2**20  # bytes of the file
    elements: int = 250_000  # of XML, and attributes
    links: int = 4_000
    cluster: int = (
        150  # bodies in one cluster of loops and couplings, unless these are explicit, as for mimic joints
    )
    closing: int = 50_000  # of loops: bodies plus equations, summed over all Newton steps

    def __post_init__(self) -> None:
        for field in fields(self):
            most = getattr(self, field.name)
            if isinstance(most, bool) or not isinstance(most, Integral) or most < 1:
                raise ModelError(f"limits: {field.name}: expected an integer of at least 1, got {most!r}")
            set_frozen(self, field.name, int(most))

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
        self.taken = 0

    def take(self, count: int) -> None:
        """Count work; raise LimitError if the total exceeds the limit."""
        self.taken += count
        if self.limits and self.taken > self.limits.closing:
            raise LimitError(
                f"closing the loops takes more work than the limit of {self.limits.closing} bodies and "
                "equations over all "
                f"Newton steps: check placements and lengths; {self.limits.raised('closing')}"
            )
