"""Pictures, films and a viewer of models. The room itself can be called: `lw.view(model)` shows a model in the browser."""

import sys
from types import ModuleType

from linkwork.view.film import film
from linkwork.view.graph import draw_graph
from linkwork.view.tree import draw_tree
from linkwork.view.viewer import Viewer, view

__all__ = ["Viewer", "draw_graph", "draw_tree", "film", "view"]


class _Room(ModuleType):
    __call__ = staticmethod(view)


sys.modules[__name__].__class__ = _Room
