"""SKO models (SKO Sec. 2), trees of nodes on which all algorithms are written.

`Node` and `Tree` make custom SKO models, and `Stage` partitions a node; models of
mechanisms become such trees in every state.
"""

from linkwork.sko.custom import Tree
from linkwork.sko.custom_nodes import Stage
from linkwork.sko.node import Node

__all__ = ["Node", "Stage", "Tree"]
