"""Files that would take long: read in about linear time, or refused early by a limit that can be raised."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import linkwork as lw
from linkwork.errors import LimitError
from linkwork.formats import urdf
from linkwork.loops.couplings import explicit_couplings
from linkwork.loops.motion import all_equations, cluster_posture
from linkwork.loops.numeric import NumericPosture
from linkwork.mechanism import Coupling
from linkwork.spatial import Pose
from processes import run_python

MASS = '<inertial><mass value="1"/><inertia ixx=".1" ixy="0" ixz="0" iyy=".1" iyz="0" izz=".1"/></inertial>'


def link(name: str) -> str:
    return f'<link name="{name}">{MASS}</link>'


def joint(name: str, parent: str, child: str, inside: str = "", kind: str = "continuous") -> str:
    ends = f'<parent link="{parent}"/><child link="{child}"/><origin xyz="0 0 1"/><axis xyz="0 1 0"/>'
    return f'<joint name="{name}" type="{kind}">{ends}{inside}</joint>'


def follows(other: str, factor: float = 0.5, offset: float = 0.0) -> str:
    return f'<mimic joint="{other}" multiplier="{factor}" offset="{offset}"/>'


def robot(*parts: str) -> str:
    return f'<robot name="r">{"".join(parts)}</robot>'


def chain(
    n: int, leaders: dict[int, int] | None = None, *, star: bool = False, kind: str = "continuous"
) -> str:
    """n joints one behind the other, or all on one link; those named follow others."""
    parts = [link("l0")]
    for k in range(1, n + 1):
        inside = follows(f"j{leaders[k]}") if leaders and k in leaders else ""
        parts += [link(f"l{k}"), joint(f"j{k}", "l0" if star else f"l{k - 1}", f"l{k}", inside, kind)]
    return "".join(parts)


def loop(name: str, first: str, second: str, xyz: str = "0 0 0", there: str = "0 0 0") -> str:
    ends = f'<predecessor link="{first}"><origin xyz="{xyz}"/></predecessor>'
    ends += f'<successor link="{second}"><origin xyz="{there}"/></successor>'
    return f'<loop name="{name}" type="revolute">{ends}<axis xyz="0 1 0"/></loop>'


def coupling(name: str, first: str, second: str, ratio: float) -> str:
    ends = f'<predecessor link="{first}"/><successor link="{second}"/>'
    return f'<coupling name="{name}">{ends}<ratio value="{ratio}"/></coupling>'


def four_bar(k: int) -> str:
    parts = [link(f"{x}{k}") for x in "abc"]
    parts += [
        joint(f"ja{k}", "l0", f"a{k}"),
        joint(f"jb{k}", f"a{k}", f"b{k}"),
        joint(f"jc{k}", "l0", f"c{k}"),
    ]
    return "".join(parts) + loop(f"p{k}", f"b{k}", f"c{k}", "0 0 1", f"0.3 0 {1.2 + 0.001 * k}")


N = 1000
LARGE = {
    "one after the other": robot(chain(N, {k: k - 1 for k in range(2, N + 1)})),
    "the other way": robot(chain(N, {k: k + 1 for k in range(1, N)})),
    "all after one": robot(chain(N, dict.fromkeys(range(2, N + 1), 1))),
    "on a star": robot(chain(N, dict.fromkeys(range(2, N + 1), 1), star=True)),
    "stars of stars": robot(chain(N, {k: 1 if k < 40 else k % 39 + 1 for k in range(2, N + 1)}, star=True)),
    "in pairs": robot(chain(N, {k: k - 1 for k in range(2, N + 1, 2)})),
    "deep": robot(chain(N)),
    "fixed": robot(chain(N, kind="fixed")),
}


CPU_SECONDS = "import resource; resource.setrlimit(resource.RLIMIT_CPU, ({0}, {0}))"


def test_large_files_are_read_soon(tmp_path: Path) -> None:
    for name, text in LARGE.items():
        (tmp_path / f"{name}.urdf").write_text(text)
    told = run_python(
        f"""
        import pathlib
        import linkwork as lw
        {CPU_SECONDS.format(120) if sys.platform != "win32" else ""}  # mimics alone took minutes, by the cube of their number
        for path in sorted(pathlib.Path({str(tmp_path)!r}).iterdir()):
            model = lw.load(path)
            model.report(), model.digest, model.clusters, model.neutral(), model.random_state(0), model.v_names
            print(path.stem, model.nv, len(model.clusters))
        status = pathlib.Path("/proc/self/status")  # not getrusage: that remembers the process that was forked
        words = status.read_text().split() if status.exists() else ["VmHWM:", "0"]
        print(words[words.index("VmHWM:") + 1])
        """
    )
    assert told.returncode == 0, told.stderr
    *lines, peak = told.stdout.splitlines()
    assert int(peak) < 500_000
    found = dict(line.rsplit(" ", 2)[::2] for line in lines)  # clusters
    assert found["one after the other"] == found["all after one"] == found["stars of stars"] == "1"
    assert found["in pairs"] == str(N // 2) and found["deep"] == str(N) and found["fixed"] == "0"


CIRCLES = [  # they took 31 s, and more
    ({1: 2, 2: 1} | {k: k - 1 for k in range(3, 3001)}, "j1", "through 'j2'"),
    ({1: 3000} | {k: k - 1 for k in range(2, 3001)}, "j1", "'j2994', 'j2993' and 2991 more"),
]


@pytest.mark.skipif(sys.platform == "win32", reason="no limits on processor time")
@pytest.mark.parametrize(("leaders", "name", "words"), CIRCLES, ids=["into a circle", "a large circle"])
def test_mimics_in_circles_are_found_soon(
    leaders: dict[int, int], name: str, words: str, tmp_path: Path
) -> None:
    path = tmp_path / "r.urdf"
    path.write_text(robot(chain(3000, leaders)))
    load = f"try: lw.load({str(path)!r})\nexcept lw.ModelError as error: print(error)"
    told = run_python(f"import linkwork as lw\n{CPU_SECONDS.format(20)}\n{load}").stdout
    assert f'<mimic> in <joint name="{name}">: cyclic mimic: ' in told and "follows itself" in told
    assert words in told and len(told) < 1000


def test_couplings_are_followed_to_the_nearest_state() -> None:
    builder = lw.ModelBuilder()
    for k in range(9):
        builder.add_body(f"b{k}", mass=1.0)
        mine = None if k in (0, 1, 5) else False
        hinge = lw.joints.Revolute((0, 0, 1))
        builder.add_joint(f"j{k}", hinge, parent="world", child=f"b{k}", independent=mine)
    builder.add_coupling("c", {"j4": 1.0, "j3": -2.0}, offset=0.3)  # in no order
    builder.add_coupling("a", {"j2": 2.0, "j0": -1.0, "j1": 0.5}, offset=-0.2)
    builder.add_coupling("b", {"j3": 1.0, "j2": 3.0})
    builder.add_coupling("d", {"j6": 1.0, "j5": 4.0}, offset=1.0)
    builder.add_coupling("e", {"j7": -1.0, "j6": 0.1})
    builder.add_coupling("f", {"j8": 1.0, "j4": 0.1})
    model = builder.build()
    assert model.v_names == ("j0", "j1", "j5")
    K = np.zeros((6, 9))
    offsets = np.zeros(6)
    for n, c in enumerate(model.embedded):
        assert isinstance(c, Coupling)
        K[n, [k for k, _, _ in c.terms]], offsets[n] = [x for _, _, x in c.terms], c.offset
    q = np.random.default_rng(0).normal(size=9)
    explicit = explicit_couplings(range(9), model.embedded, model.joints)
    assert explicit is not None
    expected = q - np.linalg.pinv(K) @ (K @ q - offsets)
    assert np.allclose(explicit.nearest(q, model.joints), expected, atol=1e-12)
    assert np.allclose(K @ model.neutral(), offsets, atol=1e-12)
    assert explicit_couplings(range(9), model.embedded[:-1], model.joints) is None  # then j8 is not decided


@pytest.mark.parametrize("name", ["stewart", "delta", "tello", "six_bar", "planar_leg_linkage"])
def test_newton_steps_stand_where_programs_do(name: str) -> None:
    model = getattr(lw.robots, name)()
    q = model.tree_random(np.random.default_rng(1))
    for cluster in model.clusters:
        if not cluster.constraints:
            continue
        below = cluster_posture(model, cluster.below.bodies, q) if cluster.below else None
        there = cluster_posture(model, cluster.bodies, q, below, cluster.supports)
        here = NumericPosture(model, cluster.bodies, below, cluster.supports)
        here.move(q)
        for c in cluster.constraints:
            assert np.allclose(c.residual(here).astype(float), c.residual(there).astype(float), atol=1e-13)
        K, wide = (all_equations(motion, cluster.constraints)[0].astype(float) for motion in (here, there))
        assert np.allclose(K, wide[:, : here.size], atol=1e-13)


OPEN = robot(chain(30), loop("shut", "l0", "l30", "90 0 0"))
REFUSED = [
    (robot(chain(6)), {"links": 6}, "more than 6 links: "),
    (robot(chain(6)), {"elements": 50}, "more than 50 elements and attributes"),
    (OPEN, {"closing": 5000}, "'shut': in the best configuration found, 'shut' is open by "),
    (robot(link("l0"), *map(four_bar, range(9))), {"closing": 300}, "closing the loops takes more work than the limit of "),
    (robot(chain(20), coupling("gear", "l1", "l20", 0.5)), {"cluster": 18}, "coupling 'gear' couples 19 joints, more than"),
    (robot(chain(20), loop("shut", "l0", "l20")), {"cluster": 19}, "make one cluster of 20 links, more than the limit of 19"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "limits", "words"), REFUSED, ids=["links", "elements", "open", "closing", "coupling", "cluster"]
)
def test_limits_are_named_with_how_to_raise_them(text: str, limits: dict[str, int], words: str) -> None:
    with pytest.raises(LimitError) as caught:
        urdf.read(text, limits=lw.Limits(**limits))
    told = str(caught.value)
    name = next(iter(limits), "closing")
    assert (
        told.startswith("<text>:1: ")
        and words in told
        and f"limits=lw.Limits({name}=...)" in told
        and len(told) < 600
    )


def test_limits_can_be_raised_and_change_nothing_else() -> None:
    text = robot(link("l0"), *map(four_bar, range(3)))
    usual = urdf.read(text)
    more = urdf.read(text, limits=lw.Limits(closing=10**9, cluster=10**6))
    assert usual == more
    assert [(c.rows, c.independent) for c in usual.clusters] == [
        (c.rows, c.independent) for c in more.clusters
    ]
    with pytest.raises(lw.ModelError, match=r"'shut' cannot be closed: .* 'shut' is open by 1\.69 m"):
        urdf.read(robot(chain(2), loop("shut", "l0", "l2", "2.5 0 0")))  # all tries, where they are few
    assert urdf.read(robot(chain(4)), limits=lw.Limits(links=5)).nv == 4


def all_to_all(n: int) -> str:
    """n links, each on a ball joint with each other."""
    links = "".join(f'<link name="l{k}"/>' for k in range(n))
    ends = ((f"<parent>l{i}</parent><child>l{k}</child>", f"j{i} {k}") for k in range(n) for i in range(k))
    joints = "".join(f'<joint name="{name}" type="ball">{inside}</joint>' for inside, name in ends)
    return f'<sdf version="1.9"><model name="m">{links}{joints}</model></sdf>'


def test_a_cluster_has_few_loops_for_each_link() -> None:
    with pytest.raises(
        LimitError,
        match=r"one cluster of 55 loops and couplings, more than 4 times the limit of 13: to allow",
    ):
        lw.load(all_to_all(12), limits=lw.Limits(cluster=13))


def ring(n: int) -> str:
    """n links on the world, each on a ball joint with the next one."""
    links = "".join(f'<link name="l{k}"/>' for k in range(n))
    ends = [("world", "l0"), *((f"l{k}", f"l{(k + 1) % n}") for k in range(n))]
    joints = "".join(
        f'<joint name="{a} {b}" type="ball"><parent>{a}</parent><child>{b}</child></joint>' for a, b in ends
    )
    return f'<sdf version="1.9"><model name="m">{links}{joints}</model></sdf>'


@pytest.mark.parametrize(
    ("text", "each", "words"), [(ring(9), 1, "links"), (all_to_all(12), 4, "loops and couplings")]
)
def test_a_cluster_may_be_as_large_as_the_limit(text: str, each: int, words: str) -> None:
    with pytest.raises(LimitError, match="make one cluster of") as told:
        lw.load(text, limits=lw.Limits(cluster=5 if each == 1 else 11))
    found = re.search(rf"cluster of (\d+) {words}", str(told.value))
    assert found, told.value
    enough = -(-int(found[1]) // each)
    with pytest.raises(LimitError, match=f"{found[1]} {words}"):
        lw.load(text, limits=lw.Limits(cluster=enough - 1))
    assert lw.load(text, limits=lw.Limits(cluster=enough)).nv == lw.load(text).nv


def test_poses_of_loop_ends_are_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice the links have six times the loops, and not 36 times the work."""
    made = [0]
    init = Pose.__init__

    def counted(self: Pose, *args: Any) -> None:
        made[0] += 1
        init(self, *args)

    monkeypatch.setattr(Pose, "__init__", counted)
    counts = []
    for n in (5, 10):
        made[0] = 0
        lw.load(all_to_all(n))
        counts.append(made[0])
    assert counts[1] < 8 * counts[0]


def test_a_limit_is_a_whole_number() -> None:
    for wrong in (0, -1, 2.5, True, None, "5"):
        with pytest.raises(lw.ModelError, match="limits: links: expected an integer of at least 1, got"):
            lw.Limits(links=wrong)  # type: ignore[arg-type]
    with pytest.raises(
        lw.ModelError, match=r"limits: expected linkwork.Limits, such as .* got \{'links': 5\}"
    ):
        urdf.read(robot(chain(1)), limits={"links": 5})  # type: ignore[arg-type]


def test_attributes_count_too() -> None:
    many = "".join(f'a{k}="" ' for k in range(1000))
    with pytest.raises(LimitError, match="more than 250000 elements and attributes"):
        urdf.read(robot(f"<x {many}/>" * 260))
