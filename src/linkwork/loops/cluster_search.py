"""Partition of a model into clusters: groups of loops that are analysed together."""

from __future__ import annotations

from linkwork.errors import LimitError, ModelError
from linkwork.loops.analysis import ClusterAnalysis
from linkwork.loops.closure_messages import (
    CannotClose,
)
from linkwork.loops.clusters import Cluster, Group, find_clusters, find_families, group_of, supports_of
from linkwork.mechanism import Mechanism
from linkwork.mechanism.limits import Limits
from linkwork.mechanism.names import join_names


def clusters_of(model: Mechanism, limits: Limits | None = None) -> tuple[Cluster, ...]:
    """Return the clusters of a model, parents before children.

    Raise LimitError if the analysis exceeds `limits`. Clusters in `model.analyses`, from variants of this
    model, are not analysed again. A group with several supporting bodies is a separate cluster if its joints
    can follow any motion of these. If its constraints reduce their degrees of freedom, both groups
    are merged.
    """
    groups = find_clusters(model.joints, model.embedded)
    analysis = ClusterAnalysis(model, limits)
    clusters: list[Cluster] = []
    supports, below = _supports_of_groups(model, groups)
    supporting_groups = set(below)
    while len(clusters) < len(groups):
        n = len(clusters)
        parent = below[n]
        try:
            support_args = () if parent is None else (supports[n], clusters[parent])
            clusters.append(analysis.cluster(groups[n], *support_args, keep=n in supporting_groups))
        except ModelError as error:  # perhaps solvable in one cluster with its support or with a dependent
            others = [i for i in range(n + 1, len(groups)) if below[i] == n] if parent is None else [parent]
            if (
                not others
                or isinstance(error, LimitError)
                or (parent is None and isinstance(error, CannotClose))
            ):
                raise
            one, two = sorted([n, others[0]])
            (bodies, constraints), (more, further) = groups[one], groups.pop(two)
            groups[one] = (
                sorted([*bodies, *more]),
                [c for c in model.embedded if c in constraints or c in further],
            )
            del clusters[one:]
            supports, below = _supports_of_groups(model, groups)
            supporting_groups = set(below)
    if clusters and not any(cluster.independent for cluster in clusters):
        names = join_names([repr(c.name) for c in model.embedded])
        links = join_names([repr(body.name) for body in model.bodies])
        raise ModelError(
            f"{names} leave the links {links} no degree of freedom: use fixed joints instead, or, if they "
            "should move, "
            "numbers with more digits or a larger tolerance="
        )
    return tuple(clusters)


def constrained_clusters(model: Mechanism, limits: Limits | None = None) -> tuple[Cluster, ...]:
    """Return the clusters of a model with constrained loops.

    They have no independent velocities where none can be selected.
    """
    try:
        return clusters_of(model, limits)
    except (LimitError, CannotClose):
        raise
    except ModelError:  # constrained loops only need to close
        analysis = ClusterAnalysis(model, limits)
        groups = find_families(model.joints, model.embedded)
        return tuple(analysis.constrained_cluster(group) for group in groups if group[1])


def _supports_of_groups(model: Mechanism, groups: list[Group]) -> tuple[list[list[int]], list[int | None]]:
    """Return the supports of each group and the group they are in; None for a single support."""
    where = group_of(groups)
    supports = [supports_of(model.joints, group) for group in groups]
    return supports, [where[supporting[0]] if len(supporting) > 1 else None for supporting in supports]
