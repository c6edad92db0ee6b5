"""Programs as C99 source: files that need no linkwork, no allocation and no more of libm than fma and sqrt."""

from linkwork.targets.c.emit import Emitted, emit_c
from linkwork.targets.c.export import Export, export_c

__all__ = ["Emitted", "Export", "emit_c", "export_c"]
