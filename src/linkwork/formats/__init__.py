"""Readers and writers of robot description files: URDF, SDF and MJCF. Files are treated as untrusted."""

from linkwork.formats.export import export_mjcf, export_urdf
from linkwork.formats.load import load
from linkwork.formats.loop_files import loop_file

__all__ = ["export_mjcf", "export_urdf", "load", "loop_file"]
