"""Optional packages: imported where they are used, and asked for in one sentence where they are missing."""

from __future__ import annotations

import importlib
from typing import Any

from linkwork.errors import MissingPackageError


def needed(name: str, *, extra: str) -> Any:
    """Return a package, imported; an error that says how to get it where it is missing."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise MissingPackageError(
            f"linkwork.interop.{extra} needs the package {name}, which is not installed: pip install "
            f"'linkwork[{extra}]'"
        ) from None
