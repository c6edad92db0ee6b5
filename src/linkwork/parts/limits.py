"""How much a model may take to be read and looked at: counts, so that the same file is refused or taken everywhere."""

from __future__ import annotations

from dataclasses import dataclass, fields

from linkwork.errors import LimitError, ModelError


@dataclass(frozen=True)
class Limits:
    """The most that is taken from a file, so that a hostile one is refused in a few seconds and 500 MB.

    Who means it gives larger ones: `lw.load(path, limits=lw.Limits(links=50_000))`. They never change what a file means.
    """

    size: int = 64 * 2**20  # bytes of the file
    elements: int = 250_000  # of XML, and attributes
    links: int = 4_000
    cluster: int = 150  # bodies that loops and couplings tie together, unless each joint simply follows another
    closing: int = 25_000  # while loops are closed: bodies and equations, each counted once for every Newton step

    def __post_init__(self) -> None:
        for field in fields(self):
            most = getattr(self, field.name)
            if isinstance(most, bool) or not isinstance(most, int) or most < 1:
                raise ModelError(f"limits: {field.name} must be a whole number of at least 1, not {most!r}")

    def raised(self, name: str) -> str:
        """How to raise the limit of this name."""
        return f"who means it gives lw.load(..., limits=lw.Limits({name}=...)) more than {getattr(self, name)}"


def checked_limits(limits: object) -> Limits:
    """The limits that are given, or the usual ones for None."""
    if limits is None:
        return Limits()
    if not isinstance(limits, Limits):
        raise ModelError(f"limits must be linkwork.Limits, such as lw.Limits(links=50_000), not {limits!r}")
    return limits


class Budget:
    """What is left of `closing`; without limits there is always enough."""

    def __init__(self, limits: Limits | None) -> None:
        self.limits = limits
        self.taken = 0

    def take(self, count: int) -> None:
        """Count so much work, or raise LimitError where that is more than is left."""
        self.taken += count
        if self.limits and self.taken > self.limits.closing:
            raise LimitError(
                f"to close the loops takes longer than is allowed, which is {self.limits.closing} bodies and equations in all "
                f"Newton steps: check places and lengths; {self.limits.raised('closing')}"
            )
