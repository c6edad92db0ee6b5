"""Programs as C99 source: files that need no linkwork, no allocation and no more of libm than fma and sqrt."""

from linkwork.passes.arrangement import Arrangement
from linkwork.passes.cut import Cutting
from linkwork.passes.schedule import Scheduling
from linkwork.targets.c.export import Export, export_c, export_library
from linkwork.targets.c.files import Emitted, Function, emit_c, emit_library

__all__ = ["ARRANGEMENT", "Emitted", "Export", "Function", "emit_c", "emit_library", "export_c", "export_library"]

ARRANGEMENT = Arrangement(Scheduling(short=2500, window=240), Cutting(whole=6000, part=1000))
