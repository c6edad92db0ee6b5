"""Order of a thread's reads, operations and writes, before values are assigned to registers and slots."""

from __future__ import annotations

from linkwork.compiler.ir.liveness import needed_values
from linkwork.compiler.ir.program import BoundedLoop, Program
from linkwork.compiler.targets.cuda.actions import CHUNK, Action, Chunk, Crossing, Plan, write_actions


class ActionOrder:
    """Order of the actions of one program or loop body.

    A chunk of an input is read where its first element is used, and a chunk of an output is written when its
    last element is known.
    """

    def __init__(
        self, program: Program, ahead: int, write: int, crossing: Crossing | None, is_body: bool
    ) -> None:
        self.program = program
        self.ahead = ahead
        self.write = write
        self.crossing = crossing
        self.is_body = is_body
        self.plan = Plan()
        self.needed = needed_values(program)
        self.unsigned = unsigned_values(program)

    def _ordered_actions(self) -> list[Action]:
        """Return reads, operations and writes in order; loads and stores are inserted later."""
        items: list[Action] = []
        fetched: dict[tuple[int, int], int] = {}
        inputs_of_chunk = self._inputs_of_chunks()
        code = self.program.code
        chunks = self._output_chunks()
        cuts = set(self.program.cuts)
        keeps = (
            dict(zip(self.program.results[-1], self.crossing.keeps))
            if self.crossing and self.crossing.keeps
            else {}
        )

        def fetch(v: int) -> None:
            array, element = code[v].attr
            key = (array, element // CHUNK)
            if self.is_body or key in fetched:
                return
            fetched[key] = number = len(self.plan.fetches)
            start = key[1] * CHUNK
            self.plan.fetches.append(Chunk(array, start, min(CHUNK, self.program.inputs[array].size - start)))
            items.append(Action("arrive", number))
            items.extend(Action("take", u, code[u].attr[1] - start) for u in inputs_of_chunk[key])
            items.append(Action("issue", number + self.ahead))

        writes = self._writes(chunks)
        first_write = None
        for v, (op, args, attr) in enumerate(code):
            if v in cuts and items and items[-1].kind != "cut":
                items.append(Action("cut"))
            if not self.needed[v]:
                continue
            for a in args:
                if code[self.unsigned[a]].op == "input":
                    fetch(self.unsigned[a])
            if op not in ("const", "input", "neg", "result"):
                items.append(Action("loop" if isinstance(attr, BoundedLoop) else "op", v))
            if v in keeps:
                items.append(Action("keep", v, keeps[v]))
            for _, values in chunks.get(v, ()):
                for a in values:
                    if code[self.unsigned[a]].op == "input":
                        fetch(self.unsigned[a])
            if v in writes:
                items += writes[v]
                first_write = len(self.plan.fetches) if first_write is None else first_write
        self.plan.writes_late = first_write is None or first_write == len(self.plan.fetches)
        return items

    def _inputs_of_chunks(self) -> dict[tuple[int, int], list[int]]:
        """Return the needed inputs of the program by array and chunk; none of a loop's body."""
        inputs: dict[tuple[int, int], list[int]] = {}
        for v, (op, _, attr) in enumerate(() if self.is_body else self.program.code):
            if op == "input" and self.needed[v]:
                inputs.setdefault((attr[0], attr[1] // CHUNK), []).append(v)
        return inputs

    def _writes(self, chunks: dict[int, list[tuple[Chunk, tuple[int, ...]]]]) -> dict[int, list[Action]]:
        """Return the actions behind each value that write outputs: a chunk once its last element is known.

        In parts, which have a buffer anyway, an element is stored there as soon as it is computed and the
        previous chunk is written.
        """
        writes: dict[int, list[Action]] = {}
        free: int | None = None  # the value after which the previous chunk is written
        for v, chunks_of_value in sorted(chunks.items()):
            for chunk, values in chunks_of_value:
                begin, *puts, flush = write_actions(chunk, values)
                if self.crossing is None:
                    writes.setdefault(v, []).extend([begin, *puts, flush])
                    continue
                unsigned = [self.unsigned[put_action.value] for put_action in puts]
                made = [
                    v if self.program.code[a].op in ("const", "input") else max(a, free or 0)
                    for a in unsigned
                ]
                writes.setdefault(min(made) if free is None else free, []).append(begin)
                for put_action, at in sorted(zip(puts, made), key=lambda each: each[1]):
                    writes.setdefault(at, []).append(put_action)
                writes.setdefault(v, []).append(flush)
                free = v
        return writes

    def _output_chunks(self) -> dict[int, list[tuple[Chunk, tuple[int, ...]]]]:
        """Return the chunks of outputs by the value that is known last."""
        chunks: dict[int, list[tuple[Chunk, tuple[int, ...]]]] = {}
        if self.is_body:
            return chunks
        if self.crossing is not None:
            for chunk, values in zip(self.crossing.chunks, self.program.results):
                chunks.setdefault(max(values), []).append((chunk, values))
            return chunks
        for array, values in enumerate(self.program.results):
            for start in range(0, len(values), self.write):
                elements = values[start : start + self.write]
                chunks.setdefault(max(elements), []).append((Chunk(array, start, len(elements)), elements))
        return chunks


def unsigned_values(program: Program) -> list[int]:
    """Return each value without its sign."""
    unsigned = list(range(len(program.code)))
    for v, (op, args, _) in enumerate(program.code):
        if op == "neg":
            unsigned[v] = unsigned[args[0]]
    return unsigned
