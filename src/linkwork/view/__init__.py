"""Pictures of models."""

from linkwork.view.graph import draw_graph
from linkwork.view.tree import draw_tree

__all__ = ["draw_graph", "draw_tree"]
