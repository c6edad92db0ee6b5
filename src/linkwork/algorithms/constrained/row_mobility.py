"""Typical mobilities of constraint rows, which make compliances and tolerances independent of units.

The mobility of a row is its diagonal entry of the Delassus matrix J M⁻¹ Jᵀ [1/kg or 1/(kg m²)]. It is
evaluated once for a model, in a few configurations, and rounded: only its order of magnitude matters. Rows in
m/s² share one number, and so do rows in rad/s², unless mobilities differ too much: forces of redundant rows
then have the least sum of squares for any unit of length.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from linkwork.algorithms.constrained.constraint_rows import ConstraintRows, nodes_for
from linkwork.algorithms.tree.mass_matrix import mass_matrix
from linkwork.compiler.ir.context import untraced
from linkwork.compiler.ir.symbol import Symbol
from linkwork.constraints import Constraint, rows_of, total, with_nominal_numbers
from linkwork.errors import LinkworkError
from linkwork.model import Model
from linkwork.sko.custom import Tree

TRIAL_STATES = 3
IMMOBILE_TOL = 1e-9  # mobility relative to the largest of its kind up to which a row counts as immobile
DEPENDENT_TOL = 1e-6  # of a unit row, what is left without those before it, up to which it depends on them
MAX_SPREAD = 1e4  # ratio of mobilities represented by one number


def row_mobilities(model: Model | Tree, constraints: Sequence[Constraint]) -> np.ndarray:
    """Return the typical mobility of each row, (m,), powers of four, by nominal numbers."""
    nominal = model.nominal
    constraints = with_nominal_numbers(model, constraints)
    mobilities: np.ndarray = _of_numbers(nominal, _evaluate, constraints)
    return mobilities


def typical_mobilities(model: Model | Tree, constraints: Sequence[Constraint]) -> np.ndarray:
    """Return the typical mobility of each row, (m,), for the masses at hand."""
    mobilities: np.ndarray = row_mobilities(model, constraints) * mass_ratio(model)
    return mobilities


def joint_mobilities(model: Model | Tree) -> np.ndarray:
    """Return the typical diagonal of the inverse mass matrix, (nv,), powers of four, by nominal numbers."""
    mobilities: np.ndarray = _of_numbers(model.nominal, _joint_mobilities)
    return mobilities


def _joint_mobilities(model: Model | Tree) -> np.ndarray:
    diagonals = [np.zeros(model.nv)]
    for q in _configurations(model):
        with suppress(LinkworkError, ZeroDivisionError):
            M = np.asarray(mass_matrix(nodes_for(model, (), q)), dtype=float)
            diagonals.append(_diagonal(np.eye(model.nv), M))
    largest = np.max(diagonals, axis=0)
    known = np.isfinite(largest) & (largest > 0.0)
    return np.where(known, _power_of_four(np.where(known, largest, 1.0)), 0.0)


def dependent_rows(
    model: Model | Tree, constraints: Sequence[Constraint], free: np.ndarray | None = None
) -> tuple[int, ...]:
    """Return the rows that always depend on those before them, by nominal numbers in a few configurations.

    `free`: velocities that the rows act on, (nv,); default all. Combinations of loops' rows that are taken
    out count as different.
    """
    nominal = model.nominal
    constraints = with_nominal_numbers(model, constraints)
    rows: tuple[int, ...] = _of_numbers(
        nominal, _dependent_rows, constraints, None if free is None else tuple(free.tolist())
    )
    return rows


def _of_numbers(model: Model | Tree, function: Callable[..., Any], *args: Any) -> Any:
    """Return a function of plain numbers, cached on the model if the arguments can be hashed.

    It is evaluated outside of the current trace, whose program must not depend on whether the value was
    cached.
    """
    key: Any = (function, *args)
    try:
        if key in model.cache:
            return model.cache[key]
    except TypeError:  # constraints of others
        key = None
    with untraced():
        value = function(model, *args)
    if key is not None:
        model.cache[key] = value
    return value


def _dependent_rows(
    model: Model | Tree, constraints: Sequence[Constraint], free: tuple[bool, ...] | None
) -> tuple[int, ...]:
    dependent: set[int] | None = None
    for q in _closed_configurations(model):
        with suppress(LinkworkError, ZeroDivisionError):
            rows = ConstraintRows(nodes_for(model, constraints, q), constraints)
            J = np.asarray(rows.jacobian(), dtype=float)[:, slice(None) if free is None else np.array(free)]
            taken_out = np.asarray(rows.undetermined(np.eye(rows.m), np.ones(rows.m)), dtype=float)
            dependent_here = _dependent(J, taken_out)
            dependent = dependent_here if dependent is None else dependent & dependent_here
    return tuple(sorted(dependent or ()))


def _dependent(J: np.ndarray, taken_out: np.ndarray) -> set[int]:
    """Return the rows that depend on those before them."""
    sizes = np.linalg.norm(J, axis=1)
    sizes[sizes <= IMMOBILE_TOL * sizes.max(initial=0.0)] = np.inf
    independent: list[np.ndarray] = []
    dependent = set()
    for k, row in enumerate(np.hstack([J / sizes[:, None], taken_out])):
        remainder = row
        for _ in range(2):
            for each in independent:
                remainder = remainder - each * (each @ remainder)
        size = float(np.linalg.norm(remainder))
        if size > DEPENDENT_TOL:
            independent.append(remainder / size)
        else:
            dependent.add(k)
    return dependent


def _closed_configurations(model: Model | Tree) -> list[np.ndarray]:
    """Return random configurations, with closed loops where these can be closed."""
    try:
        rng = np.random.default_rng(0)
        return [model.random_state(rng)[0] for _ in range(TRIAL_STATES)]  # type: ignore[union-attr]
    except (AttributeError, LinkworkError):
        return _configurations(model)


def mass_ratio(model: Model | Tree) -> Any:
    """Return nominal mass by mass of the inputs, by which mobilities change; 1 unless masses are inputs."""
    if isinstance(model, Tree) or not model.inertia_inputs:
        return 1.0
    nominal_model = model.nominal
    total = model.nominal.mass
    changed = [
        (each.mass, nominal_model.bodies[k].mass)
        for k, each in model.inertia_inputs.items()
        if isinstance(each.mass, Symbol)
    ]
    if not changed or not total > 0.0:
        return 1.0
    return total / (sum(mass - nominal_mass for mass, nominal_mass in changed) + total)


def _evaluate(model: Model | Tree, constraints: Sequence[Constraint]) -> np.ndarray:
    diagonals = []
    linear = None
    for q in _configurations(model):
        try:
            rows = ConstraintRows(nodes_for(model, constraints, q), constraints, rounded=True)
            J = np.asarray(rows.jacobian(), dtype=float)
            M = np.asarray(mass_matrix(rows.nodes), dtype=float)
        except (LinkworkError, ZeroDivisionError):
            continue
        if linear is None:  # of the rows as they are: taking out combinations mixes kinds
            linear = _is_linear(ConstraintRows.of(rows.nodes, rows_of(rows.nodes, constraints)))
        diagonals.append(_diagonal(J, M))
    diagonals = [x for x in diagonals if np.isfinite(x).all()]
    if linear is None or not diagonals:
        return np.ones(total(model, constraints))
    return _shared(np.max(diagonals, axis=0), linear)


def _configurations(model: Model | Tree) -> list[np.ndarray]:
    """Return the neutral configuration and others with rotated joints; loops are not closed again."""
    rng = np.random.default_rng(0)
    if isinstance(model, Tree):
        return [np.zeros(model.nq), *rng.uniform(-1.0, 1.0, (TRIAL_STATES - 1, model.nq))]
    neutral = np.concatenate([joint.kind.neutral() for joint in model.joints])
    with suppress(LinkworkError):  # loops that cannot be closed
        neutral = model.neutral() if model.embedded else neutral
    configurations = [neutral]
    for _ in range(TRIAL_STATES - 1):
        q = neutral.copy()
        for joint in model.joints:
            if joint.nv and not joint.kind.elastic and np.allclose(joint.kind.units(1e3), 1.0):
                q[joint.q_slice] += rng.normal(size=joint.nq)
        configurations.append(q)
    return configurations


def _diagonal(J: np.ndarray, M: np.ndarray) -> np.ndarray:
    """Return the diagonal of J M⁺ Jᵀ, without massless motions."""
    sizes = np.sqrt(np.maximum(np.diag(M), 0.0))
    scale = np.divide(1.0, sizes, out=np.zeros_like(sizes), where=sizes > 0.0)
    values, vectors = np.linalg.eigh(M * np.outer(scale, scale))
    has_mass = values > 1e-13
    half = (J * scale) @ vectors[:, has_mass] / np.sqrt(values[has_mass])
    return np.einsum("ri,ri->r", half, half)


def _is_linear(rows: ConstraintRows) -> np.ndarray:
    """Return which rows are in m/s² and not in rad/s², (m,), by the motions that they constrain."""
    linear = np.zeros(rows.m, dtype=bool)
    for k, K in rows.K.items():
        K = np.asarray(K, dtype=float)
        for block in _bodies(k):
            linear |= np.abs(K[:, block][:, 3:]).max(axis=1, initial=0.0) > 0.0
    for k, c in rows.c.items():
        H = np.asarray(k.H, dtype=float)
        slides = np.zeros(len(k.H), dtype=bool)
        for block in _bodies(k):
            slides |= (np.abs(H[:, block][:, 3:]).max(axis=1) > 0.0) & (
                np.abs(H[:, block][:, :3]).max(axis=1) == 0.0
            )
        first = np.abs(np.asarray(c, dtype=float)) > 0.0
        linear |= np.array([bool(row.any()) and bool(slides[np.argmax(row)]) for row in first], dtype=bool)
    return linear


def _bodies(k: Any) -> list[slice]:
    """Return the rows of a node that are motions of bodies."""
    blocks = [block for block in k.blocks.values() if block.stop - block.start == 6]
    return blocks or ([slice(0, 6)] if k.rows == 6 else [])


def _shared(mobilities: np.ndarray, linear: np.ndarray) -> np.ndarray:
    """Return one number for all rows of a kind, unless they differ too much, rounded to a power of four."""
    out = np.zeros(len(mobilities))
    for kind in (linear, ~linear):
        if not kind.any():
            continue
        values = mobilities[kind]
        mobile = values[values > IMMOBILE_TOL * values.max()]
        if not len(mobile):
            continue
        low = mobile.min()
        high = mobile.max()
        out[kind] = np.sqrt(low * high) if high <= MAX_SPREAD * low else np.clip(values, low, high)
    out[out == 0.0] = out.max() if out.max() > 0.0 else 1.0
    return _power_of_four(out)


def _power_of_four(x: np.ndarray) -> np.ndarray:
    """Return the nearest powers of four, so that the last bits of x do not reach programs."""
    return np.asarray(4.0 ** np.round(np.log2(x) / 2.0))
