"""Interleaving: sums that share factors are computed side by side, so that each factor is loaded once.

Products of matrices become sums of products, x = a b + c d + ..., each a chain of fused multiply-adds; those
of a row share the factors of that row. Executed one after the other, each chain loads every factor again and
waits for its own last result. Side by side, a factor is loaded once for all of them, and the code is shorter,
which matters where a program exceeds the first-level cache. Every bit stays the same.
"""

from __future__ import annotations

from collections import Counter

from linkwork.compiler.ir.program import Program
from linkwork.compiler.passes.dead import reorder

MIN_CHAIN_LENGTH = 4  # products of a sum that is interleaved
MAX_LOOKAHEAD = 80  # products of other sums that are examined for one group

Chain = list[int]  # the instructions of a sum of products, in order


def interleave(program: Program, max_group: int) -> Program:
    """Return the program with groups of up to `max_group` sums side by side."""
    return reorder(program, _Interleaver(program, max_group).order)


class _Interleaver:
    """Walk that decides the order; `order` lists all instructions in their new order."""

    def __init__(self, program: Program, max_group: int) -> None:
        self.code = program.code
        self.max_group = max_group
        self.emitted = [False] * len(program.code)
        self.order: list[int] = []
        self.chains = {chain[0]: chain for chain in chains_of(program) if len(chain) >= MIN_CHAIN_LENGTH}
        self.factors = {
            v: [self._factors(u, first=u == v) for u in chain] for v, chain in self.chains.items()
        }
        self.starts = sorted(self.chains)
        passed_chains = 0  # chains that start before the position of the walk
        for v in range(len(program.code)):
            if v not in self.chains:
                self._emit(v)
                continue
            passed_chains += 1
            group = [] if self.emitted[v] else self._group(v, passed_chains)
            if len(group) > 1:
                self._emit_interleaved(group)
            else:
                self._emit(v)

    def _factors(self, v: int, *, first: bool) -> list[int]:
        """Return the operands of a chain's instruction without the sum, signs and constants."""
        args = self.code[v].args
        factors = []
        for a in args if first else args[:2]:
            while self.code[a].op == "neg":
                a = self.code[a].args[0]
            if self.code[a].op != "const":
                factors.append(a)
        return factors

    def _factors_known(self, chain: int) -> bool:
        return all(self.emitted[a] for factors in self.factors[chain] for a in factors)

    def _group(self, v: int, passed_chains: int) -> list[int]:
        """Return chains that can be computed now beside that of v and share half of their factors with it."""
        if not self._factors_known(v):
            return []
        own_factors = {a for factors in self.factors[v] for a in factors}
        group = [v]
        examined = 0
        for start in self.starts[passed_chains:]:
            if len(group) == self.max_group or examined > MAX_LOOKAHEAD:
                break
            if self.emitted[start]:
                continue
            factors = self.factors[start]
            examined += len(factors)
            shared = sum(any(a in own_factors for a in pair) for pair in factors)
            if 2 * shared >= min(len(factors), len(self.factors[v])) and self._factors_known(start):
                group.append(start)
        return group

    def _emit_interleaved(self, group: list[int]) -> None:
        """Emit chains step by step, each shared factor for all chains that take it at once.

        Steps whose factors no other chain needs come first; then those that take the factor which the fewest
        other steps still wait for.
        """
        positions = dict.fromkeys(group, 0)
        remaining = Counter(a for start in group for factors in self.factors[start] for a in set(factors))
        while positions:
            heads = {start: self.factors[start][k] for start, k in positions.items()}
            unshared = next(
                (start for start, factors in heads.items() if all(remaining[a] < 2 for a in factors)), None
            )
            if unshared is not None:
                next_chains = [unshared]
            else:
                counts = Counter(a for factors in heads.values() for a in set(factors))
                shared = max(
                    (a for a in counts if remaining[a] > 1),
                    key=lambda a: (counts[a] / remaining[a], counts[a]),
                )
                next_chains = [start for start, factors in heads.items() if shared in factors]
            for start in next_chains:
                k = positions[start]
                self._emit(self.chains[start][k])
                remaining.subtract(set(heads[start]))
                positions[start] = k + 1
                if k + 1 == len(self.chains[start]):
                    del positions[start]

    def _emit(self, v: int) -> None:
        """Emit an instruction after its operands: constants and signs may come later in the program."""
        waiting = [v]
        while waiting:
            u = waiting[-1]
            missing = [] if self.emitted[u] else [a for a in self.code[u].args if not self.emitted[a]]
            if missing:
                waiting += missing
                continue
            waiting.pop()
            if not self.emitted[u]:
                self.emitted[u] = True
                self.order.append(u)


def chains_of(program: Program) -> list[Chain]:
    """Return chains of products that are summed one after the other, with sums that have no other use."""
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
