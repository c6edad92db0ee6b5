"""xacro files, expanded by the package of that name. They are programs: a file of a stranger must be expanded elsewhere."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from linkwork.errors import MissingPackageError, ModelError
from linkwork.parts.names import shown


def expanded(path: str, arguments: Mapping[str, Any] | None = None) -> str:
    """The XML text of a xacro file."""
    try:
        xacro = importlib.import_module("xacro")
    except ModuleNotFoundError as error:
        if error.name != "xacro":
            raise
        raise MissingPackageError(
            f"{shown(path, 1000)}: to expand xacro, its package is needed: pip install 'linkwork[xacro]'"
        ) from None
    given = {str(key): str(value) for key, value in (arguments or {}).items()}
    try:
        return str(xacro.process_file(path, mappings=given).toxml())
    except Exception as error:  # it raises whatever its expressions raise
        raise ModelError(f"{shown(path, 1000)}: xacro says: {type(error).__name__}: {shown(error, 500)}") from None
