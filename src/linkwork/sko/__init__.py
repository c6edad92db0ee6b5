"""The spine: SKO models (SKO Sec. 2), trees of nodes on which all algorithms are written.

`Node` and `Tree` make SKO models by hand, and `Stage` says how a node of them is partitioned; models of
mechanisms become such trees in every state.
"""

from linkwork.sko.custom import Tree
from linkwork.sko.custom_nodes import Stage
from linkwork.sko.node import Node

__all__ = ["Node", "Stage", "Tree"]
