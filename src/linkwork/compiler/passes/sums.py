"""Order of sums: how each sum is added up and which products are fused into it, once for every target.

A sum here is a tree of add, sub and neg whose inner results have no other use. It becomes one chain in which
terms that are ready early come first, so that late ones do not delay others, and in which products become
fused multiply-adds: n terms cost n - 1 instructions if at least one of them is not a product, n otherwise.
Products of one value with several constants are one term. This pass changes how results round; all that
follow it keep every bit.
"""

from __future__ import annotations

import math
from operator import itemgetter

from linkwork.compiler.ir.builder import Builder
from linkwork.compiler.ir.program import Program
from linkwork.compiler.passes.schedule import latency

_ready_time = itemgetter(0)  # of a term
_SUM = frozenset({"add", "sub", "neg"})


def order_sums(program: Program) -> Program:
    """Return the program with every sum as one chain of fused multiply-adds, in loop bodies too."""
    program = program.map_bodies(order_sums)
    return _SumOrdering(program).run()


class _SumOrdering:
    """Rewrite of one program with the earliest time of every new result, in cycles."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.code = program.code
        self.builder = Builder(program.dtype)
        self.new: list[int] = []  # old value -> new value
        self.ready: list[int] = []  # new value -> earliest time of its result, in cycles

    def run(self) -> Program:
        """Return the rewritten program."""
        uses, in_sums = self._count_uses()
        code = self.code
        # An add, sub or neg that only one sum needs becomes a part of that sum; a product that only sums need
        # is fused into them.
        self.part = [op in _SUM and uses[v] == 1 == in_sums[v] for v, (op, _, _) in enumerate(code)]
        self.fused = [op == "mul" and uses[v] == in_sums[v] for v, (op, _, _) in enumerate(code)]
        part = self.part
        fused = self.fused
        new = self.new
        value = self._value
        for v, (op, args, attr) in enumerate(code):
            if part[v] or fused[v]:
                new.append(-1)
            elif op in ("add", "sub") or (op == "neg" and part[args[0]]):  # the terms take the sign
                new.append(self._sum(v))
            else:
                new.append(self._timed(self.builder.reapply(op, tuple([value(a) for a in args]), attr)))
        results = [[self._value(v) for v in values] for values in self.program.results]
        return self.builder.finish(self.program.name, self.program.inputs, self.program.outputs, results)

    def _count_uses(self) -> tuple[list[int], list[int]]:
        uses = [0] * len(self.code)
        in_sums = [0] * len(self.code)
        for op, args, _ in self.code:
            in_sum = op in _SUM
            for a in args:
                uses[a] += 1
                if in_sum:
                    in_sums[a] += 1
        for v in self.program.result_values():
            uses[v] += 1
        return uses, in_sums

    def _apply(self, op: str, *args: int) -> int:
        value = self.builder.apply(op, *args)
        return value if value < len(self.ready) else self._timed(value)

    def _timed(self, value: int) -> int:
        ready = self.ready
        code = self.builder.code
        while len(ready) < len(code):
            op, args, _ = code[len(ready)]
            ready.append(max([ready[a] for a in args], default=0) + latency(op))
        return value

    def _value(self, old: int) -> int:
        """Return the new value of an old one; a part or product needed on its own is computed now."""
        if self.new[old] < 0:
            if self.fused[old]:
                x, y = self.code[old].args
                self.new[old] = self._apply("mul", self._value(x), self._value(y))
            else:
                self.new[old] = self._sum(old)
        return self.new[old]

    def _sum(self, root: int) -> int:
        plain: list[tuple[int, bool, int]] = []  # (ready, negative, value)
        products: list[tuple[int, bool, int, int]] = []  # (ready, negative, factor, factor)
        code = self.code
        part = self.part
        fused = self.fused
        ready = self.ready
        new = self.new
        stack = [(root, False)]
        while stack:
            v, negative = stack.pop()
            op, args, _ = code[v]
            if v == root or part[v]:
                if op == "neg":
                    stack.append((args[0], not negative))
                else:
                    stack.append((args[1], negative ^ (op == "sub")))
                    stack.append((args[0], negative))
            elif fused[v]:
                x, y = args
                x = new[x] if new[x] >= 0 else self._value(x)
                y = new[y] if new[y] >= 0 else self._value(y)
                products.append((ready[x] if ready[x] > ready[y] else ready[y], negative, x, y))
            else:
                value = self._value(v)
                plain.append((ready[value], negative, value))
        return self._chain(plain, products)

    def _merged(self, products: list[tuple[int, bool, int, int]]) -> list[tuple[int, bool, int, int]]:
        """Combine products of one value with several constants: c x - d x is (c - d) x."""
        merged: list[tuple[int, bool, int, int]] = []
        scaled: dict[int, tuple[int, float]] = {}  # value -> (index in `merged`, its constant)
        code = self.builder.code
        for product in products:
            ready, negative, x, y = product
            first = code[x]
            second = code[y]
            if (first[0] == "const") == (second[0] == "const"):
                merged.append(product)
                continue
            value, factor = (x, second[2]) if second[0] == "const" else (y, first[2])
            factor = -factor if negative else factor
            at, other = scaled.get(value, (len(merged), 0.0))
            total = self._timed(self.builder.constant(factor + other))
            if at < len(merged) and math.isfinite(self.builder.number(total)):  # type: ignore[arg-type]
                merged[at] = (ready, False, total, value)
                scaled[value] = at, factor + other
            else:
                scaled[value] = len(merged), factor
                merged.append(product)
        return merged

    def _chain(self, plain: list[tuple[int, bool, int]], products: list[tuple[int, bool, int, int]]) -> int:
        products = self._merged(products)
        plain.sort(key=_ready_time)
        products.sort(key=_ready_time)
        if plain:
            _, minus, total = plain.pop(0)  # the total so far, and whether it stands for its negative
        else:
            first = next((k for k, p in enumerate(products) if not p[1]), 0)
            _, minus, x, y = products.pop(first)
            total = self._apply("mul", x, y)
        for term in sorted([*plain, *products], key=_ready_time):
            negative = term[1]
            if len(term) == 3:
                if minus and not negative:
                    total = self._apply("sub", term[2], total)
                    minus = False
                else:
                    total = self._apply("sub" if negative != minus else "add", total, term[2])
            else:
                x = term[2]
                y = term[3]
                if minus:
                    total = self._apply("neg", total)
                    minus = False
                total = self._apply("fma", self._apply("neg", x) if negative else x, y, total)
        return self._apply("neg", total) if minus else total
