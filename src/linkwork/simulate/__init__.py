"""Motion over time: rollouts of many states at once, in coordinates that are changed where they turn bad."""

import linkwork.simulate.exported  # noqa: F401  (which tells `export_c` of rollouts)
from linkwork.simulate.control import PD
from linkwork.simulate.rollout import Rollout, rollout
from linkwork.simulate.status import Status

__all__ = ["PD", "Rollout", "Status", "rollout"]
