"""Interleaving: sums that share factors are added up side by side, so that what they share is loaded once for all.

Products of matrices become sums of products, x = a b + c d + ..., each a chain of fused multiply-adds; those of a row share the
factors of that row. One chain after the other loads every factor again, and waits for its own last result. Side by side a
factor is loaded for all of them, and the code is shorter, which counts where a program is too long for the nearest cache.
Every bit stays the same.
"""

from __future__ import annotations

from collections import Counter

from linkwork.ir.program import Program
from linkwork.passes.dead import reorder

SHORTEST = 4  # products of a sum that is worth it
SIGHT = 80  # products of other sums that are looked at for one

Chain = list[int]  # the instructions of a sum of products, in order


def interleave(program: Program, together: int) -> Program:
    """The same program with up to so many sums side by side."""
    return reorder(program, _Interleaving(program, together).order)


class _Interleaving:
    """The walk that decides: `order` are all instructions in their new order."""

    def __init__(self, program: Program, together: int) -> None:
        self.code, self.together = program.code, together
        self.done = [False] * len(program.code)
        self.order: list[int] = []
        self.chains = {chain[0]: chain for chain in chains_of(program) if len(chain) >= SHORTEST}
        self.factors = {v: [self._factors(u, first=u == v) for u in chain] for v, chain in self.chains.items()}
        self.starts = sorted(self.chains)
        behind = 0  # how many chains start before where the walk is
        for v in range(len(program.code)):
            if v not in self.chains:
                self._put(v)
                continue
            behind += 1
            group = [] if self.done[v] else self._group(v, behind)
            if len(group) > 1:
                self._put_side_by_side(group)
            else:
                self._put(v)

    def _factors(self, v: int, *, first: bool) -> list[int]:
        """The values that an instruction of a chain takes beside the sum so far, without signs and constants."""
        args = self.code[v].args
        found = []
        for a in args if first else args[:2]:
            while self.code[a].op == "neg":
                a = self.code[a].args[0]
            if self.code[a].op != "const":
                found.append(a)
        return found

    def _known(self, chain: int) -> bool:
        return all(self.done[a] for factors in self.factors[chain] for a in factors)

    def _group(self, v: int, behind: int) -> list[int]:
        """Chains that can be added up now, beside the one that starts with v, and share half of their factors with it."""
        if not self._known(v):
            return []
        mine = {a for factors in self.factors[v] for a in factors}
        group, seen = [v], 0
        for start in self.starts[behind:]:
            if len(group) == self.together or seen > SIGHT:
                break
            if self.done[start]:
                continue
            factors = self.factors[start]
            seen += len(factors)
            shared = sum(any(a in mine for a in pair) for pair in factors)
            if 2 * shared >= min(len(factors), len(self.factors[v])) and self._known(start):
                group.append(start)
        return group

    def _put_side_by_side(self, group: list[int]) -> None:
        """Those first whose next factors no other needs; then all that take the factor which fewest others still wait for."""
        at = dict.fromkeys(group, 0)
        left = Counter(a for start in group for factors in self.factors[start] for a in set(factors))
        while at:
            heads = {start: self.factors[start][k] for start, k in at.items()}
            alone = next((start for start, factors in heads.items() if all(left[a] < 2 for a in factors)), None)
            if alone is not None:
                chosen = [alone]
            else:
                counts = Counter(a for factors in heads.values() for a in set(factors))
                shared = max((a for a in counts if left[a] > 1), key=lambda a: (counts[a] / left[a], counts[a]))
                chosen = [start for start, factors in heads.items() if shared in factors]
            for start in chosen:
                k = at[start]
                self._put(self.chains[start][k])
                left.subtract(set(heads[start]))
                at[start] = k + 1
                if k + 1 == len(self.chains[start]):
                    del at[start]

    def _put(self, v: int) -> None:
        """An instruction behind what it needs: constants and signs may stand later in the program."""
        waiting = [v]
        while waiting:
            u = waiting[-1]
            missing = [] if self.done[u] else [a for a in self.code[u].args if not self.done[a]]
            if missing:
                waiting += missing
                continue
            waiting.pop()
            if not self.done[u]:
                self.done[u] = True
                self.order.append(u)


def chains_of(program: Program) -> list[Chain]:
    """Products that are added up one after the other, where nobody else needs the sums between."""
    code = program.code
    uses = Counter(a for _, args, _ in code for a in args)
    uses.update(program.result_values())
    chains: list[Chain] = []
    at: dict[int, Chain] = {}  # last value of a chain -> chain
    for v, (op, args, _) in enumerate(code):
        chain = at.pop(args[2], None) if op == "fma" and uses[args[2]] == 1 else None
        if chain is None and op in ("mul", "fma"):
            chain = []
            chains.append(chain)
        if chain is not None:
            chain.append(v)
            at[v] = chain
    return chains
