"""Consistency checks of user-defined joints, run when a model takes one.

The methods of a joint are compared with each other at a few random coordinates. Derivatives are finite
differences of fourth order, since joints do not depend on the tracer; programs trace the same formulas.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from linkwork.errors import ModelError
from linkwork.spatial import Pose, axial
from linkwork.spatial.vectors import ad

N_STATES = 3  # random coordinates at which a joint is checked
EQUALITY_TOL = 1e-9  # relative difference of two expressions that are equal
DERIVATIVE_TOL = 1e-6  # relative difference of a derivative and its finite difference
DIFFERENCE_STEPS = (1e-3, 1e-4, 1e-5)  # a derivative passes if it agrees for one of these
SPRING_KINDS = ("each", "equal", "none")


def check_joint(kind: Any) -> None:
    """Raise ModelError if the methods of a joint are inconsistent or return invalid values.

    The result is cached for joints of the same class with equal attributes.
    """
    try:
        _check_once(_JointKey(kind))
    except ModelError:
        raise
    except Exception as error:
        raise ModelError(
            f"a method of {type(kind).__name__} fails: {type(error).__name__}: {error}"
        ) from error


class _JointKey:
    """A joint hashed by its class and attributes, or by identity if these are unhashable or slots."""

    def __init__(self, kind: Any) -> None:
        self.kind = kind
        self.values: Any = (type(kind), *sorted(vars(kind).items(), key=lambda item: item[0]))
        if any(vars(base).get("__slots__") for base in type(kind).__mro__) or not _is_hashable(self.values):
            self.values = id(self)

    def __hash__(self) -> int:
        return hash(self.values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _JointKey) and bool(self.values == other.values)


def _is_hashable(values: Any) -> bool:
    try:
        hash(values)
    except TypeError:
        return False
    return True


@lru_cache(maxsize=256)
def _check_once(key: _JointKey) -> None:
    _check_joint(key.kind)


def _check_joint(kind: Any) -> None:
    name = type(kind).__name__
    for attribute in ("nq", "nv"):
        n = getattr(kind, attribute, None)
        if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 0:
            raise ModelError(f"{name}.{attribute}: expected a non-negative integer, got {n!r}")
    if kind.springs not in SPRING_KINDS:
        raise ModelError(f"{name}.springs: expected one of {', '.join(SPRING_KINDS)}; got {kind.springs!r}")
    names = tuple(kind.components)
    if (
        len(names) != kind.nv
        or len(set(names)) != kind.nv
        or not all(isinstance(component, str) for component in names)
    ):
        raise ModelError(f"{name}.components: expected {kind.nv} distinct strings, got {names!r}")
    _Check(kind).neutral()
    rng = np.random.default_rng(0)
    for _ in range(N_STATES):
        check = _Check(kind, kind.random(rng))
        v = rng.normal(size=kind.nv)
        check.motion(v)
        check.steps(v)
        check.descriptions(v)
        check.parts(v)


def check_springs(kind: Any) -> None:
    """Raise ModelError if the joint cannot have one spring per velocity.

    Such springs have a potential only if coordinates form a plain vector: q̇ = v and differences are
    subtractions.
    """
    rng = np.random.default_rng(0)
    q = kind.random(rng)
    q1 = kind.random(rng)
    v = rng.normal(size=kind.nv)
    is_vector = kind.nq == kind.nv
    for actual, expected in (
        (kind.rate(q, v), v),
        (kind.difference(q, q1), np.subtract(q1, q) if is_vector else v),
    ):
        if not is_vector or not _relative_error(actual, expected) <= EQUALITY_TOL:
            raise ModelError(
                f"{type(kind).__name__}.springs: expected 'equal' or 'none', got 'each'; "
                "one spring per velocity requires rate(q, v) = v and difference(q0, q1) = q1 - q0"
            )


def check_closure(kind: Any) -> None:
    """Raise ModelError if the closure equations of a joint do not match its pose; a joint may have none."""
    name = type(kind).__name__
    try:
        rows = kind.closure()
    except NotImplementedError:
        return
    if len(rows) != 6 - kind.nv:
        raise ModelError(f"{name}.closure: expected 6 - nv = {6 - kind.nv} equations, got {len(rows)}")
    if not kind.tree:
        return
    rng = np.random.default_rng(0)
    for _ in range(N_STATES):
        check = _Check(kind, kind.random(rng))
        pose = check.pose(check.q)
        check.agree(
            "closure",
            "equations that hold at the joint's pose",
            [row.residual(pose.R, pose.p) for row in rows],
            0.0,
        )
        normals = np.array(
            [np.concatenate(row.coefficients(Pose.identity(), pose)) for row in rows], dtype=float
        )
        if len(rows) and np.linalg.matrix_rank(normals, tol=1e-8 * np.abs(normals).max()) < len(rows):
            raise ModelError(
                f"{name}.closure: expected independent equations, got redundant ones "
                f"at q = {check.q.tolist()}"
            )


def composed(parts: Sequence[Any], q: np.ndarray, v: np.ndarray) -> tuple[Pose, np.ndarray, np.ndarray]:
    """Return pose, motion subspace (6, nv) and bias (6,) of joints in series."""
    X = Pose.identity()
    subspace = np.zeros((6, 0))
    V = np.zeros(6)
    bias = np.zeros(6)
    i = j = 0
    for part in parts:
        part_q = q[i : i + part.nq]
        part_v = v[j : j + part.nv]
        i = i + part.nq
        j = j + part.nv
        part_pose = part.transform(part_q)
        S = part.subspace(part_q)
        Sv = np.asarray(S, dtype=float) @ part_v
        V = part_pose.scatter(V)  # the motion of the parts before, in the frame behind this part
        bias = part_pose.scatter(bias) - ad(Sv, V) + part.bias(part_q, part_v)
        X = X.then(part_pose)
        subspace = np.concatenate([part_pose.scatter(subspace), S], axis=1)
        V = V + Sv
    return X, subspace, bias


class _Check:
    """The checks of a joint at coordinates q (neutral by default)."""

    def __init__(self, kind: Any, q: Any = None) -> None:
        self.kind = kind
        self.name = type(kind).__name__
        self.q = self.numbers(
            "neutral" if q is None else "random", kind.neutral() if q is None else q, (kind.nq,)
        )

    def numbers(self, method: str, value: Any, shape: tuple[int, ...]) -> np.ndarray:
        """Return a result as an array of finite numbers of this shape; raise ModelError otherwise."""
        try:
            array = np.array(value, dtype=float)
        except (TypeError, ValueError):
            raise ModelError(
                f"{self.name}.{method}: expected numbers of shape {shape}, got {value!r}"
            ) from None
        if array.shape != shape:
            raise ModelError(f"{self.name}.{method}: expected shape {shape}, got {array.shape}")
        if not np.isfinite(array).all():
            raise ModelError(f"{self.name}.{method}: expected finite numbers, got {array.tolist()}")
        return array

    def agree(
        self, method: str, description: str, actual: Any, expected: Any, tolerance: float = EQUALITY_TOL
    ) -> None:
        """Raise ModelError if a result differs from its expected value by more than a relative tolerance."""
        error = _relative_error(actual, expected)
        if not error <= tolerance:
            raise ModelError(
                f"{self.name}.{method}: expected {description}, got a relative difference of {error:.2g} "
                f"at q = {self.q.tolist()}"
            )

    def pose(self, q: np.ndarray) -> Pose:
        """Return the pose at q as floats."""
        T = self.kind.transform(q)
        if not isinstance(T, Pose):
            raise ModelError(
                f"{self.name}.transform: expected a linkwork.spatial.Pose, got a {type(T).__name__}"
            )
        R = self.numbers("transform: R", T.R, (3, 3))
        p = self.numbers("transform: p", T.p, (3,))
        if not _relative_error(R.T @ R, np.eye(3)) <= EQUALITY_TOL or np.linalg.det(R) < 0.0:
            raise ModelError(f"{self.name}.transform: expected a rotation matrix, got {R.tolist()}")
        return Pose(R, p)

    def S(self, q: np.ndarray) -> np.ndarray:
        """Return the motion subspace at q as floats."""
        return self.numbers("subspace", self.kind.subspace(q), (6, self.kind.nv))

    def neutral(self) -> None:
        """Check that the frames coincide at the neutral coordinates and that `random` is deterministic."""
        description = "parent and child frames that coincide at neutral()"
        self.agree("transform", description, self.pose(self.q).matrix(), np.eye(4))
        first, second = (self.kind.random(np.random.default_rng(1)) for _ in range(2))
        self.agree("random", "equal coordinates from generators with equal seeds", second, first, 0.0)

    def motion(self, v: np.ndarray) -> None:
        """Check that S v is the twist of `transform` and `bias` is Ṡ v, where q̇ = rate(q, v)."""
        kind = self.kind
        q = self.q
        T = self.pose(self.q)
        rate = self.numbers("rate", kind.rate(q, v), (kind.nq,))
        Sv = self.S(q) @ v
        bias = self.numbers("bias", kind.bias(q, v), (6,))
        self.agree("transform", "equal results of two calls", self.pose(q).matrix(), T.matrix(), 0.0)
        self.agree("subspace", "equal results of two calls", self.S(q) @ v, Sv, 0.0)
        self.agree("bias", "equal results of two calls", kind.bias(q, v), bias, 0.0)

        def displacement(h: float) -> np.ndarray:
            return _twist(T, self.pose(q + h * rate))

        self._derivative("subspace", "the twist of transform(q): S v with q̇ = rate(q, v)", displacement, Sv)
        self._derivative(
            "bias",
            "the rate of subspace(q) v: Ṡ v with q̇ = rate(q, v)",
            lambda h: self.S(q + h * rate) @ v,
            bias,
        )

    def steps(self, v: np.ndarray) -> None:
        """Check that `integrate` moves along S v, and `difference` and `chord` invert it."""
        kind = self.kind
        q = self.q
        T = self.pose(self.q)

        def moved(h: float) -> np.ndarray:
            return self.numbers("integrate", kind.integrate(q, h * v), (kind.nq,))

        self.agree("integrate", "q itself for v = 0", self.pose(moved(0.0)).matrix(), T.matrix())
        description = "a curve that leaves q with the twist S v"
        self._derivative("integrate", description, lambda h: _twist(T, self.pose(moved(h))), self.S(q) @ v)
        for size in (1e-3, 0.3):
            v_back = self.numbers("difference", kind.difference(q, moved(size)), (kind.nv,))
            reached = self.pose(self.numbers("integrate", kind.integrate(q, v_back), (kind.nq,)))
            self.agree(
                "difference", "the inverse of integrate", reached.matrix(), self.pose(moved(size)).matrix()
            )
            self.agree("difference", "the inverse of integrate", self.S(q) @ v_back, self.S(q) @ (size * v))
            chord = self.numbers("chord", kind.chord(q, moved(size)), (kind.nv,))
            velocity = self.numbers("chord_to_velocity", kind.chord_to_velocity(chord), (kind.nv,))
            self.agree("chord", "chord_to_velocity(chord(q0, q1)) = difference(q0, q1)", velocity, v_back)
            numeric = self.numbers("numeric_integrate", kind.numeric_integrate(q, size * v), (kind.nq,))
            self.agree("numeric_integrate", "the result of integrate", numeric, moved(size))

    def descriptions(self, v: np.ndarray) -> None:
        """Check `units`, `numeric_motion`, `axis_aligned` and `symmetry` against transform and subspace."""
        kind = self.kind
        q = self.q
        T = self.pose(self.q)
        units = self.numbers("units", kind.units(1.0), (kind.nv,))
        if not (units > 0.0).all():
            raise ModelError(f"{self.name}.units: expected positive numbers, got {units.tolist()}")
        R, p, S = kind.numeric_motion(q)
        self.agree(
            "numeric_motion", "R and p of transform", np.column_stack([R, p]), np.column_stack([T.R, T.p])
        )
        self.agree("numeric_motion", "the result of subspace", S, self.S(q))
        aligned_joint, C = kind.axis_aligned()
        aligned = _Check(aligned_joint, q)
        if aligned_joint is not kind:
            moved = C.then(aligned.pose(q)).then(C.inverse())
            self.agree(
                "axis_aligned", "transform(q) = C aligned.transform(q) C⁻¹", moved.matrix(), T.matrix()
            )
            aligned.motion(v)
            self.agree("axis_aligned", "an equal rate(q, v)", aligned_joint.rate(q, v), kind.rate(q, v))
        shifts, turn, phase = aligned_joint.symmetry()
        commuting = [Pose.translation(0.7 * np.eye(3)[k]) for k in shifts]
        commuting += [] if turn is None else [Pose.rotation_about(turn, 0.7)]
        for C in commuting:
            moved_after = aligned.pose(q).then(C)
            moved_before = C.then(aligned.pose(q))
            self.agree(
                "symmetry", "displacements C with C T = T C", moved_after.matrix(), moved_before.matrix()
            )
        if phase and turn is not None:
            shifted = aligned.pose(np.concatenate([[q[0] + 0.7 * phase], q[1:]]))
            self.agree(
                "symmetry",
                "T(q) C = T(q + phase)",
                aligned.pose(q).then(Pose.rotation_about(turn, 0.7)).matrix(),
                shifted.matrix(),
            )

    def parts(self, v: np.ndarray) -> None:
        """Check that the joints of `partition` in series equal this joint (Partition Eq. 5)."""
        kind = self.kind
        parts = tuple(kind.partition())
        if not parts:
            return
        for attribute in ("nq", "nv"):
            total = sum(getattr(part, attribute) for part in parts)
            if total != getattr(kind, attribute):
                raise ModelError(
                    f"{self.name}.partition: expected joints with total {attribute} = "
                    f"{getattr(kind, attribute)}, got {total}"
                )
        X, S, bias = composed(parts, self.q, v)
        for actual, expected in (
            (X.matrix(), self.pose(self.q).matrix()),
            (S, self.S(self.q)),
            (bias, kind.bias(self.q, v)),
        ):
            self.agree(
                "partition",
                "joints that in series equal this joint (Partition Eq. 5)",
                actual,
                expected,
            )

    def _derivative(
        self, method: str, description: str, f: Callable[[float], np.ndarray], expected: np.ndarray
    ) -> None:
        """Raise ModelError if a value is not the derivative of f at 0."""
        errors = []
        for h in DIFFERENCE_STEPS:
            derivative = (8.0 * (f(h) - f(-h)) - (f(2.0 * h) - f(-2.0 * h))) / (12.0 * h)
            errors.append(_relative_error(derivative, expected))
            if errors[-1] <= DERIVATIVE_TOL:
                return
        h = DIFFERENCE_STEPS[int(np.argmin(errors))]
        derivative = (8.0 * (f(h) - f(-h)) - (f(2.0 * h) - f(-2.0 * h))) / (12.0 * h)
        self.agree(method, description, derivative, expected, DERIVATIVE_TOL)


def _twist(T: Pose, moved: Pose) -> np.ndarray:
    """Return the displacement between two close poses to first order: [rotation, translation], (6,).

    It is expressed in the axes of the first pose.
    """
    step = T.inverse().then(moved)
    R = np.asarray(step.R, dtype=float)
    return np.concatenate([0.5 * axial(R - R.T), np.asarray(step.p, dtype=float)])


def _relative_error(actual: Any, expected: Any) -> float:
    """Return the largest difference, relative to the largest expected value if that is above one."""
    a = np.asarray(actual, dtype=float)
    b = np.asarray(expected, dtype=float)
    return float(np.abs(a - b).max(initial=0.0)) / max(1.0, float(np.abs(b).max(initial=0.0)))
