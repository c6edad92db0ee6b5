"""Programs as C99 source: files that need no linkwork, no allocation and no more of libm than fma and sqrt."""

from linkwork.passes.arrangement import Arrangement
from linkwork.passes.cut import Cutting
from linkwork.passes.schedule import Scheduling
from linkwork.targets.c.emit import Emitted, emit_c
from linkwork.targets.c.export import Export, export_c

__all__ = ["ARRANGEMENT", "Emitted", "Export", "emit_c", "export_c"]

ARRANGEMENT = Arrangement(Scheduling(short=2500, window=240), Cutting(whole=6000, part=1000))
