"""Readers of model files. The only rooms that see XML, and they trust none of it."""

from linkwork.formats.export import export_mjcf, export_urdf
from linkwork.formats.load import load
from linkwork.formats.loop_files import loop_file

__all__ = ["export_mjcf", "export_urdf", "load", "loop_file"]
