"""Andrews' squeezing mechanism: seven bodies in the plane, three loops, one freedom (Hairer and Wanner II,
Sec. VII.7).

Schiehlen (ed.), Multibody systems handbook, 1990. Angles are those of the problem, beta, Theta, gamma, Phi,
delta, Omega and epsilon, as joints of these names; the end values are those of the test set for initial value
problem solvers.
"""

from __future__ import annotations

import numpy as np

import linkwork as lw
from planar_bars import Z

XA = -0.06934
YA = -0.00227
XB = -0.03635
YB = 0.03273
XC = 0.014
YC = 0.072
C0 = 4530.0
L0 = 0.07785
MOM = 0.033
D = 28e-3
DA = 115e-4
E = 2e-2
EA = 1421e-5
RR = 7e-3
RA = 92e-5
SS = 35e-3
SA = 1874e-5
SB = 1043e-5
SC = 18e-3
SD = 2e-2
TA = 2308e-5
TB = 916e-5
U = 4e-2
UA = 1228e-5
UB = 449e-5
ZF = 2e-2
ZT = 4e-2
FA = 1421e-5

START = {
    "beta": -0.0617138900142764496358948458001, "Theta": 0.0, "gamma": 0.455279819163070380255912382449,
    "Phi": 0.222668390165885884674473185609, "delta": 0.487364979543842550225598953530,
    "Omega": -0.222668390165885884674473185609, "epsilon": 1.23054744454982119249735015568,
}  # fmt: skip
END = {  # after 0.03 s
    "beta": 15.81077119629904, "Theta": -15.75637105984298, "gamma": 0.04082224013073101, "Phi": -0.5347301163226948,
    "delta": 0.5244099658805304, "Omega": 0.5347301163226948, "epsilon": 1.048080741042263,
}  # fmt: skip


def squeezer() -> lw.Model:
    """The mechanism without its spring and its motor, which `force` has."""
    builder = lw.ModelBuilder("Andrews' squeezer", gravity=(0.0, 0.0, 0.0))
    rows = [  # joint, on, where, mass, centre, moment of inertia
        ("beta", "world", (0.0, 0.0), 0.04325, (RA, 0.0), 2.194e-6),
        ("Theta", "beta", (RR, 0.0), 0.00365, (-DA, 0.0), 4.410e-7),
        ("gamma", "world", (XB, YB), 0.02373, (SB, -SA), 5.255e-6),
        ("delta", "world", (XA, YA), 0.07050, (TA, TB), 1.169e-5),
        ("Phi", "delta", (ZT, 0.0), 0.00706, (0.0, -(E - EA)), 5.667e-7),
        ("epsilon", "world", (XA, YA), 0.05498, (UB, -UA), 1.912e-5),
        ("Omega", "epsilon", (0.0, -U), 0.00706, (ZF - FA, 0.0), 5.667e-7),
    ]
    for name, on, (x, y), mass, (cx, cy), moment in rows:
        builder.add_body(name, mass=mass, center=(cx, cy, 0.0), inertia=(moment, moment, moment))
        builder.add_joint(name, Z, parent=on, child=name, xyz=(x, y, 0.0), independent=name == "beta")
    for other, (x, y) in (("gamma", (0.0, -SS)), ("Phi", (0.0, -E)), ("Omega", (ZF, 0.0))):
        ends = {"xyz": (-D, 0.0, 0.0), "successor_xyz": (x, y, 0.0)}
        builder.add_loop(f"pin of {other}", Z, predecessor="Theta", successor=other, **ends)
    return builder.build()


def force(model: lw.Model, q: np.ndarray) -> np.ndarray:
    """The motor at beta and the spring at gamma, as force of the independent velocity, (..., 1)."""
    gamma = q[..., model.joint("gamma").q_start]
    x = SD * np.cos(gamma) + SC * np.sin(gamma)
    y = SD * np.sin(gamma) - SC * np.cos(gamma)
    dx = x + XB - XC
    dy = y + YB - YC
    length = np.hypot(dx, dy)
    pull = -C0 * (length - L0) / length
    tau = np.zeros((*q.shape[:-1], model.nv_spanning))
    tau[..., model.joint("beta").v_start] = MOM
    tau[..., model.joint("gamma").v_start] = pull * (dy * x - dx * y)
    return np.asarray(lw.independent_force(model, q, tau))
