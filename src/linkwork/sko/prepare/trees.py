"""Nodes of models and custom trees, as algorithms use them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from linkwork.joints import Joint
from linkwork.model import Model
from linkwork.sko.contracts import HingeNode, NodeState
from linkwork.sko.custom import Tree
from linkwork.sko.prepare.base_parameters import regrouped
from linkwork.sko.prepare.frames import in_body_frames, in_node_frames, without_lumping
from linkwork.sko.tree import ModelTree
from linkwork.sko.tree import hinge_tree as hinge_tree_of
from linkwork.sko.tree import model_tree as model_tree_of


def tree(
    model: Model,
    q: Any,
    v: Any = None,
    f_ext: Any = None,
    *,
    all_bodies: bool = False,
    partition: bool = False,
) -> ModelTree[NodeState]:
    """Return the tree of nodes of a model in one state, of numbers or symbols.

    Parameters
    ----------
    model : Model or linkwork.sko.Tree
        Model or custom tree.
    q : array_like, shape (nq,)
        Configuration.
    v : array_like, shape (nv,), optional
        Velocities of the independent joints [rad/s, m/s]. Default zero.
    f_ext : array_like, shape (bodies, 6), optional
        External [moment, force] on each body, in its frame [N m, N]. Default zero.
    all_bodies : bool
        Give every body six rows in its node, also rotors that are otherwise lumped or single rows.
    partition : bool
        Partition joints as the model specifies (`Model.partitioned`).

    Returns
    -------
    ModelTree
        Nodes, base to tips. Constrained loops are not enforced.
    """
    if isinstance(model, Tree):
        made: Any = model.state(q, v, f_ext)
        return made
    described, splits = _described(model, in_node_frames, partition)
    return model_tree_of(model, described, q, v, f_ext, all_bodies=all_bodies, partition=splits)


def hinge_tree(
    model: Model,
    q: Any,
    v: Any = None,
    f_ext: Any = None,
    *,
    all_bodies: bool = False,
    unit: float = 1.0,
    partition: bool = False,
) -> ModelTree[HingeNode]:
    """Return the nodes for generalised forces, with base parameters; `unit` of mass in kg."""
    if isinstance(model, Tree):
        made: Any = model.state(q, v, f_ext)
        return made
    described, splits = _described(model, regrouped, partition)
    return hinge_tree_of(model, described, q, v, f_ext, all_bodies=all_bodies, unit=unit, partition=splits)


def _described(model: Model, describe: Callable[[Model], Any], partition: bool) -> tuple[Any, dict[int, Any]]:
    """Return the descriptions of all bodies and the splits of hinges."""
    splits = dict(model.partition) if partition else {}
    has_choice = any(
        isinstance(parts[0], Joint) and parts != model.joints[k].kind.partition()
        for k, parts in splits.items()
    )
    return (in_body_frames(model) if has_choice else describe(model)), splits


def body_tree(model: Model, q: Any, v: Any = None, f_ext: Any = None) -> ModelTree[NodeState]:
    """Return the nodes of `tree` with every body in its own frame and six rows per body."""
    if isinstance(model, Tree):
        made: Any = model.state(q, v, f_ext)
        return made
    return model_tree_of(
        model, in_body_frames(model), q, v, f_ext, all_bodies=True, partition=dict(model.partition)
    )


def tree_of_bodies(model: Model, q: Any, v: Any = None, f_ext: Any = None) -> ModelTree[HingeNode]:
    """Return the nodes of `hinge_tree` for models without embedded loops: one node per body."""
    turning = any(body.rotor and np.any(body.rotor.asymmetry) for body in regrouped(model))
    return hinge_tree_of(model, without_lumping(model) if turning else regrouped(model), q, v, f_ext)
