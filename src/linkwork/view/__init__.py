"""Pictures of models."""

from linkwork.view.graph import draw_graph

__all__ = ["draw_graph"]
