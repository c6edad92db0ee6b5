"""Packed programs: one program that two neighbouring threads run for each state.

Two paired operations become one, which each thread applies to its own operands; both threads do all other
operations. Results keep their bits, since every operation does. A packed program has six more operations:

    "const2", (first, second): a constant for each thread
    "input2", (array, element, other element): an element for each thread
    "even" and "odd": the value of the first or of the second thread, for both
    "pick": the first value in the first thread, the second value in the second thread
    "flip", lane: the value, negated in one of the two threads
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, replace
from typing import Any

from linkwork.compiler.ir.program import Instruction, Program
from linkwork.compiler.targets.cuda.pairs import Matcher, matched

MAX_PACKED_SHARE = 0.85  # of the operations, up to which two threads per state may pay
# operations whose value differs between the two threads
LANE_OPERATIONS = frozenset({"const2", "input2", "pick", "flip"})


@dataclass(frozen=True)
class Packed:
    """Packed program; `places[k]` has, for each result of output k, its element and that of the second thread
    or None.
    """

    program: Program
    places: tuple[tuple[tuple[int, int | None], ...], ...]


def lane_values(program: Program) -> list[bool]:
    """Return, for each value of a packed program, whether it differs between the two threads."""
    differs: list[bool] = []
    for op, args, _ in program.code:
        differs.append(op in LANE_OPERATIONS or (op not in ("even", "odd") and any(differs[a] for a in args)))
    return differs


def pack(program: Program) -> Packed | None:
    """Return the packed form of a program; None if it has no limbs for which that pays."""
    pairs = matched(program)
    while pairs:
        made = _Packing(program, pairs).run()
        if isinstance(made, Packed):
            return made if _operations(made.program) < MAX_PACKED_SHARE * _operations(program) else None
        pairs = {a: b for a, b in pairs.items() if a not in made}  # cyclic dependencies
    return None


def _operations(program: Program) -> int:
    return sum(op not in ("const", "const2", "input", "input2", "neg") for op, _, _ in program.code)


class _Packing:
    """Construction of a packed program."""

    def __init__(self, program: Program, pairs: dict[int, int]) -> None:
        self.program = program
        self.source = program.code
        self.pairs = pairs
        self.matcher = Matcher(program)
        self.matcher.partner = {a: (b, 0) for a, b in pairs.items()} | {b: (a, 1) for a, b in pairs.items()}
        # value -> first value of its pair, its lane
        self.home = {a: (a, 0) for a in pairs} | {b: (a, 1) for a, b in pairs.items()}
        self.code: list[Instruction] = []
        self.at: dict[Any, int] = {}  # value or instruction -> value of the packed program

    def run(self) -> Packed | set[int]:
        """Return the packed program, or the first values of pairs that cannot be paired."""
        order = self._order()
        if isinstance(order, set):
            return order
        for v in order:
            self.at["value", v] = self._pair(v) if v in self.pairs else self._both(v)
        results, places = zip(*map(self._output, self.program.results))
        return Packed(replace(self.program, code=tuple(self.code), results=results, cuts=()), places)

    # the order

    def _order(self) -> list[int] | set[int]:
        """Return operations in order, pairs by their first value; or pairs that depend on each other."""
        home = self.home
        code = self.source
        node = [home[v][0] if v in home else v for v in range(len(code))]
        before: dict[int, set[int]] = {}
        for v, (op, args, _) in enumerate(code):
            if self.matcher.needed[v] and op not in ("neg", "const", "input"):
                operands = before.setdefault(node[v], set())
                operands |= {
                    node[self.matcher.unsigned[a]]
                    for a in args
                    if code[self.matcher.unsigned[a]].op not in ("const", "input")
                }
        after: dict[int, list[int]] = {}
        for v, operands in before.items():
            for a in operands:
                after.setdefault(a, []).append(v)
        missing = {v: len(operands) for v, operands in before.items()}
        ready = [v for v, count in missing.items() if not count]
        heapq.heapify(ready)
        order: list[int] = []
        while ready:
            v = heapq.heappop(ready)
            order.append(v)
            for u in after.get(v, ()):
                missing[u] -= 1
                if not missing[u]:
                    heapq.heappush(ready, u)
        if len(order) == len(before):
            return order
        return self._cyclic_pairs(set(before) - set(order), after)

    def _cyclic_pairs(self, blocked: set[int], after: dict[int, list[int]]) -> set[int]:
        """Return the pairs among operations that could not be ordered and on which others of them depend."""
        while True:
            ends = {v for v in blocked if not any(u in blocked for u in after.get(v, ()))}
            if not ends:
                return blocked & self.pairs.keys()
            blocked = blocked - ends

    # values

    def _make(self, op: str, args: tuple[int, ...] = (), attr: Any = None) -> int:
        key = (op, args, attr, str(attr))
        if key not in self.at:
            self.at[key] = len(self.code)
            self.code.append(Instruction(op, args, attr))
        return self.at[key]

    def _sign(self, v: int) -> tuple[int, int]:
        """Return a value without its sign, and the sign."""
        sign = 1
        while self.source[v].op == "neg":
            v = self.source[v].args[0]
            sign = -sign
        return v, sign

    def _signed(self, value: int, sign: int) -> int:
        return value if sign > 0 else self._make("neg", (value,))

    def _leaf(self, v: int) -> int | None:
        op, _, attr = self.source[v]
        return self._make(op, (), attr) if op in ("const", "input") else None

    def _for_both(self, v: int) -> int:
        """Return a value for both threads."""
        leaf = self._leaf(v)
        if leaf is not None:
            return leaf
        if v not in self.home:
            return self.at["value", v]
        pair, lane = self.home[v]
        return self._make("odd" if lane else "even", (self.at["value", pair],))

    def _for_lane(self, v: int, lane: int) -> int:
        """Return a value for one of the threads."""
        pair = self.home.get(v)
        return self.at["value", pair[0]] if pair is not None and pair[1] == lane else self._for_both(v)

    def _both(self, v: int) -> int:
        op, args, attr = self.source[v]
        operands = []
        for a in args:
            x, sign = self._sign(a)
            operands.append(self._signed(self._for_both(x), sign))
        return self._make(op, tuple(operands), attr) if op not in ("const", "input") else self._for_both(v)

    def _pair(self, a: int) -> int:
        b = self.pairs[a]
        first = self.source[a]
        second = self.source[b]
        mixed = first.op != second.op  # a sum paired with a difference
        operands = []
        for i, j in self.matcher.operands(a, b):
            x, p = self._sign(first.args[i])
            y, q = self._sign(second.args[j])
            p = -p if mixed and first.op == "sub" and i == 1 else p
            q = -q if mixed and second.op == "sub" and j == 1 else q
            operands.append(self._joined(x, p, y, q))
        return self._make("add" if mixed else first.op, tuple(operands), first.attr)

    def _joined(self, x: int, p: int, y: int, q: int) -> int:
        """Return the value that is p x in the first thread and q y in the second, where p and q are signs."""
        first = self.source[x]
        second = self.source[y]
        if first.op == second.op == "const" and not isinstance(first.attr, bool):
            if (first.attr == second.attr and p == q) and str(first.attr) == str(second.attr):
                return self._signed(self._make("const", (), first.attr), p)
            return self._make("const2", (), (p * first.attr, q * second.attr))
        if x == y:
            value = self._for_both(x)
        elif first.op == second.op == "input" and first.attr[0] == second.attr[0]:
            value = self._make("input2", (), (*first.attr, second.attr[1]))
        elif self.pairs.get(x) == y:
            value = self.at["value", x]
        else:
            value = self._make("pick", (self._for_lane(x, 0), self._for_lane(y, 1)))
        if p == q:
            return self._signed(value, p)
        return self._make("flip", (value,), 0 if p < 0 else 1)

    def _output(self, values: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[tuple[int, int | None], ...]]:
        """Return the results of an output and their places."""
        where: dict[tuple[int, int], list[int]] = {}
        for element, v in enumerate(values):
            where.setdefault(self._sign(v), []).append(element)
        results: list[int] = []
        places: list[tuple[int, int | None]] = []
        done: set[int] = set()
        for element, v in enumerate(values):
            x, sign = self._sign(v)
            if element in done or (
                x in self.home and self.home[x][1] == 1 and where.get((self.home[x][0], sign))
            ):
                continue
            other = where.get((self.pairs[x], sign)) if x in self.pairs else None
            if other:
                results.append(self._signed(self.at["value", x], sign))
                places.append((element, other.pop(0)))
            else:
                results.append(self._signed(self._for_both(x), sign))
                places.append((element, None))
            done.add(element)
        for (
            x,
            sign,
        ), elements in where.items():  # outputs of second threads without a counterpart
            if x in self.home and self.home[x][1] == 1 and where.get((self.home[x][0], sign)):
                for element in elements:
                    results.append(self._signed(self._for_both(x), sign))
                    places.append((element, None))
        return tuple(results), tuple(places)
