"""Spatial operators as lazy objects, multiplied with `@` and transposed with `.T` (SKO Sec. 2 to 7).

Products with stacked vectors are gathers and scatters over the tree; A X B* and A* X B are computed by
Lyapunov recursions. No system matrix is formed except by `dense()`.
"""

from linkwork.spatial_operators.operator import Operator
from linkwork.spatial_operators.operators import Operators
from linkwork.spatial_operators.spaces import Space
from linkwork.spatial_operators.sparsity import Sparsity

__all__ = ["Operator", "Operators", "Space", "Sparsity"]
