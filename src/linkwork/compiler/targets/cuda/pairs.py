"""Search for operations that two threads can do side by side: those of two limbs of equal structure.

The operations of such limbs differ in constants and inputs. Starting from two similar outputs, pairs of
operations are found by matching operands, and then users. Limbs need not be equal: where they differ, both
threads do the operations of both limbs, and each picks its own result.
"""

from __future__ import annotations

from collections.abc import Iterable

from linkwork.compiler.ir.liveness import needed_values
from linkwork.compiler.ir.operations import REAL
from linkwork.compiler.ir.program import Program

COMMUTATIVE = frozenset({"add", "mul", "fma"})  # in the first two operands
LEAVES = frozenset({"const", "input"})
SINGLE = frozenset({"const", "input", "neg", "loop", "result", "select"})  # never paired
MAX_PARTNERS = 4  # outputs that are tried as partner of an output
MIN_LIKENESS = 0.45  # similarity, from 0 to 1, from which two operations are paired
LIKENESS_DEPTH = 3  # of operands that are compared
MIN_PAIRS = 20  # pairs that two outputs must yield, unless all operands match
ALLOWED_MISMATCHES = 0.03, 1.0, 0.0  # mismatched operands per pair, in each round
# cost of a value for the other lane, of a choice and of a constant per lane [operations]
CROSSING_COST = 1.5
PICK_COST = 2.0
CONSTANT_COST = 0.5


def matched(program: Program) -> dict[int, int]:
    """Return profitable pairs of operations, the first thread's -> the second thread's."""
    if any(op == "loop" for op, _, _ in program.code):
        return {}
    matcher = Matcher(program)
    matcher.run()
    pairs = {a: b for a, (b, lane) in matcher.partner.items() if lane == 0}
    return matcher.profitable(pairs)


