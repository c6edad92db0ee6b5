"""The spine: SKO models (SKO Sec. 2), trees of nodes on which all algorithms are written.

`Node` and `Tree` make SKO models by hand; models of mechanisms become such trees in every state.
"""

from linkwork.sko.by_hand import Node, Tree

__all__ = ["Node", "Tree"]
