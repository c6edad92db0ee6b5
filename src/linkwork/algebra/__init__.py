"""Spatial operators as objects (SKO Sec. 2 to 7): lazy, multiplied with `@`, transposed with `.T`, over numbers or symbols.

Products with stacked vectors are gathers and scatters over the tree; A X B* and A* X B are found by Lyapunov recursions. No
matrix of the whole system is made unless `dense()` asks for it.
"""

from linkwork.algebra.operator import Operator
from linkwork.algebra.operators import Operators
from linkwork.algebra.spaces import Space
from linkwork.algebra.sparsity import Sparsity

__all__ = ["Operator", "Operators", "Space", "Sparsity"]
