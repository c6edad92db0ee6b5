"""Arguments of functions for other software, by position or name, with errors that name the argument."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from linkwork.errors import ShapeError
from linkwork.functions.engine.sources import Source


def signature_of(names: Sequence[str]) -> inspect.Signature:
    """Return the signature of a function of these arrays."""
    return inspect.Signature(
        [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in names]
    )


def bind_arguments(
    name: str, signature: inspect.Signature, arrays: Sequence[Any], named: Mapping[str, Any]
) -> list[Any]:
    """Return the arguments of a call in the order of its signature."""
    try:
        values = signature.bind(*arrays, **named).arguments
    except TypeError as error:
        raise TypeError(f"{name}: {error}; expected {', '.join(signature.parameters)}") from None
    return [values[word] for word in signature.parameters]


def batch_shapes(source: Source, shapes: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return the batch dimensions of each array of a call."""
    leads = []
    for spec, shape in zip(source.inputs, shapes, strict=True):
        lead = len(shape) - len(spec.shape)
        if lead < 0 or shape[lead:] != spec.shape:
            expected = ", ".join(["...", *map(str, spec.shape)])
            raise ShapeError(f"{source.name}: {spec.name}: expected shape ({expected}), got {shape}")
        leads.append(shape[:lead])
    return leads


def broadcast_error(source: Source, leads: Sequence[tuple[Any, ...]]) -> ShapeError:
    """Return the error for batch dimensions that cannot be broadcast."""
    lead_texts = ", ".join(
        f"{lead} of {spec.name}" for spec, lead in zip(source.inputs, leads, strict=True) if lead
    )
    return ShapeError(f"{source.name}: leading dimensions cannot be broadcast: {lead_texts}")
