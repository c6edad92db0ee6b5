"""Readers of model files. The only rooms that see XML, and they trust none of it."""

from linkwork.formats.load import load

__all__ = ["load"]
