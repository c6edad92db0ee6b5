"""Optional packages, imported on first use, with an error that explains how to install missing ones."""

from __future__ import annotations

import importlib
from typing import Any

from linkwork.errors import MissingPackageError


def needed(name: str, *, extra: str) -> Any:
    """Return an imported package; raise MissingPackageError with a hint if it is not installed."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise MissingPackageError(
            f"linkwork.interop.{extra} needs the package {name}, which is not installed: pip install "
            f"'linkwork[{extra}]'"
        ) from None
