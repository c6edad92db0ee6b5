"""A function's own derivative rule: what it says, and where it holds."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple


class DerivativeRule(NamedTuple):
    """A function's own derivative: what gives its Jacobians by the named arrays; see `ModelFunction.derivative`."""

    names: tuple[str, ...]
    jacobians: Callable[..., Any]
    when: Callable[[Any, Mapping[str, Any]], bool] | None = None
    pullback: Callable[..., Any] | None = None
    pushforward: Callable[..., Any] | None = None

    @property
    def selective(self) -> bool:
        """Whether it asks which names are `wanted`, to leave out others."""
        return "wanted" in inspect.signature(self.jacobians).parameters

    def holds(self, model: Any, settings: Mapping[str, Any], names: Iterable[str], kind: str = "jacobian") -> bool:
        """Whether it says how a function of this model with these options changes by these names.

        By which "jvp" and "vjp" may be is not asked: a pushforward and a pullback know all names.
        """
        if kind == "jvp":
            known = self.pushforward is not None
        else:
            known = (kind == "vjp" and self.pullback is not None) or set(names) <= set(self.names)
        return known and (self.when is None or self.when(model, settings))