class Matcher:
    """Search for pairs."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.code = program.code
        self.needed = needed_values(program)
        self.partner: dict[int, tuple[int, int]] = {}  # value -> its partner, its lane
        self.likeness_cache: dict[tuple[int, int, int], float] = {}
        self.unsigned = list(range(len(self.code)))
        self.users: list[list[int]] = [[] for _ in self.code]
        for v, (op, args, _) in enumerate(self.code):
            if op == "neg":
                self.unsigned[v] = self.unsigned[args[0]]
            elif self.needed[v]:
                for a in {self.unsigned[x] for x in args}:
                    self.users[a].append(v)
        self.same, self.similar = self._structure(True), self._structure(False)

    def _structure(self, exact: bool) -> list[int]:
        """Return a number for the structure of each value; elements of one array count as equal, as do
        constants unless `exact`.
        """
        numbers: dict[tuple[object, ...], int] = {}
        structure: list[int] = []
        for v, (op, args, attr) in enumerate(self.code):
            key: list[object] = [structure[a] for a in args]
            if op in COMMUTATIVE:
                key[:2] = sorted(key[:2])  # type: ignore[type-var]
            if op == "const":
                key = [attr if exact else isinstance(attr, bool)]
            elif op == "input":
                key = [attr[0]]
            elif op in ("loop", "result"):
                key = [v]
            structure.append(numbers.setdefault((op, *key), len(numbers)))
        return structure

    def _operation(self, v: int) -> str:
        op = self.code[v].op
        return "add" if op == "sub" else op

    def operands(self, a: int, b: int, depth: int = LIKENESS_DEPTH) -> list[tuple[int, int]]:
        """Return the matching operands of two operations: for each operand of a, the number of that of b."""
        first, second = ([self.unsigned[x] for x in self.code[v].args] for v in (a, b))
        order = list(range(len(first)))
        if self.code[a].op in COMMUTATIVE and self.code[b].op in COMMUTATIVE:
            x, y = first[:2]
            u, w = second[:2]
            like = self._likeness
            if like(x, w, depth) + like(y, u, depth) > like(x, u, depth) + like(y, w, depth):
                order[:2] = [1, 0]
        return list(enumerate(order))

    def values(self, a: int, b: int, depth: int = LIKENESS_DEPTH) -> list[tuple[int, int]]:
        """Return the matching operands as pairs of values without signs."""
        first = self.code[a].args
        second = self.code[b].args
        return [(self.unsigned[first[i]], self.unsigned[second[j]]) for i, j in self.operands(a, b, depth)]

    def _leaves_match(self, x: int, y: int) -> bool:
        """Return whether both are constants, or elements of one array."""
        first = self.code[x]
        second = self.code[y]
        if first.op != second.op or first.op not in LEAVES:
            return False
        if first.op == "const":
            return isinstance(first.attr, bool) == isinstance(second.attr, bool)
        return bool(first.attr[0] == second.attr[0])

    def _likeness(self, x: int, y: int, depth: int) -> float:
        """Return the similarity of two values, from 0 to 1, comparing operands to a depth."""
        if x == y:
            return 1.0
        key = (x, y, depth)
        likeness = self.likeness_cache.get(key)
        if likeness is None:
            likeness = self.likeness_cache[key] = self._compute_likeness(x, y, depth)
        return likeness

    def _compute_likeness(self, x: int, y: int, depth: int) -> float:
        if self._operation(x) != self._operation(y) or self.code[x].op in ("loop", "result"):
            return 0.0
        if self.code[x].op in LEAVES:
            return (
                (1.0 if self.code[x].attr == self.code[y].attr else 0.9) if self._leaves_match(x, y) else 0.0
            )
        if self.partner.get(x, (None, 0))[0] == y:
            return 1.0
        if x in self.partner or y in self.partner:
            return 0.05
        if self.same[x] == self.same[y]:
            return 0.98
        if self.similar[x] == self.similar[y]:
            return 0.9
        if depth == 0:
            return 0.5
        first, second = ([self.unsigned[a] for a in self.code[v].args] for v in (x, y))
        parts = [self._likeness(i, j, depth - 1) for i, j in zip(first, second)]
        total = sum(parts)
        if self._operation(x) in COMMUTATIVE:
            crossed = self._likeness(first[0], second[1], depth - 1) + self._likeness(
                first[1], second[0], depth - 1
            )
            total = max(total, crossed + sum(parts[2:]))
        return 0.2 + 0.8 * total / len(first)

    def _can_pair(self, a: int, b: int, new: dict[int, tuple[int, int]]) -> bool:
        if a == b or a in self.partner or b in self.partner or a in new or b in new:
            return False
        if (
            self.code[a].op in SINGLE
            or self._operation(a) != self._operation(b)
            or self.program.kinds[a] != REAL
        ):
            return False
        return self._likeness(a, b, 2) > MIN_LIKENESS

    def _spread(self, a: int, b: int, *, up: bool) -> dict[int, tuple[int, int]]:
        """Return the pairs that follow from one; with `up` also those of users whose operands are pairs."""
        new: dict[int, tuple[int, int]] = {}
        todo = [(a, b)]
        later: list[tuple[int, int]] = []
        while todo:
            a, b = todo.pop()
            if self._can_pair(a, b, new):
                new[a], new[b] = (b, 0), (a, 1)
                todo += self.values(a, b)
                if up:
                    later += self._users(a, b, new)
            if not todo:
                todo = later
                later = []
        return new

    def _users(self, a: int, b: int, new: dict[int, tuple[int, int]]) -> Iterable[tuple[int, int]]:
        """Yield users of a pair that can become pairs."""
        for u in self.users[a]:
            if u in self.partner or u in new or u == b:
                continue
            candidates = []
            for w in self.users[b]:
                if w in (u, a) or w in self.partner or w in new or self._operation(u) != self._operation(w):
                    continue
                operands = self.values(u, w, 1)
                if all(
                    x == y or (new.get(x) or self.partner.get(x)) == (y, 0) or self._leaves_match(x, y)
                    for x, y in operands
                ):
                    equal_constants = sum(
                        self.code[x].attr == self.code[y].attr
                        for x, y in operands
                        if self.code[x].op == "const"
                    )
                    candidates.append((self.same[u] == self.same[w], equal_constants, -w))
            if candidates:
                yield u, -max(candidates)[2]

    def run(self) -> None:
        """Find pairs among the outputs: first those that match almost everywhere, then others, then those
        that fit the pairs so far.
        """
        size = self._sizes()
        for results in self.program.results:
            values = [
                v for v in dict.fromkeys(self.unsigned[x] for x in results) if self.code[v].op not in SINGLE
            ]
            values.sort(key=lambda v: (-size[v], v))
            for allowed in ALLOWED_MISMATCHES:
                for n, v in enumerate(values):
                    if v not in self.partner:
                        self._seed(v, values[n + 1 : n + 1 + 8 * MAX_PARTNERS], allowed)

    def _seed(self, v: int, others: list[int], allowed: float) -> None:
        """Pair an output with the one that yields most pairs, if few operands mismatch."""
        likely = [w for w in others if w not in self.partner and self._operation(v) == self._operation(w)]
        if allowed == 0.0:  # it must fit the pairs so far, lane by lane
            best = 0.0
            tried = [each for w in likely for each in ((v, w), (w, v))]
        else:
            best = MIN_PAIRS
            tried = [(min(v, w), max(v, w)) for w in likely[:MAX_PARTNERS]]
        best_seed = None
        for first, second in tried:
            new = self._spread(first, second, up=False)
            mismatches = sum(
                self._mismatches(x, y, new)
                for a, (b, lane) in new.items()
                if lane == 0
                for x, y in self.values(a, b)
            )
            score = len(new) / 2 - PICK_COST * mismatches
            if mismatches <= allowed * len(new) and score > best:
                best = score
                best_seed = (first, second)
        if best_seed is not None:
            self.partner.update(self._spread(*best_seed, up=True))
            self.likeness_cache.clear()

    def _mismatches(self, x: int, y: int, new: dict[int, tuple[int, int]]) -> bool:
        return x != y and (new.get(x) or self.partner.get(x)) != (y, 0) and not self._leaves_match(x, y)

    def _sizes(self) -> list[int]:
        """Return the number of operations that each value depends on."""
        before: list[int] = []
        for v, (_, args, _) in enumerate(self.code):
            mask = 1 << v
            for a in args:
                mask |= before[a]
            before.append(mask)
        return [mask.bit_count() for mask in before]

    # profitable groups

    def profitable(self, pairs: dict[int, int]) -> dict[int, int]:
        """Return the pairs of connected groups that save more than their borders cost."""
        while pairs:
            self.partner = {a: (b, 0) for a, b in pairs.items()} | {b: (a, 1) for a, b in pairs.items()}
            self.likeness_cache.clear()
            group = self._groups(pairs)
            gain = dict.fromkeys(group.values(), 0.0)
            for a in pairs:
                gain[group[a]] += 1.0
            for first, cost in self._borders(pairs):
                gain[group[first]] -= cost
            profitable = {a: b for a, b in pairs.items() if gain[group[a]] > 0.1 * MIN_PAIRS}
            if len(profitable) == len(pairs):
                break
            pairs = profitable
        return pairs

    def _borders(self, pairs: dict[int, int]) -> Iterable[tuple[int, float]]:
        """Yield costs at borders, with the pair that pays."""
        home = {a: a for a in pairs} | {b: a for a, b in pairs.items()}
        crossed: set[int] = set()
        for v, (op, args, _) in enumerate(self.code):
            if op == "neg" or not self.needed[v]:
                continue
            if v not in home:
                crossed |= {self.unsigned[x] for x in args if self.unsigned[x] in home}
            elif v in pairs:
                for x, y in self.values(v, pairs[v]):
                    if x == y:
                        crossed |= {x} & home.keys()
                    elif self._leaves_match(x, y) and self._constants_differ(x, y):
                        yield v, CONSTANT_COST
                    elif not self._leaves_match(x, y) and pairs.get(x) != y:
                        yield v, PICK_COST
        for x in crossed:
            yield home[x], CROSSING_COST

    def _constants_differ(self, x: int, y: int) -> bool:
        return self.code[x].op == "const" and self.code[x].attr != self.code[y].attr

    def _groups(self, pairs: dict[int, int]) -> dict[int, int]:
        """Return the connected group of each pair, by its first value."""
        root = {a: a for a in pairs}

        def find(a: int) -> int:
            while root[a] != a:
                root[a] = root[root[a]]
                a = root[a]
            return a

        for a, b in pairs.items():
            for x, y in self.values(a, b):
                if pairs.get(x) == y:
                    root[find(x)] = find(a)
        return {a: find(a) for a in pairs}
