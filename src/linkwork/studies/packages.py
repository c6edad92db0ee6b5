"""Optional packages of studies: imported where they are used."""

from __future__ import annotations

import importlib
from typing import Any

from linkwork.errors import MissingPackageError


def import_optional(name: str, purpose: str) -> Any:
    """Return an imported package, or raise one sentence with the command that installs it."""
    package = name.partition(".")[0]
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name not in (package, name):
            raise
        raise MissingPackageError(
            f"{purpose} needs the package {package}, which is not installed: pip install 'linkwork[study]'"
        ) from None
