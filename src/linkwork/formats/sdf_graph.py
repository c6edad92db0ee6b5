"""Spanning trees of SDF models, whose joints may form any graph."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import NamedTuple

from linkwork.mechanism import WORLD


class Edge(NamedTuple):
    """A joint between two links, with its index in the file."""

    number: int
    parent: str
    child: str


class Spanning(NamedTuple):
    """Joints of the tree, parents first, each with whether it is reversed; and those that close loops."""

    tree: list[tuple[Edge, bool]]
    loops: list[Edge]
    roots: list[str]  # links without a parent


def spanning_tree(
    links: Sequence[str], edges: Iterable[Edge], preferred: Sequence[str] = (), static: Container[str] = ()
) -> Spanning:
    """Return a spanning tree with as many joints as possible in the direction of the file.

    Each link is the child of the first joint that has it as child and closes no cycle. Components that remain
    are connected by further joints, reversed if necessary; the others close loops. Links without a parent are
    roots: the world if connected, else a `preferred` link, else the first link that is no joint's child.
    `static` links are fixed in the world, and roots.
    """
    edges = list(edges)
    group = {name: WORLD if name in static else name for name in (WORLD, *links)}

    def top(name: str) -> str:
        while group[name] != name:
            group[name] = name = group[group[name]]
        return name

    tree_edges: set[int] = set()
    with_parent: set[str] = set()  # by a joint of the tree
    grounded = [name for name in links if name in static]
    for first in (True, False):
        for edge in edges:
            one = top(edge.parent)
            two = top(edge.child)
            if (
                edge.number in tree_edges
                or one == two
                or (first and (edge.child in with_parent or edge.child in static))
            ):
                continue
            tree_edges.add(edge.number)
            with_parent.add(edge.child)
            group[two] = one
    adjacent: dict[str, list[tuple[Edge, bool]]] = {name: [] for name in group}
    for edge in edges:
        if edge.number in tree_edges:
            adjacent[edge.parent].append((edge, False))
            adjacent[edge.child].append((edge, True))
    without_parent = [name for name in (*preferred, *links) if name not in with_parent]
    root_order = [WORLD, *grounded, *without_parent, *preferred, *links]
    tree: list[tuple[Edge, bool]] = []
    reached: set[str] = set()
    roots: list[str] = []
    for root in root_order:
        if root in reached:
            continue
        reached.add(root)
        if root != WORLD:
            roots.append(root)
        stack = [root]
        while stack:
            children = []
            for edge, backwards in adjacent[stack.pop()]:
                other = edge.parent if backwards else edge.child
                if other not in reached:
                    reached.add(other)
                    tree.append((edge, backwards))
                    children.append(other)
            stack += reversed(children)
    return Spanning(tree, [edge for edge in edges if edge.number not in tree_edges], roots)
