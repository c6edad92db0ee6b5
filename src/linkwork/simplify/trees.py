"""The nodes of a model, or of an SKO model made by hand, as algorithms use them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from linkwork.joints import Joint
from linkwork.model import Model
from linkwork.simplify.base_parameters import regrouped
from linkwork.simplify.frames import in_body_frames, in_node_frames, without_lumping
from linkwork.sko.by_hand import Tree
from linkwork.sko.contracts import HingeNode, NodeState
from linkwork.sko.tree import ModelTree
from linkwork.sko.tree import hinge_tree as hinge_tree_of
from linkwork.sko.tree import model_tree as model_tree_of


def tree(
    model: Model, q: Any, v: Any = None, f_ext: Any = None, *, whole: bool = False, partition: bool = False
) -> ModelTree[NodeState]:
    """The nodes of a model in one state: q (nq,), v (nv,) or zero, forces [m, f] on bodies in their own frames (bodies, 6).

    `whole`: every body has six rows in its node, rotors too. `partition`: hinges are partitioned where the model says so.
    SKO models made by hand are taken too.
    """
    if isinstance(model, Tree):
        made: Any = model.state(q, v, f_ext)
        return made
    described, splits = _described(model, in_node_frames, partition)
    return model_tree_of(model, described, q, v, f_ext, whole=whole, partition=splits)


def hinge_tree(
    model: Model,
    q: Any,
    v: Any = None,
    f_ext: Any = None,
    *,
    whole: bool = False,
    unit: float = 1.0,
    partition: bool = False,
) -> ModelTree[HingeNode]:
    """The same for generalised forces and accelerations only, with base parameters regrouped; `unit` of mass in kg."""
    if isinstance(model, Tree):
        made: Any = model.state(q, v, f_ext)
        return made
    described, splits = _described(model, regrouped, partition)
    return hinge_tree_of(model, described, q, v, f_ext, whole=whole, unit=unit, partition=splits)


def _described(model: Model, describe: Callable[[Model], Any], partition: bool) -> tuple[Any, dict[int, Any]]:
    """Descriptions of all bodies, and the splits of hinges; joints that users chose are in the axes of the bodies."""
    splits = dict(model.partition) if partition else {}
    chosen = any(isinstance(parts[0], Joint) and parts != model.joints[k].kind.partition() for k, parts in splits.items())
    return (in_body_frames(model) if chosen else describe(model)), splits


def body_tree(model: Model, q: Any, v: Any = None, f_ext: Any = None) -> ModelTree[NodeState]:
    """As `tree`, with every body in its own frame, and six rows for each: motions are [w, v] of that frame, in its axes."""
    if isinstance(model, Tree):
        made: Any = model.state(q, v, f_ext)
        return made
    return model_tree_of(model, in_body_frames(model), q, v, f_ext, whole=True, partition=dict(model.partition))


def tree_of_bodies(model: Model, q: Any, v: Any = None, f_ext: Any = None) -> ModelTree[HingeNode]:
    """As `hinge_tree`, of a model without embedded loops: a node for each body, whose inertia is constant in its frame."""
    turning = any(body.rotor and np.any(body.rotor.asymmetry) for body in regrouped(model))
    return hinge_tree_of(model, without_lumping(model) if turning else regrouped(model), q, v, f_ext)
