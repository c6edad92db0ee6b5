"""Derivative rules of functions, and the conditions under which they hold."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple


class DerivativeRule(NamedTuple):
    """Derivative rule of a function: its Jacobians by the named arrays; see `ModelFunction.derivative`."""

    names: tuple[str, ...]
    jacobians: Callable[..., Any]
    when: Callable[[Any, Mapping[str, Any]], bool] | None = None
    pullback: Callable[..., Any] | None = None
    pushforward: Callable[..., Any] | None = None

    @property
    def selective(self) -> bool:
        """The rule takes the names that are `wanted`, to skip others."""
        return "wanted" in inspect.signature(self.jacobians).parameters

    def holds(
        self, model: Any, settings: Mapping[str, Any], names: Iterable[str], kind: str = "jacobian"
    ) -> bool:
        """Return whether the rule gives derivatives by these names for this model and these options.

        For "jvp" and "vjp" a pushforward and a pullback know all names.
        """
        if kind == "jvp":
            known = self.pushforward is not None
        else:
            known = (kind == "vjp" and self.pullback is not None) or set(names) <= set(self.names)
        return known and (self.when is None or self.when(model, settings))
