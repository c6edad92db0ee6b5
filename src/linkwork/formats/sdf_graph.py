"""The spanning tree of an SDF model, whose joints may form any graph: which joints are in it, and which close loops."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from linkwork.parts import WORLD


class Edge(NamedTuple):
    """A joint between two links, by its place in the file."""

    number: int
    parent: str
    child: str


class Spanning(NamedTuple):
    """Joints of the tree, parents first, each with whether it is taken backwards; and those that close loops."""

    tree: list[tuple[Edge, bool]]
    loops: list[Edge]
    roots: list[str]  # links that hang on nothing


def spanning_tree(links: Sequence[str], edges: Iterable[Edge], preferred: Sequence[str] = ()) -> Spanning:
    """Each link hangs on the first joint of the file that has it as a child, where that closes no cycle.

    What is then still apart is joined by further joints, backwards if need be; the rest closes loops. Links that hang on
    nothing are roots: the world where it is joined, else a `preferred` link, else the first that no joint has as a child.
    """
    edges = list(edges)
    group = {name: name for name in (WORLD, *links)}

    def top(name: str) -> str:
        while group[name] != name:
            group[name] = name = group[group[name]]
        return name

    chosen: set[int] = set()
    held: set[str] = set()
    for first in (True, False):
        for edge in edges:
            one, two = top(edge.parent), top(edge.child)
            if edge.number in chosen or one == two or (first and edge.child in held):
                continue
            chosen.add(edge.number)
            held.add(edge.child)
            group[two] = one
    beside: dict[str, list[tuple[Edge, bool]]] = {name: [] for name in group}
    for edge in edges:
        if edge.number in chosen:
            beside[edge.parent].append((edge, False))
            beside[edge.child].append((edge, True))
    unheld = [name for name in (*preferred, *links) if name not in held]
    wanted = [WORLD, *unheld, *preferred, *links]
    tree: list[tuple[Edge, bool]] = []
    reached: set[str] = set()
    roots: list[str] = []
    for root in wanted:
        if root in reached:
            continue
        reached.add(root)
        if root != WORLD:
            roots.append(root)
        waiting = [root]
        while waiting:
            news = []
            for edge, backwards in beside[waiting.pop()]:
                other = edge.parent if backwards else edge.child
                if other not in reached:
                    reached.add(other)
                    tree.append((edge, backwards))
                    news.append(other)
            waiting += reversed(news)
    return Spanning(tree, [edge for edge in edges if edge.number not in chosen], roots)
