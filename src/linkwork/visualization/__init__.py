"""Pictures, films and a viewer of models."""

from linkwork.visualization.film import film
from linkwork.visualization.graph import draw_graph
from linkwork.visualization.tree import draw_tree
from linkwork.visualization.viewer import Viewer

__all__ = ["Viewer", "draw_graph", "draw_tree", "film"]
