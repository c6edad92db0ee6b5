"""Expansion of xacro files by the package of that name.

xacro files are programs: expand untrusted files elsewhere.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from linkwork.errors import MissingPackageError, ModelError
from linkwork.mechanism.names import printable


def expanded(path: str, arguments: Mapping[str, Any] | None = None) -> str:
    """Return the XML text of a xacro file."""
    try:
        xacro = importlib.import_module("xacro")
    except ModuleNotFoundError as error:
        if error.name != "xacro":
            raise
        raise MissingPackageError(
            f"{printable(path, 1000)}: expanding xacro requires an extra package: pip install "
            "'linkwork[xacro]'"
        ) from None
    mappings = {str(key): str(value) for key, value in (arguments or {}).items()}
    try:
        return str(xacro.process_file(path, mappings=mappings).toxml())
    except Exception as error:  # expressions in the file may raise anything
        raise ModelError(
            f"{printable(path, 1000)}: xacro failed: {type(error).__name__}: {printable(error, 500)}"
        ) from None
