"""C target: C99 source files without linkwork, allocation, or libm functions beyond fma and sqrt."""

from linkwork.compiler.passes.arrangement import Arrangement
from linkwork.compiler.passes.cut import Cutting
from linkwork.compiler.passes.schedule import Scheduling
from linkwork.compiler.targets.c.export import Export, export_c, export_library
from linkwork.compiler.targets.c.files import Emitted, Function, emit_c, emit_library

__all__ = [
    "ARRANGEMENT",
    "Emitted",
    "Export",
    "Function",
    "emit_c",
    "emit_library",
    "export_c",
    "export_library",
]

ARRANGEMENT = Arrangement(Scheduling(short=2500, window=240), Cutting(max_uncut=6000, part_size=1000))
