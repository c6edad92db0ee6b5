"""Derivative rules of functions, and the conditions under which they hold."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple


class DerivativeRule(NamedTuple):
    """Jacobians of a function with respect to the named arrays; see `ModelFunction.derivative`."""

    names: tuple[str, ...]
    jacobians: Callable[..., Any]
    when: Callable[[Any, Mapping[str, Any]], bool] | None = None
    pullback: Callable[..., Any] | None = None
    pushforward: Callable[..., Any] | None = None

    @property
    def selective(self) -> bool:
        """True if the rule takes the argument `wanted`, the names needed, and may skip all others."""
        return "wanted" in inspect.signature(self.jacobians).parameters

    def holds(
        self, model: Any, settings: Mapping[str, Any], names: Iterable[str], kind: str = "jacobian"
    ) -> bool:
        """Return True if the rule gives derivatives with respect to these names, for this model and options.

        A pushforward ("jvp") and a pullback ("vjp") support all names, Jacobians only those of the rule.
        """
        if kind == "jvp":
            is_supported = self.pushforward is not None
        else:
            is_supported = (kind == "vjp" and self.pullback is not None) or set(names) <= set(self.names)
        return is_supported and (self.when is None or self.when(model, settings))
