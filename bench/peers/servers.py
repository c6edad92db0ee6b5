"""The peers' C and C++ programs as servers that alternate with other measurements.

    servers = peer_servers("iiwa14")
    for _ in range(60):
        for server in servers.values():
            server.turn()
        ...                                          # a turn of linkwork
    servers["MuJoCo, C"].best["forward dynamics"]    # ns per state

A server uses no CPU time between turns. The peers do not compute several states in SIMD lanes: batches of
Pinocchio and MuJoCo are threads that iterate over states, so their time per state of a batch on one core is
that of one state. MuJoCo's own batch on one thread (`mjb_apply`, `mjb_forward`) is slower than this.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from statistics import median
from types import TracebackType
from typing import Self

import numpy as np

from peers import build, models

WALKS = 5


class Times:
    """ns per state by algorithm over all turns so far: each is timed in all the ways in which the peer offers
    it.
    """

    def __init__(self) -> None:
        self.times: dict[str, list[tuple[float, float]]] = {}
        """By algorithm, variant and build, the best and the median of each turn."""

    @property
    def which(self) -> dict[str, str]:
        """By algorithm, the name in `times` of the fastest variant."""
        out: dict[str, str] = {}
        for name in sorted(self.times, key=lambda name: min(self.times[name])):
            out.setdefault(name.split("/")[0], name)
        return out

    @property
    def variants(self) -> dict[str, float]:
        """By algorithm and variant, the best ns of all builds."""
        out: dict[str, float] = {}
        for name, times in self.times.items():
            variant = name.rpartition("/")[0]
            out[variant] = min(out.get(variant, np.inf), min(times)[0])
        return out

    @property
    def best(self) -> dict[str, float]:
        return {algorithm: min(b for b, _ in self.times[name]) for algorithm, name in self.which.items()}

    @property
    def median(self) -> dict[str, float]:
        """Of the fastest variant, the median of the turns' medians."""
        return {algorithm: median(m for _, m in self.times[name]) for algorithm, name in self.which.items()}


class Programs(Times):
    """One peer as running programs: several builds of one, of which the fastest counts for each algorithm.

    `files` are the texts that they read at the start, in the order of their arguments.
    """

    def __init__(self, name: str, programs: dict[str, Path], files: dict[str, str]) -> None:
        super().__init__()
        self.name = name
        self._programs = {}
        with tempfile.TemporaryDirectory() as folder:
            for file, text in files.items():
                (Path(folder) / file).write_text(text)
            for made, binary in programs.items():
                self._programs[made] = subprocess.Popen(
                    [str(binary), *files],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                    cwd=folder,
                )
            for made in self._programs:
                self.ask(made, "ready")  # all files are read now

    def ask(self, made: str, line: str) -> dict[str, list[float]]:
        """Return the server's answer to a line."""
        process = self._programs[made]
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(line + "\n")
        process.stdin.flush()
        answer = process.stdout.readline()
        if not answer:
            raise RuntimeError(f"{self.name} ({made}) ended: exit status {process.wait()}")
        return json.loads(answer)

    def timed(self, line: str, after: str = "") -> dict[str, float]:
        """Return the best ns per state by algorithm of one turn requested by a line; `after` is appended to
        the names.
        """
        turn: dict[str, float] = {}
        for made in self._programs:
            for name, (best, middle) in self.ask(made, line).items():
                algorithm, variant = name.split("/")
                algorithm += after
                self.times.setdefault(f"{algorithm}/{variant}/{made}", []).append((best, middle))
                turn[algorithm] = min(turn.get(algorithm, best), best)
        return turn

    def close(self) -> None:
        for process in self._programs.values():
            process.communicate()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()


class Server(Programs):
    """One peer on one robot of `robots.bodies`, without constraints."""

    def __init__(self, name: str, robot: str, peer: str, programs: dict[str, Path]) -> None:
        self.robot = robot
        self.peer = peer
        model = models.mjcf(robot) if peer == "mujoco" else models.bodies_text(robot)
        states = models.states_text(robot, peer, models.states(robot))
        super().__init__(f"{name} on {robot}", programs, {"model.xml": model, "states.txt": states})

    def results(self) -> dict[str, np.ndarray]:
        """Return all variants' results on the first of `models.states`, in linkwork's conventions."""
        state = models.states(self.robot, 1)[0]
        out = {}
        for made in self._programs:
            lists = self.ask(made, "check")
            arrays = models.from_peer(
                self.robot, state, self.peer, {k: np.array(x) for k, x in lists.items()}
            )
            out.update({f"{name}/{made}": x for name, x in arrays.items()})
        return out

    def turn(self, walks: int = WALKS) -> dict[str, float]:
        """Return the best ns per state of each algorithm in several passes over all states, after a warm-up."""
        return self.timed(f"go {walks}")


def peer_servers(robot: str, best: bool = True) -> dict[str, Server]:
    """Return servers of all peers that could be built; with `best`, Pinocchio also inlined for this
    processor.
    """
    made = {"shipped": build.pinocchio()}
    if best:
        made["inlined"] = build.pinocchio(best=True)
    wanted = {
        "Pinocchio, C++": ("pinocchio", made),
        "MuJoCo, C": ("mujoco", {"shipped": build.mujoco()}),
    }
    servers = {}
    for name, (peer, programs) in wanted.items():
        there = {kind: path for kind, path in programs.items() if path is not None}
        try:
            if there:
                servers[name] = Server(name, robot, peer, there)
        except (OSError, RuntimeError) as error:
            build.say(f"{name} cannot be timed: {error}")
    return servers
