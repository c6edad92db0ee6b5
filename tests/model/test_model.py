"""Models and their builder: frozen values, names, order, every mistake by its words; and how public functions
take arrays.
"""

from __future__ import annotations

import copy
import functools
import os
import pickle
import re
from collections.abc import Callable
from dataclasses import FrozenInstanceError, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import linkwork as lw
from linkwork.errors import DtypeError, LinkworkError, ModelError, ShapeError
from linkwork.joints import Fixed, Free, Gimbal, Helical, Planar, Prismatic, Revolute, Spherical, Universal
from linkwork.loops.kinematics import Ground
from linkwork.model import GROUND, Model, ModelBuilder
from linkwork.model.content import is_builtin
from linkwork.sko.bodies import RigidBody
from linkwork.sko.prepare.base_parameters import regrouped
from linkwork.sko.prepare.frames import in_node_frames
from linkwork.sko.prepare.rotors import lumped
from linkwork.sko.rigid import RigidNode
from linkwork.spatial import Pose
from mechanisms import every_kind, heavy, random_model, state_of
from polar_joint import Polar
from processes import SOURCE, run_python


def robot(**changed: Any) -> Model:
    """A small tree with something of everything; `changed` replaces one thing at a time."""
    c: dict[str, Any] = {
        "name": "robot", "gravity": (0.0, 0.0, -9.81), "mass": 2.0, "center": (0.1, 0.0, 0.0), "inertia": (0.1, 0.2, 0.25),
        "kind": Revolute((0, 0, 1)), "xyz": (0.0, 0.1, 0.2), "rpy": (0.1, 0.2, 0.3), "lower": -1.0, "upper": 2.0,
        "max_velocity": 3.0, "max_effort": 4.0, "damping": 0.1, "friction": 0.2, "stiffness": 5.0, "rest": 0.3,
        "armature": 0.4, "joint": "elbow", "body": "arm", "tip": (0.0, 0.0, 0.5), "frame": "tool", "parent": "base",
        "held_mass": 0.5, "held_name": "cover",
    }  # fmt: skip
    c |= changed
    b = ModelBuilder(c["name"], gravity=c["gravity"])
    b.add_body("base", mass=5.0, inertia=(1, 1, 1)).add_body(
        c["body"], mass=c["mass"], center=c["center"], inertia=c["inertia"]
    )
    b.add_joint("floating", Free(), parent="world", child="base")
    words = (
        "xyz",
        "rpy",
        "lower",
        "upper",
        "max_velocity",
        "max_effort",
        "damping",
        "friction",
        "stiffness",
        "rest",
        "armature",
    )
    b.add_joint(
        c["joint"], c["kind"], parent=c["parent"], child=c["body"], **{word: c[word] for word in words}
    )
    b.add_body(c["held_name"], mass=c["held_mass"]).add_joint(
        "glue", Fixed(), parent=c["body"], child=c["held_name"]
    )
    b.add_frame(c["frame"], body=c["body"], xyz=c["tip"])
    return b.build()


CHANGES: dict[str, Any] = {
    "name": "other", "gravity": (0.0, 0.0, -1.0), "mass": 2.5, "center": (0.1, 0.1, 0.0), "inertia": (0.1, 0.2, 0.26),
    "kind": Revolute((0, 1, 0)), "xyz": (0.0, 0.1, 0.3), "rpy": (0.1, 0.2, 0.4), "lower": -0.5, "upper": 2.5,
    "max_velocity": 3.5, "max_effort": 4.5, "damping": 0.15, "friction": 0.25, "stiffness": 5.5, "rest": 0.35,
    "armature": 0.45, "joint": "wrist", "body": "leg", "tip": (0.0, 0.0, 0.6), "frame": "grip", "parent": "world",
    "held_mass": 0.6, "held_name": "lid",
}  # fmt: skip


# as a value


def test_a_model_is_frozen() -> None:
    m = robot()
    for thing, word in (
        (m, "name"),
        (m, "gravity"),
        (m.bodies[0], "name"),
        (m.joints[0], "damping"),
        (m.frames[0], "body"),
    ):
        with pytest.raises(FrozenInstanceError):
            setattr(thing, word, None)
    body = m.body("arm")
    joint = m.joint("elbow")
    frame = m.frame("tool")
    for array in (
        body.inertia.A,
        body.inertia.B,
        body.inertia.D,
        joint.place.R,
        joint.place.p,
        frame.place.R,
        frame.place.p,
    ):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1.0
        assert array.dtype == float
    assert isinstance(m.bodies, tuple) and isinstance(m.joints, tuple) and isinstance(m.frames, tuple)


def test_nothing_of_a_model_can_be_changed() -> None:
    m = robot()
    digest = m.digest
    poses = [
        m.joint("elbow").place,
        m.frame("tool").place,
        *(d.frame.place for d in in_node_frames(m)),
        *(d.C for d in in_node_frames(m)),
    ]
    inertias = [
        m.body("arm").inertia,
        lumped(m)[1].inertia,
        in_node_frames(m)[1].inertia,
        regrouped(m)[1].reduced,
    ]
    parts = [*((pose, ("R", "p")) for pose in poses), *((inertia, ("A", "B", "D")) for inertia in inertias)]
    for part, words in parts:
        for word in words:
            with pytest.raises(FrozenInstanceError, match=word):
                setattr(part, word, np.zeros(3))
            with pytest.raises(FrozenInstanceError, match=word):
                delattr(part, word)
            with pytest.raises(ValueError, match="WRITEABLE"):
                getattr(part, word).flags.writeable = True
    with pytest.raises(FrozenInstanceError):
        m.body("arm").inertia.mass = 3.0  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        m.joint("elbow").kind.axis = (1.0, 0.0, 0.0)  # type: ignore[attr-defined]
    lists = replace(m, joints=list(m.joints), gravity=[0.0, 0.0, -9.81])  # type: ignore[arg-type]
    assert lists == m and isinstance(lists.joints, tuple) and isinstance(lists.gravity, tuple)
    assert replace(m, kernels={}).digest == digest


def test_a_writable_base_does_not_reach_a_model() -> None:
    base = np.eye(4)
    base[:3, 3] = 1.0, 2.0, 3.0
    place = Pose(base[:3, :3], base[:3, 3])
    builder = (
        ModelBuilder()
        .add_body("b", mass=1.0)
        .add_joint("j", Revolute(), parent="world", child="b", place=place)
    )
    m = builder.add_frame("f", body="b", place=place).build()
    base[:] = 7.0
    assert m.joint("j").place.p.tolist() == [1.0, 2.0, 3.0] == m.frame("f").place.p.tolist()


class Plain(lw.joints.Joint):
    """A user's own joint, which can be changed."""

    nq = nv = 1

    def __init__(self, along: Any) -> None:
        self.along = np.array(along, dtype=float)
        self.words = ["some", "words"]

    def transform(self, q: Any) -> Pose:
        return Pose.translation(self.along * q[0])

    def subspace(self, q: Any) -> np.ndarray:
        return np.array([[0.0, 0.0, 0.0, *self.along]]).T

    def closure(self) -> Any:
        return lw.joints.Prismatic(tuple(self.along)).closure()


@dataclass(frozen=True, slots=True)
class Slotted(Plain):
    """One with slots."""

    along: Any = (1.0, 0.0, 0.0)
    words: Any = ()

    def transform(self, q: Any) -> Pose:
        return Pose.translation(np.array(self.along) * q[0])


def with_joint(kind: lw.joints.Joint) -> Model:
    return ModelBuilder().add_body("b", mass=1.0).add_joint("j", kind, parent="world", child="b").build()


def test_joints_of_others_are_kept_as_they_were() -> None:
    kind = Plain((1.0, 0.0, 0.0))
    m = with_joint(kind)
    kind.along[0] = kind.words[0] = 2.0  # type: ignore[call-overload]
    held: Any = m.joint("j").kind
    assert held.along[0] == 1.0 and held.words == ("some", "words") and lw.mass_matrix(m, [0.0]) == 1.0
    for change in (lambda: setattr(held, "along", 3.0), lambda: delattr(held, "along")):
        with pytest.raises(FrozenInstanceError, match="part of a model"):
            change()
    with pytest.raises(ValueError, match="read-only"):
        held.along[0] = 3.0
    assert kind.along[0] == 2.0 and not hasattr(kind, "_frozen")


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickled_by_every_protocol(protocol: int) -> None:
    for m in (robot(), lw.robots.five_bar(), lw.robots.tello(), with_joint(Polar())):
        again = pickle.loads(pickle.dumps(m, protocol))
        assert again == m and again.v_names == m.v_names
        with pytest.raises(ValueError, match="WRITEABLE"):
            again.joints[-1].place.p.flags.writeable = True
    for kind in (Plain((0.0, 2.0, 0.0)), Slotted((0.0, 2.0, 0.0))):
        other: Any = pickle.loads(pickle.dumps(with_joint(kind), protocol))
        assert lw.mass_matrix(other, [0.0]) == 4.0
        with pytest.raises(FrozenInstanceError):
            other.joint("j").kind.along = 3.0
    with pytest.raises(ValueError, match="read-only"):
        pickle.loads(pickle.dumps(with_joint(Plain((0.0, 2.0, 0.0))), protocol)).joint("j").kind.along[0] = (
            3.0
        )


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy])
def test_copies_of_models(way: Callable[[Any], Any]) -> None:
    for m in (robot(), lw.robots.five_bar(), with_joint(Polar())):
        again = way(m)
        assert again == m and again.kernels == {} and again is not m
        with pytest.raises(ValueError, match="WRITEABLE"):
            again.joints[-1].place.p.flags.writeable = True
    changed = way(with_joint(Plain((0.0, 2.0, 0.0))))
    assert lw.mass_matrix(changed, [0.0]) == 4.0
    with pytest.raises(ValueError, match="read-only"):
        changed.joint("j").kind.along[0] = 3.0


def test_clusters_that_are_put_in_count() -> None:
    m = lw.robots.five_bar()
    (cluster,) = m.clusters
    others = tuple(cluster.dependent)
    described = m.with_clusters((replace(cluster, independent=others),))
    assert described.v_names != m.v_names and described.digest != m.digest and described != m
    assert described.without_passive_forces().digest != m.without_passive_forces().digest
    assert described.without_passive_forces().v_names == described.v_names
    assert pickle.loads(pickle.dumps(described)).v_names == described.v_names
    assert m.with_clusters(m.clusters).v_names == m.v_names
    assert replace(described, kernels={}) == m  # what is made of it finds its clusters itself


def closed_by(function: Any) -> Model:
    b = ModelBuilder("closed")
    for k in range(2):
        b.add_body(f"b{k}", mass=1.0, center=(0.1, 0.0, 0.0), inertia=(1, 1, 1))
        b.add_joint(f"j{k}", Revolute(), parent="world", child=f"b{k}")
    return b.add_implicit_constraint("c", function, joints=("j0", "j1")).build()


def test_functions_count_by_what_they_compute() -> None:
    """Not by their bytecode, which every version of Python has its own of."""

    def plain(q: Any) -> Any:
        return q[0] - 2.0 * q[1]

    def wordy(angles: Any) -> Any:
        """The same."""
        first = angles[0]
        second = angles[1]
        twice = 2.0 * second
        return first - twice

    def scaled(factor: float, q: Any) -> Any:
        return q[0] - factor * q[1]

    assert plain.__code__.co_code != wordy.__code__.co_code
    same = [closed_by(f).digest for f in (plain, wordy, functools.partial(scaled, 2.0))]
    assert len(set(same)) == 1
    assert closed_by(functools.partial(scaled, 2.5)).digest != same[0]


def looped(kind: lw.joints.Joint, embed: bool) -> Model:
    """A four-bar linkage that a user's own joint closes."""
    b = ModelBuilder("looped")
    for k, (on, x) in enumerate((("world", 0.0), ("b0", 0.5), ("world", 1.0))):
        b.add_body(f"b{k}", mass=1.0, inertia=(0.1, 0.1, 0.1))
        b.add_joint(f"j{k}", Revolute(), parent=on, child=f"b{k}", xyz=(x, 0.0, 0.0))
    ends: dict[str, Any] = {"xyz": (1.0, 0.1, 0.0), "successor_xyz": (0.5, 0.1, 0.0)}
    return b.add_loop("loop", kind, predecessor="b1", successor="b2", embed=embed, **ends).build()


def is_defined_by_content(body: Any, model: Model, constraints: Any) -> bool:
    """Return whether linkwork's sources, a model and constraints define the program of a body."""
    return is_builtin(body, model.content, constraints)


@pytest.mark.parametrize("embed", [True, False])
def test_joints_of_others_in_loops_are_not_known_by_content(embed: bool) -> None:
    body = lw.mass_matrix.body
    assert is_defined_by_content(body, looped(Revolute(), embed), ())
    assert not is_defined_by_content(body, looped(Slotted(), embed), ())
    assert not is_defined_by_content(body, looped(Plain((1.0, 0.0, 0.0)), embed), ())


def test_whatever_others_made_is_not_known_by_content() -> None:
    class Number(float):
        """A number with a mind of its own."""

    class Called:
        def __call__(self, q: Any) -> Any:
            return q[0] - q[1]

    body = lw.mass_matrix.body
    assert is_defined_by_content(body, robot(), ()) and is_defined_by_content(
        body, lw.robots.tello(), (lw.Weld("torso"),)
    )
    for function in (
        Called(),
        Called().__call__,
        functools.partial(np.dot, (1.0, Number(-1.0))),
        lambda q: q[0] - q[1],
    ):
        assert not is_defined_by_content(body, closed_by(function), ()), function
    assert not is_defined_by_content(lambda model, q: q, robot(), ())
    assert not is_defined_by_content(body, replace(robot(), gravity=(Number(0.0), 0.0, -9.81)), ())
    clusters = lw.robots.five_bar().clusters
    own = replace(clusters[0], constraints=looped(Slotted(), True).embedded)
    assert not is_defined_by_content(body, lw.robots.five_bar().with_clusters((own,)), ())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_fork_while_another_thread_looks_at_a_model() -> None:
    code = """
        import os, signal, threading
        import linkwork as lw
        from linkwork.model import data
        models = [lw.robots.five_bar().with_any_independent() for _ in range(2)]
        real, entered, go_on = data.clusters_of, threading.Event(), threading.Event()

        def slow(model):
            if threading.current_thread() is not threading.main_thread():
                entered.set()
                go_on.wait()
            return real(model)

        data.clusters_of = slow
        thread = threading.Thread(target=lambda: models[0].clusters)
        thread.start()
        entered.wait()
        child = os.fork()
        if child == 0:
            signal.alarm(300)  # ends a child that hangs
            os._exit(0 if models[1].nv == 2 and models[0].nv == 2 else 1)
        print(os.waitpid(child, 0)[1])
        go_on.set()
        thread.join()
        """
    assert run_python(code, PYTHONWARNINGS="ignore").stdout.strip() == "0"


def test_nothing_lazy_holds_a_lock() -> None:
    found = [
        path
        for path in Path(SOURCE).rglob("*.py")
        if re.search(r"from functools import.*cached_property", path.read_text())
    ]
    assert found == []


def test_what_was_given_to_the_builder_stays_the_users() -> None:
    center = np.array([0.1, 0.2, 0.3])
    place = Pose.translation(np.array([1.0, 2.0, 3.0]))
    b = ModelBuilder().add_body("b", mass=1.0, center=center, inertia=np.eye(3))
    m = (
        b.add_joint("j", Revolute(), parent="world", child="b", place=place)
        .add_frame("f", body="b", place=place)
        .build()
    )
    digest = m.digest
    center[:] = place.p[:] = 7.0
    assert replace(m, kernels={}).digest == digest and m.frame("f").place.p[0] == 1.0


def test_equal_by_content() -> None:
    m = robot()
    assert m == robot() and hash(m) == hash(robot()) and len({m, robot()}) == 1 and m.digest == robot().digest
    assert m not in ("robot", 3)
    changed = {word: robot(**{word: value}) for word, value in CHANGES.items()}
    digests = {m.digest, *(other.digest for other in changed.values())}
    assert len(digests) == 1 + len(CHANGES), [word for word, other in changed.items() if other == m]


def test_equal_whatever_it_was_made_from() -> None:
    def model(kind: Any, xyz: Any = (0, 0, 0), name: Any = "j") -> Model:
        return (
            ModelBuilder()
            .add_body("b", mass=1)
            .add_joint(name, kind, parent="world", child="b", xyz=xyz)
            .build()
        )

    assert model(Helical(1, (0, 0, 2))) == model(Helical(1.0, (0.0, 0.0, 1.0)))
    assert model(Revolute(), (0, 0, 0)) == model(Revolute(), np.array([0.0, -0.0, 0.0]))
    assert model(Revolute(), name=np.str_("j")) == model(Revolute())
    assert robot(gravity=(-0.0, 0.0, -9.81), rest=0.0) == robot(rest=-0.0)
    assert model(Revolute()) != model(Prismatic()) and model(Spherical()) != model(Gimbal())


def test_notes_do_not_count() -> None:
    b = ModelBuilder().add_body("b", mass=1).add_joint("j", Revolute(), parent="world", child="b")
    before = b.build()
    b.notes.append("line 3 was odd")
    after = b.build()
    assert before == after and after.notes == ("line 3 was odd",) and "line 3 was odd" in after.report()


@pytest.mark.parametrize("make", ["robot", "every kind"])
def test_pickled_by_value(make: str) -> None:
    m = robot() if make == "robot" else every_kind(np.random.default_rng(0))
    lw.mass_matrix(m, m.neutral())
    copy = pickle.loads(pickle.dumps(m))
    assert copy == m and copy.digest == m.digest and copy.kernels == {} and copy.report() == m.report()
    assert (copy.nq, copy.nv, copy.v_names, copy.notes) == (m.nq, m.nv, m.v_names, m.notes)
    with pytest.raises(ValueError, match="read-only"):
        copy.joints[1].place.R[0, 0] = 2.0
    q, _ = m.random_state(1)
    assert np.array_equal(lw.mass_matrix(copy, q), lw.mass_matrix(m, q))


def test_digests_and_pickles_cross_processes(tmp_path: Path) -> None:
    m = every_kind(np.random.default_rng(3))
    path = tmp_path / "model.pickle"
    path.write_bytes(pickle.dumps(m))
    tests = str(Path(__file__).parents[1] / "helpers")
    code = f"""
        import pickle, sys
        sys.path.insert(0, {tests!r})
        import numpy as np
        from mechanisms import every_kind
        again = every_kind(np.random.default_rng(3))
        copy = pickle.loads(open({str(path)!r}, "rb").read())
        assert copy == again and hash(copy) == hash(again)
        print(copy.digest)
        """
    for seed in ("1", "2"):
        result = run_python(code, PYTHONHASHSEED=seed)
        assert result.stdout.strip() == m.digest, result.stderr


# names, order, sizes


def tree() -> Model:
    """Joints added in an order that is neither depth first nor parents first."""
    b = ModelBuilder("tree")
    for name in "abcdef":
        b.add_body(name, mass=1.0, inertia=(1, 1, 1))
    b.add_joint("d on b", Spherical(), parent="b", child="d")
    b.add_joint("b on a", Universal(), parent="a", child="b")
    b.add_joint("c on a", Revolute(), parent="a", child="c")
    b.add_joint("a on world", Free(), parent="world", child="a")
    b.add_joint("f on world", Planar(), parent="world", child="f")
    b.add_joint("e on b", Prismatic(), parent="b", child="e")
    return b.build()


def test_bodies_are_ordered_depth_first() -> None:
    m = tree()
    assert [body.name for body in m.bodies] == ["a", "b", "d", "e", "c", "f"]
    assert [joint.name for joint in m.joints] == [
        "a on world",
        "b on a",
        "d on b",
        "e on b",
        "c on a",
        "f on world",
    ]
    assert [joint.parent for joint in m.joints] == [GROUND, 0, 1, 1, 0, GROUND]
    assert [joint.child for joint in m.joints] == [body.index for body in m.bodies] == list(range(6))
    assert (m.nq, m.nv) == (7 + 2 + 4 + 1 + 1 + 3, 6 + 2 + 3 + 1 + 1 + 3)
    assert [(j.q_slice, j.v_slice) for j in m.joints] == [
        (slice(0, 7), slice(0, 6)), (slice(7, 9), slice(6, 8)), (slice(9, 13), slice(8, 11)), (slice(13, 14), slice(11, 12)),
        (slice(14, 15), slice(12, 13)), (slice(15, 18), slice(13, 16)),
    ]  # fmt: skip


def test_names_of_velocities() -> None:
    assert tree().v_names == (
        *(f"a on world.{c}" for c in ("wx", "wy", "wz", "vx", "vy", "vz")), "b on a.0", "b on a.1",
        *(f"d on b.{c}" for c in ("wx", "wy", "wz")), "e on b", "c on a", *(f"f on world.{c}" for c in ("vx", "vy", "wz")),
    )  # fmt: skip
    m = every_kind(np.random.default_rng(0))
    assert len(m.v_names) == m.nv == len(set(m.v_names))


def test_lookups_by_name() -> None:
    m = robot()
    assert m.body("arm") is m.bodies[1] is m.body("cover") and m.joint("elbow") is m.joints[1]
    assert (
        m.frame("cover").body == m.frame("glue").body == 1
        and m.frame("elbow").body == 1
        and m.frame("arm").body == 1
    )
    assert m.frame("world").body == GROUND and np.array_equal(m.frame("tool").place.p, [0, 0, 0.5])
    for what, ask in (("body", m.body), ("joint", m.joint), ("frame", m.frame)):
        with pytest.raises(ModelError, match=f"robot has no {what} named 'nothing at all'$"):
            ask("nothing at all")
    for ask, wrong, right in ((m.body, "amr", "arm"), (m.joint, "elbo", "elbow"), (m.frame, "tol", "tool")):
        with pytest.raises(ModelError, match=f"named '{wrong}' .did you mean .*'{right}'"):
            ask(wrong)
    assert repr(m) == "<linkwork model 'robot': 2 bodies, nq 8, nv 7>"


def test_fixed_joints_are_merged() -> None:
    b = (
        ModelBuilder()
        .add_body("a", mass=1.0, inertia=(1, 1, 1))
        .add_body("b", mass=3.0, center=(0, 0, 1), inertia=(1, 2, 3))
    )
    b.add_body("c", mass=2.0).add_body("d", mass=9.0, inertia=(1, 1, 1)).add_body(
        "e", mass=1.0, inertia=(1, 1, 1)
    )
    b.add_joint("j", Revolute(), parent="world", child="a", xyz=(0, 0, 1))
    b.add_joint("ab", Fixed(), parent="a", child="b", xyz=(1, 0, 0), rpy=(0, np.pi / 2, 0))
    b.add_joint("bc", Fixed(), parent="b", child="c", xyz=(0, 1, 0))
    b.add_joint("wd", Fixed(), parent="world", child="d", xyz=(5, 0, 0))
    b.add_joint("de", Revolute((1, 0, 0)), parent="d", child="e", xyz=(0, 0, 2))
    m = b.build()
    a, e = m.bodies
    assert a.links == ("a", "b", "c") and e.links == ("e",) and m.mass == 7.0  # d cannot move
    # b's z is a's x: its centre is at (2, 0, 0); c is at (1, 1, 0)
    assert a.mass == 6.0 and np.allclose(a.center, np.array([3 * 2 + 2 * 1, 2 * 1, 0]) / 6)
    points = [(1.0, (0, 0, 0), (1, 1, 1)), (3.0, (2, 0, 0), (3, 2, 1)), (2.0, (1, 1, 0), (0, 0, 0))]
    moment = np.zeros((3, 3))
    for mass, r, own in points:
        x = np.array(r) - a.center
        moment += np.diag(own) + mass * (x @ x * np.eye(3) - np.outer(x, x))
    assert np.allclose(a.moment, moment) and np.allclose(a.inertia.dense(), a.inertia.dense().T)
    assert (
        np.allclose(m.frame("c").place.p, [1, 1, 0])
        and m.frame("c").joint == "bc"
        and m.frame("bc").name == "c"
    )
    assert m.frame("d").body == GROUND and np.allclose(m.frame("d").place.p, [5, 0, 0])
    assert m.joint("de").parent == GROUND and np.allclose(m.joint("de").place.p, [5, 0, 2])
    with pytest.raises(ModelError, match="no joint named 'ab'"):
        m.joint("ab")
    with pytest.raises(ModelError, match="no body named 'd'"):
        m.body("d")


def test_parts_may_come_in_any_order() -> None:
    b = ModelBuilder("robot").add_frame("tip", body="b", xyz=(0, 0, 1))
    b.add_joint("j2", Prismatic(), parent="a", child="b").add_joint(
        "j1", Revolute(), parent="world", child="a"
    )
    b.add_body("b", mass=1.0).add_body("a", mass=1.0)
    c = ModelBuilder("robot").add_body("a", mass=1.0).add_body("b", mass=1.0)
    c.add_joint("j1", Revolute(), parent="world", child="a").add_joint(
        "j2", Prismatic(), parent="a", child="b"
    )
    c.add_frame("tip", body="b", xyz=(0, 0, 1))
    assert b.build() == c.build() == b.build()


def test_random_states_keep_the_limits() -> None:
    b = ModelBuilder()
    limits = [(0.5, 0.6), (5.0, np.inf), (-np.inf, -4.0), (-1e16, 1e16), (2.0, 2.0), (None, None)]
    for k, (lower, upper) in enumerate(limits):
        b.add_body(f"b{k}", mass=1.0)
        b.add_joint(f"j{k}", Revolute(), parent="world", child=f"b{k}", lower=lower, upper=upper)
    b.add_body("free", mass=1.0).add_joint("free", Free(), parent="world", child="free")
    m = b.build()
    rng = np.random.default_rng(0)
    q = np.array([m.random_state(rng)[0] for _ in range(50)])
    for k, (lower, upper) in enumerate(limits):
        assert np.all(q[:, k] >= (-10.0 if lower is None else lower)) and np.all(
            q[:, k] <= (10.0 if upper is None else upper)
        )
    assert np.abs(q[:, 3]).max() <= np.pi and np.ptp(q[:, 3]) > 1.0 and np.ptp(q[:, 0]) > 0.05
    assert np.allclose(np.linalg.norm(q[:, -4:], axis=1), 1.0)
    for x, y in zip(m.random_state(7), m.random_state(np.random.default_rng(7))):
        assert np.array_equal(x, y)
    assert m.random_state()[1].shape == (m.nv,) and m.neutral().tolist() == [0.0] * (m.nq - 1) + [1.0]


def test_the_report() -> None:
    b = (
        ModelBuilder("thing")
        .add_body("base", mass=2.5, inertia=(1, 1, 1))
        .add_body("light")
        .add_body("arm", mass=1.5)
    )
    b.add_body("cover", mass=0.5, inertia=(1, 1, 1)).add_body("tip").add_body("plate", mass=1.0)
    b.add_body("odd", mass=-1.0, check=False)
    b.add_joint("floating", Free(), parent="world", child="base").add_joint(
        "j1", Revolute(), parent="base", child="light"
    )
    b.add_joint(
        "j2",
        Revolute((1, 0, 0)),
        parent="light",
        child="arm",
        friction=0.5,
        lower=1.0,
        upper=1.0,
        damping=0.25,
    )
    b.add_joint("j3", Prismatic(), parent="arm", child="tip").add_joint(
        "glue", Fixed(), parent="base", child="cover"
    )
    b.add_joint("floor", Fixed(), parent="world", child="plate").add_frame("tool", body="arm")
    b.add_joint(
        "j4", Prismatic(), parent="base", child="odd", stiffness=3.0, armature=0.125, lower=-1, upper=2
    )
    report = b.build().report()
    for words in (
        "thing: 5 bodies, 5 joints, nq 11, nv 10, 3.5 kg, gravity 0 0 -9.81 m/s²",
        "on base: cover", "on world: plate", "on arm: tool", "3 frames besides those of the bodies",
        "joint 'j3' moves no mass: forward dynamics has no answer", "body 'light' can move and has no mass",
        "body 'arm' is a point mass: its moment of inertia is zero", "joint 'j2' has equal lower and upper limits",
        "joint 'j2' has dry friction, which acts in time steps only", "body 'odd': the mass -1 kg is negative",
    ):  # fmt: skip
        assert words in report, f"{words!r} is not in:\n{report}"
    rows = {line.split()[1]: line.split() for line in report.splitlines() if re.match(r"\d", line)}
    assert rows["j2"][2:8] == ["revolute", "light", "arm", "1.5", "8", "7"] and rows["floating"][5:8] == [
        "3",
        "0-6",
        "0-5",
    ]
    assert "damping 0.25; friction 0.5; 1 to 1" in report and "armature 0.125; stiffness 3; -1 to 2" in report
    good = ModelBuilder("good").add_body("b", mass=1.0, inertia=(1, 1, 1))
    report = good.add_joint("j", Revolute(), parent="world", child="b").build().report()
    assert (
        report.endswith("nothing unusual") and "frames besides" not in report and "1 body, 1 joint" in report
    )


def test_a_long_chain() -> None:
    b = ModelBuilder("chain").add_body("b0", mass=1.0, inertia=(1, 1, 1))
    b.add_joint("j0", Revolute(), parent="world", child="b0")
    for k in range(1, 1000):
        b.add_body(f"b{k}", mass=1.0, inertia=(1, 1, 1))
        b.add_joint(
            f"j{k}",
            Revolute((1, 0, 0) if k % 2 else (0, 1, 0)),
            parent=f"b{k - 1}",
            child=f"b{k}",
            xyz=(0, 0, 0.01),
        )
    m = b.build()
    assert m.nv == 1000 and pickle.loads(pickle.dumps(m)) == m and len(m.report().splitlines()) > 1000
    q, v = m.random_state(0)
    tau = lw.bias_force.body(m, q, 0.01 * v)
    a = np.asarray(lw.forward_dynamics.body(m, q, 0.01 * v, tau, method="articulated_body"), dtype=float)
    assert np.abs(a).max() < 1e-6


# mistakes


def start() -> ModelBuilder:
    return ModelBuilder().add_body("base", mass=1.0).add_body("arm", mass=1.0)


def on(b: ModelBuilder, **more: Any) -> ModelBuilder:
    return b.add_joint("j", more.pop("kind", Revolute()), **({"parent": "world", "child": "base"} | more))


MISTAKES: list[tuple[str, Callable[[], Any]]] = [
    ("gravity: expected 3 numbers, got 2: (0, 1)", lambda: ModelBuilder(gravity=(0, 1))),
    ("gravity: expected finite numbers", lambda: ModelBuilder(gravity=(0, 0, np.nan))),
    ("name of a body: expected a non-empty string, got ''", lambda: start().add_body("")),
    ("name of a body: expected a non-empty string, got 3", lambda: start().add_body(3)),  # type: ignore[arg-type]
    ("name of a joint: expected a non-empty string, got None", lambda: start().add_joint(None, Fixed(), parent="", child="")),  # type: ignore[arg-type]
    ("name of a frame: expected a non-empty string, got ''", lambda: start().add_frame("")),
    ("body or frame 'base': the name is already taken", lambda: start().add_body("base")),
    ("body or frame 'world': the name is already taken", lambda: start().add_body("world")),
    ("body or frame 'arm': the name is already taken", lambda: start().add_frame("arm")),
    ("body or frame 'tip': the name is already taken", lambda: start().add_frame("tip").add_body("tip")),
    ("joint 'j': the name is already taken", lambda: on(on(start()), child="arm")),
    ("body 'b': mass: expected 1 numbers, got ['heavy']", lambda: start().add_body("b", mass="heavy")),  # type: ignore[arg-type]
    ("body 'b': mass: expected finite numbers", lambda: start().add_body("b", mass=np.inf)),
    ("body 'b': the mass -1 kg is negative", lambda: start().add_body("b", mass=-1.0)),
    ("body 'b': center: expected 3 numbers, got 2: (1, 2)", lambda: start().add_body("b", mass=1.0, center=(1, 2))),
    ("body 'b': center: expected finite numbers", lambda: start().add_body("b", mass=1.0, center=(1, 2, np.nan))),
    ("body 'b': inertia: expected shape (3,) or (3, 3), got (2,)", lambda: start().add_body("b", mass=1.0, inertia=(1, 2))),
    ("body 'b': inertia: expected numbers", lambda: start().add_body("b", mass=1.0, inertia="round")),
    ("body 'b': mass and moment of inertia: expected finite numbers",
     lambda: start().add_body("b", mass=1, inertia=(1, 1, np.nan), check=False)),
    ("is larger than the sum of the others, 1 and 1", lambda: start().add_body("b", mass=1.0, inertia=(1, 1, 3))),
    ("the mass is zero, but the moment of inertia is not", lambda: start().add_body("b", inertia=(1, 1, 1))),
    ("the moment of inertia is not symmetric",
     lambda: start().add_body("b", mass=1, inertia=[[1, 0.1, 0], [0, 1, 0], [0, 0, 1]])),
    ("joint 'j': kind: expected one of linkwork.joints", lambda: on(start(), kind="revolute")),
    ("joint 'j': kind: expected one of linkwork.joints", lambda: on(start(), kind=Revolute)),
    ("joint 'j': the world cannot be the child of a joint", lambda: on(start(), parent="base", child="world")),
    ("joint 'j': expected different links, got 'base'", lambda: on(start(), parent="base")),
    ("joint 'j': xyz: expected 3 numbers, got 1: [1]", lambda: on(start(), xyz=[1])),
    ("joint 'j': rpy: expected finite numbers", lambda: on(start(), rpy=(0, np.inf, 0))),
    ("joint 'j': place: expected a linkwork.spatial.Pose, got 3", lambda: on(start(), place=3)),
    ("joint 'j': place: expected finite numbers", lambda: on(start(), place=Pose.translation([0, np.nan, 0]))),
    ("expected a rotation matrix", lambda: on(start(), place=Pose(2 * np.eye(3), np.zeros(3)))),
    ("expected a rotation matrix", lambda: on(start(), place=Pose(-np.eye(3), np.zeros(3)))),
    ("expected place, or xyz and rpy, got both", lambda: on(start(), place=Pose.identity(), xyz=(1, 0, 0))),
    ("frame 'f': xyz: expected 3 numbers", lambda: start().add_frame("f", xyz=3)),  # type: ignore[arg-type]
    ("frame 'f': expected place, or xyz and rpy", lambda: start().add_frame("f", rpy=(1, 0, 0), place=Pose.identity())),
    ("joint 'j': damping: expected non-negative numbers, got -1", lambda: on(start(), damping=-1)),
    ("joint 'j': friction: expected non-negative numbers", lambda: on(start(), friction=[-0.1])),
    ("joint 'j': stiffness: expected non-negative numbers", lambda: on(start(), stiffness=np.nan)),
    ("joint 'j': armature: expected non-negative numbers", lambda: on(start(), armature=-1e-9)),
    ("joint 'j': max_velocity: expected non-negative numbers", lambda: on(start(), max_velocity=-1)),
    ("joint 'j': max_effort: expected non-negative numbers", lambda: on(start(), max_effort=-1)),
    ("joint 'j': damping: expected finite numbers, got", lambda: on(start(), damping=np.inf)),
    ("joint 'j': armature: expected finite numbers, got", lambda: on(start(), armature=np.inf)),
    ("joint 'j': rest: expected numbers, got nan", lambda: on(start(), rest=np.nan)),
    ("joint 'j': rest: expected finite numbers, got", lambda: on(start(), rest=np.inf)),
    ("joint 'j': damping: expected 3 numbers, got 2", lambda: on(start(), kind=Spherical(), damping=(1, 2))),
    ("joint 'j': lower: expected 4 numbers, got 3", lambda: on(start(), kind=Spherical(), lower=(1, 2, 3))),
    ("joint 'j': lower: expected numbers, got nan", lambda: on(start(), lower=np.nan)),
    ("joint 'j': expected lower limits below upper limits", lambda: on(start(), lower=2, upper=1)),
    ("joint 'j': stiffness: expected zero for a Free joint", lambda: on(start(), kind=Free(), stiffness=1.0)),
    ("joint 'j': stiffness: expected equal numbers", lambda: on(start(), kind=Spherical(), stiffness=(1, 1, 2))),
    ("and zero rest for a Spherical joint", lambda: on(start(), kind=Spherical(), stiffness=1.0, rest=(0, 0, 0.1))),
    ("joint 'j': stiffness: expected zero for a Planar joint", lambda: on(start(), kind=Planar(), stiffness=(0, 0, 1))),
    ("joint 'j': parent: expected the name of a link, got 'bose' (did you mean 'base'?)",
     lambda: on(start(), parent="bose", child="arm").build()),
    ("joint 'j': child: expected the name of a link, got 'amr' (did you mean 'arm'?)",
     lambda: on(start(), child="amr").build()),
    ("joint 'j': child: expected the name of a link, got 'zzz'", lambda: on(start(), child="zzz").build()),
    ("link 'base': expected one parent joint, got 'j' and 'k': use add_loop",
     lambda: on(start()).add_joint("k", Fixed(), parent="arm", child="base").build()),
    ("links 'base', 'arm' form a cycle of joints that is not connected to the world",
     lambda: on(start(), parent="arm").add_joint("k", Fixed(), parent="base", child="arm").build()),
    ("link 'arm' is not connected to the world: add a joint with child='arm'", lambda: on(start()).build()),
    ("link 'base' is not connected to the world", lambda: on(start(), parent="base", child="arm").build()),
    ("joints 'j' and 'j.wx': expected different names of velocities, got 'j.wx' for both",
     lambda: on(start(), kind=Spherical()).add_joint("j.wx", Revolute(), parent="base", child="arm").build()),
    ("frame 'f': body: expected the name of a link, got 'amr' (did you mean 'arm'?)",
     lambda: both().add_frame("f", body="amr").build()),
]  # fmt: skip


def both() -> ModelBuilder:
    return on(start()).add_joint("k", Revolute(), parent="base", child="arm")


@pytest.mark.parametrize(("words", "mistake"), MISTAKES, ids=[f"{k}" for k in range(len(MISTAKES))])
def test_mistakes_are_named(words: str, mistake: Callable[[], Any]) -> None:
    with pytest.raises(ModelError, match=re.escape(words)):
        mistake()


def test_mistakes_leave_the_builder_as_it_was() -> None:
    b = both()
    before = b.build()
    for mistake in (
        lambda: b.add_body("c", mass=-1.0), lambda: b.add_joint("l", Revolute(), parent="arm", child="c", damping=-1),
        lambda: b.add_frame("f", xyz=(np.nan, 0, 0)),
    ):  # fmt: skip
        with pytest.raises(ModelError):
            mistake()
    assert b.build() == before and b.build().notes == ()


def test_unphysical_bodies_on_request() -> None:
    b = start().add_body("odd", mass=1.0, inertia=(1, 1, 3), check=False)
    on(b).add_joint("k", Fixed(), parent="base", child="arm").add_joint(
        "l", Revolute(), parent="base", child="odd"
    )
    assert b.build().notes == (
        "body 'odd': the principal moment 3 kg m² is larger than the sum of the others, 1 and 1",
    )


def test_moments_become_exactly_symmetric() -> None:
    b = ModelBuilder().add_body(
        "b", mass=1.0, inertia=[[1, 2e-12, 0], [0, 1, 0], [0, 0, 1]]
    )  # as rounding leaves it
    A = b.add_joint("j", Revolute(), parent="world", child="b").build().body("b").inertia.A
    assert np.array_equal(A, A.T) and A[0, 1] == 1e-12


@pytest.mark.parametrize("pitch", [np.nan, np.inf])
def test_pitches_that_are_none(pitch: float) -> None:
    with pytest.raises(ValueError, match="pitch"):
        Helical(pitch)


# public functions


def arm() -> Model:
    b = ModelBuilder("arm").add_body("upper", mass=1.0, center=(0, 0, 0.2), inertia=(0.1, 0.1, 0.02))
    b.add_body("lower", mass=0.5, center=(0, 0, 0.1), inertia=(0.05, 0.05, 0.01)).add_frame(
        "tip", body="lower", xyz=(0, 0, 0.4)
    )
    b.add_joint("shoulder", Spherical(), parent="world", child="upper", damping=0.1)
    return b.add_joint("elbow", Revolute((0, 1, 0)), parent="upper", child="lower", xyz=(0, 0, 0.4)).build()


ARM = arm()


def ones(*shape: int) -> np.ndarray:
    return np.full(shape, 0.3)


WRONG: list[tuple[type[Exception], str, Callable[[], Any]]] = [
    (ShapeError, "inverse_dynamics: q: expected shape (..., 5), got (4,)",
     lambda: lw.inverse_dynamics(ARM, ones(4), ones(4), ones(4))),
    (ShapeError, "inverse_dynamics: a: expected shape (..., 4), got (2, 5)",
     lambda: lw.inverse_dynamics(ARM, ones(5), ones(4), ones(2, 5))),
    (ShapeError, "inverse_dynamics: f_ext: expected shape (..., 2, 6), got (6,)",
     lambda: lw.inverse_dynamics(ARM, ones(5), ones(4), ones(4), ones(6))),
    (ShapeError, "the batch shapes do not broadcast: q (2,), v (3,)", lambda: lw.bias_force(ARM, ones(2, 5), ones(3, 4))),
    (ShapeError, "output out: expected shape (4, 4), got (4,)", lambda: lw.mass_matrix(ARM, ones(5), out=np.zeros(4))),
    (DtypeError, "mass_matrix: q: expected dtype float64, got complex128", lambda: lw.mass_matrix(ARM, ones(5) + 1j)),
    (DtypeError, "mass_matrix: q: expected dtype float64, got object", lambda: lw.mass_matrix(ARM, None)),
    (ModelError, "mass_matrix: first argument: expected a model (linkwork.load gives one), got ndarray",
     lambda: lw.mass_matrix(ones(5), ARM)),
    (ModelError, "got str", lambda: lw.forward_dynamics("robot.urdf", 1, 2, 3)),
    (TypeError, "mass_matrix has no argument 'colour'", lambda: lw.mass_matrix(ARM, ones(5), colour="red")),
    (TypeError, "mass_matrix has no option 'colour'; it has packed", lambda: lw.compile(lw.mass_matrix, ARM, colour="red")),
    (TypeError, "momentum has no option 'packed'; it has none", lambda: lw.compile(lw.momentum, ARM, packed=True)),
    (TypeError, "frame_pose needs frame=", lambda: lw.frame_pose(ARM, ones(5))),
    (TypeError, "hybrid_dynamics needs prescribed=", lambda: lw.hybrid_dynamics(ARM, ones(5), ones(4), ones(4), ones(4))),
    (TypeError, "inverse_dynamics needs a", lambda: lw.inverse_dynamics(ARM, ones(5), ones(4))),
    (TypeError, "mass_matrix: expected a model and q, got 2 arrays", lambda: lw.mass_matrix(ARM, ones(5), ones(5))),
    (TypeError, "mass_matrix got 'q' twice", lambda: lw.mass_matrix(ARM, ones(5), q=ones(5))),
    (ModelError, "arm has no frame named 'tap' (did you mean 'tip'?)", lambda: lw.frame_pose(ARM, ones(5), frame="tap")),
    (ModelError, "reference: expected one of body, world, world_aligned",
     lambda: lw.frame_velocity(ARM, ones(5), ones(4), frame="tip", reference="moon")),
    (LinkworkError,
     "forward_dynamics: method: expected one of auto, articulated_body, mass_matrix, partitioned, spanning_tree, "
     "attached_modes, got 'magic'",
     lambda: lw.forward_dynamics(ARM, ones(5), ones(4), ones(4), method="magic")),
    (LinkworkError, "mass_matrix_inverse: method: expected one of auto, sweeps, factorisation, got 'articulated_body'",
     lambda: lw.mass_matrix_inverse(ARM, ones(5), method="articulated_body")),
    (LinkworkError, "dtype: expected one of float64, float32, got 'float16'",
     lambda: lw.mass_matrix(ARM, ones(5), dtype="float16")),
    (LinkworkError, "inverse_dynamics has no optional array 'g_ext'",
     lambda: lw.compile(lw.inverse_dynamics, ARM, optional=("g_ext",))),
    (LinkworkError, "mass_matrix is a function of a model: give the model as the second argument",
     lambda: lw.compile(lw.mass_matrix)),
    (ModelError, "arm has no joint named 'elbo' (did you mean 'elbow'?)",
     lambda: lw.hybrid_dynamics(ARM, ones(5), ones(4), ones(4), ones(4), prescribed=["elbo"])),
    (ModelError, "prescribed: expected names, or a boolean array of shape (4,), got bool (3,)",
     lambda: lw.hybrid_dynamics(ARM, ones(5), ones(4), ones(4), ones(4), prescribed=[True, False, True])),
    (ModelError, "prescribed: expected names, or a boolean array of shape (4,), got float64 (4,)",
     lambda: lw.hybrid_dynamics(ARM, ones(5), ones(4), ones(4), ones(4), prescribed=np.zeros(4))),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "words", "wrong"), WRONG, ids=[f"{k}" for k in range(len(WRONG))])
def test_wrong_calls(kind: type[Exception], words: str, wrong: Callable[[], Any]) -> None:
    for _ in range(2):  # the first call and those from memory
        with pytest.raises(kind, match=re.escape(words)):
            wrong()


def test_a_model_that_moves_no_mass() -> None:
    b = ModelBuilder("light").add_body("a", mass=1.0, inertia=(1, 1, 1)).add_body("b")
    b.add_joint("i", Revolute(), parent="world", child="a").add_joint(
        "j", Revolute((1, 0, 0)), parent="a", child="b"
    )
    m = b.build()
    x = np.zeros(2)
    for method in ("auto", "articulated_body", "mass_matrix"):
        with pytest.raises(ModelError, match="joint 'j' moves no mass"):
            lw.forward_dynamics(m, x, x, x, method=method)
    for fn in (lw.forward_dynamics_derivatives, lw.linearize):
        with pytest.raises(ModelError, match="joint 'j' moves no mass"):
            fn(m, x, x, x)
    for method in ("sweeps", "factorisation"):
        with pytest.raises(ModelError, match="joint 'j' moves no mass"):
            lw.mass_matrix_inverse(m, x, method=method)
    assert np.allclose(lw.inverse_dynamics(m, x, x, np.ones(2)), [1.0, 0.0])
    found, forces = lw.hybrid_dynamics(
        m, x, x, np.ones(2), x, prescribed=["j"]
    )  # what is prescribed needs no mass
    assert np.allclose(found, [0.0, 1.0]) and np.allclose(forces, 0.0)
    empty = ModelBuilder("empty").add_body("a").add_joint("i", Revolute(), parent="world", child="a").build()
    for fn in (lw.center_of_mass, lw.centroidal_map):
        with pytest.raises(ModelError, match="empty has no mass"):
            fn(empty, np.zeros(1))


def test_ways_to_say_what_is_prescribed() -> None:
    rng = np.random.default_rng(0)
    q, v, a, tau, _ = state_of(ARM, rng)
    ways: list[Any] = [
        ["shoulder"], "shoulder", (name for name in ["shoulder"]), {"shoulder"}, ("shoulder.wx", "shoulder.wy", "shoulder.wz"),
        [True, True, True, False], np.array([True, True, True, False]),
    ]  # fmt: skip
    results = [lw.hybrid_dynamics(ARM, q, v, a, tau, prescribed=way) for way in ways]
    for found, forces in results:
        assert np.array_equal(found, results[0][0]) and np.array_equal(forces, results[0][1])
        assert np.array_equal(found[:3], a[:3]) and forces[3] == tau[3] and not np.any(forces[:3] == tau[:3])
    some, _ = lw.hybrid_dynamics(ARM, q, v, a, tau, prescribed=["shoulder.wy", "elbow"])
    assert np.array_equal(some == a, [False, True, False, True])
    none, _ = lw.hybrid_dynamics(ARM, q, v, a, tau, prescribed=[])
    assert np.allclose(none, lw.forward_dynamics(ARM, q, v, tau), atol=1e-11)


def test_a_bad_row_harms_no_other() -> None:
    rng = np.random.default_rng(0)
    states = [state_of(ARM, rng) for _ in range(9)]
    q, v, a, tau, _ = (np.array(x) for x in zip(*states))
    bad_q = q.copy()
    bad_v = v.copy()
    bad_v[4, 1] = np.nan
    bad_q[2, :4] = 0.0  # no rotation at all
    for fn, args in ((lw.inverse_dynamics, a), (lw.forward_dynamics, tau)):
        good = fn(ARM, q, v, args)
        got = fn(ARM, bad_q, bad_v, args)
        rows = np.isnan(got).any(axis=1)
        assert np.flatnonzero(rows).tolist() == [2, 4] and np.array_equal(got[~rows], good[~rows])
    assert np.isnan(lw.forward_kinematics(ARM, bad_q)).any(axis=(1, 2, 3)).tolist() == [
        k == 2 for k in range(9)
    ]


def test_quaternions_are_normalised_inside() -> None:
    q, v, a, tau, _ = state_of(ARM, np.random.default_rng(1))
    longer = q.copy()
    longer[:4] *= -2.5
    for fn, rest in (
        (lw.inverse_dynamics, (v, a)),
        (lw.forward_dynamics, (v, tau)),
        (lw.mass_matrix, ()),
        (lw.momentum, (v,)),
    ):
        assert np.allclose(fn(ARM, longer, *rest), fn(ARM, q, *rest), rtol=1e-13, atol=1e-13)


def test_arrays_in_many_ways() -> None:
    q, v, a, _, f = state_of(ARM, np.random.default_rng(2))
    want = lw.inverse_dynamics(ARM, q, v, a)
    assert want.shape == (4,) and lw.inverse_dynamics(ARM, np.ones((2, 1, 5)), np.ones((3, 4)), a).shape == (
        2,
        3,
        4,
    )
    assert np.array_equal(lw.inverse_dynamics(ARM, q.tolist(), tuple(v), a=a), want)
    assert np.array_equal(lw.inverse_dynamics(ARM, a=a, v=v, q=q), want)
    assert np.array_equal(lw.inverse_dynamics(ARM, q, v, a, None), want)
    assert np.array_equal(lw.inverse_dynamics(ARM, q, v, a, f), lw.inverse_dynamics(ARM, q, v, a, f_ext=f))
    assert np.allclose(lw.inverse_dynamics(ARM, q, v, a, 0.0 * f), want, rtol=1e-14) and not np.allclose(
        lw.inverse_dynamics(ARM, q, v, a, f), want
    )
    out = np.empty(4)
    assert lw.inverse_dynamics(ARM, q, v, a, out=out) is out and np.array_equal(out, want)
    both_out = (np.empty(4), np.empty(4))
    lw.hybrid_dynamics(ARM, q, v, a, a, prescribed="elbow", out=both_out)
    assert both_out[0][3] == a[3] and np.array_equal(both_out[1][:3], a[:3])
    many = np.tile(q, (50, 1))
    for threads in (1, 2):
        assert np.array_equal(lw.inverse_dynamics(ARM, many, v, a, threads=threads), np.tile(want, (50, 1)))
    single = lw.inverse_dynamics(ARM, *(x.astype(np.float32) for x in (q, v, a)), dtype="float32")
    assert single.dtype == np.float32 and np.allclose(single, want, rtol=1e-4, atol=1e-4)
    assert lw.kinetic_energy(ARM, q, v).shape == () and lw.kinetic_energy(ARM, many, v).shape == (50,)
    assert lw.forward_kinematics(ARM, many).shape == (50, 2, 4, 4) and lw.centroidal_map(ARM, many).shape == (
        50,
        6,
        4,
    )


def test_compile_count_and_export(tmp_path: Path) -> None:
    q, v, a, tau, f = state_of(ARM, np.random.default_rng(3))
    kernel = lw.compile(lw.inverse_dynamics, ARM, optional=("f_ext",), wait=True)
    assert kernel.signature == "(5),(4),(4),(2,6)->(4)" and np.array_equal(
        kernel(q, v, a, f), lw.inverse_dynamics(ARM, q, v, a, f)
    )
    assert lw.compile(lw.inverse_dynamics, ARM) is lw.compile(lw.inverse_dynamics, ARM)
    large = lw.compile(lw.forward_dynamics, every_kind(np.random.default_rng(9)), wait=True)
    assert large.size > 2000 and large.tier == 2  # optimised, not the quick one
    assert lw.compile(lw.mass_matrix, ARM, dtype="float32")(q.astype(np.float32)).dtype == np.float32
    assert lw.compile(lw.frame_pose, ARM, frame="tip")(q).shape == (4, 4)
    assert lw.compile(lw.mass_matrix, ARM, target=lambda program: program.name) == "mass_matrix"
    counts = {
        method: lw.count_operations(lw.forward_dynamics, ARM, method=method)["total"]
        for method in lw.forward_dynamics.methods
    }
    assert 0 < lw.count_operations(lw.forward_dynamics, ARM)["total"] == min(counts.values())
    with_f = lw.count_operations(lw.inverse_dynamics, ARM, optional=("f_ext",))["total"]
    assert with_f > lw.count_operations(lw.inverse_dynamics, ARM)["total"]
    written = lw.export_c(lw.frame_velocity, ARM, tmp_path, frame="tip", reference="world")
    assert written.source.exists() and "frame_velocity" in written.header.read_text()
    assert lw.frame_velocity.required == ("q", "v") and "frame_velocity(model" in repr(lw.frame_velocity)
    assert np.array_equal(
        lw.forward_dynamics(ARM, q, v, tau),
        lw.forward_dynamics(ARM, q, v, tau, method=min(counts, key=counts.get)),
    )  # type: ignore[arg-type]


def test_a_mechanism_that_cannot_move() -> None:
    b = (
        ModelBuilder("still")
        .add_body("a", mass=1.0)
        .add_joint("f", Fixed(), parent="world", child="a", xyz=(1, 2, 3))
    )
    m = b.add_frame("tip", body="a", xyz=(0, 0, 1)).build()
    x = np.zeros((3, 0))
    assert (m.nq, m.nv, m.bodies, m.v_names) == (0, 0, (), ()) and [y.shape for y in m.random_state(0)] == [
        (0,),
        (0,),
    ]
    expected = {
        lw.integrate: (0,), lw.difference: (0,), lw.forward_kinematics: (0, 4, 4), lw.inverse_dynamics: (0,),
        lw.forward_dynamics: (0,), lw.mass_matrix: (0, 0), lw.mass_matrix_inverse: (0, 0), lw.bias_force: (0,),
        lw.gravity_force: (0,), lw.kinetic_energy: (), lw.potential_energy: (),
    }  # fmt: skip
    for fn, shape in expected.items():
        for _ in range(2):
            assert np.shape(fn(m, *[x] * len(fn.required))) == (3, *shape), fn
        assert np.shape(fn(m, *[x[0]] * len(fn.required))) == shape
    assert np.allclose(lw.frame_pose(m, x, frame="tip")[2, :3, 3], [1, 2, 4])
    assert lw.frame_velocity(m, x, x, frame="tip").shape == (3, 6) and lw.frame_jacobian(
        m, x, frame="tip"
    ).shape == (3, 6, 0)
    assert lw.frame_acceleration(m, x, x, x, frame="tip", classical=True, reference="world").shape == (3, 6)
    assert [y.shape for y in lw.hybrid_dynamics(m, x, x, x, x, prescribed=[])] == [(3, 0), (3, 0)]
    assert lw.mass_matrix(m, x, packed=True).shape == (3, 0) and lw.inverse_dynamics(
        m, x, x, x, np.zeros((0, 6))
    ).shape == (
        3,
        0,
    )
    for fn in (lw.center_of_mass, lw.centroidal_map):
        with pytest.raises(ModelError, match="no mass"):
            fn(m, x)
    with pytest.raises(ModelError, match="no mass"):
        lw.momentum(m, x, x)
    with pytest.raises(ShapeError, match="mass_matrix: q: expected shape"):
        lw.mass_matrix(m, np.zeros(2))
    out = np.ones(3)
    assert lw.potential_energy(m, x, out=out) is out and not out.any()
    assert (
        lw.mass_matrix(m, x, dtype="float32").dtype == np.float32
        and lw.count_operations(lw.inverse_dynamics, m)["total"] == 0
    )
    assert lw.compile(lw.frame_pose, m, frame="tip", wait=True)(x, threads=2).shape == (3, 4, 4)
    assert "0 bodies, 0 joints" in m.report()


# kernels that are remembered


def test_kernels_come_from_the_cache_without_tracing(tmp_path: Path) -> None:
    tests = str(Path(__file__).parents[1] / "helpers")
    code = f"""
        import sys
        sys.path.insert(0, {tests!r})
        import numpy as np
        import linkwork as lw
        from linkwork.functions.engine import traced_function as per_model
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        from test_model import arm
        traced = []
        real = per_model.trace
        per_model.trace = lambda body, inputs, **how: (traced.append(how["name"]), real(body, inputs, **how))[1]
        m = arm()
        q, v = m.random_state(0)
        lw.compile(lw.bias_force, m, wait=True)
        lw.compile(lw.frame_pose, m, frame=CHOSEN, wait=True)
        lw.compile(lw.mass_matrix, m, dtype="float32", wait=True)
        print(traced, lw.bias_force(m, q, v).tobytes().hex(), lw.frame_pose(m, q, frame=CHOSEN).tobytes().hex())
        """
    cache = {"LINKWORK_CACHE": str(tmp_path / "kernels")}
    first = run_python(code.replace("CHOSEN", "'tip'"), **cache)
    assert first.stdout.startswith("['bias_force', 'frame_pose', 'mass_matrix']"), first.stderr
    second = run_python(code.replace("CHOSEN", "'tip'"), **cache)
    assert second.stdout.startswith("[] "), second.stdout + second.stderr
    assert second.stdout.split()[1:] == first.stdout.split()[3:]
    third = run_python(code.replace("CHOSEN", "'lower'"), **cache)  # another option is another kernel
    assert third.stdout.startswith("['frame_pose'] "), third.stdout + third.stderr
    assert (
        third.stdout.split()[1] == second.stdout.split()[1]
        and third.stdout.split()[2] != second.stdout.split()[2]
    )
    off = run_python(code.replace("CHOSEN", "'tip'"), LINKWORK_CACHE="off")
    assert off.stdout == first.stdout, off.stderr


def test_kernels_are_not_confused() -> None:
    """Models that differ in one number, and calls that differ in one option, give different results."""
    one = robot()
    other = robot(mass=2.5)
    q, v, a, *_ = state_of(one, np.random.default_rng(0))
    first = lw.inverse_dynamics(one, q, v, a)
    second = lw.inverse_dynamics(other, q, v, a)
    assert not np.allclose(first, second) and np.array_equal(lw.inverse_dynamics(one, q, v, a), first)
    assert np.array_equal(lw.inverse_dynamics(robot(), q, v, a), first)
    for model in (one, robot()):
        seen = [
            lw.frame_velocity(model, q, v, frame=f, reference=r)
            for f in ("tool", "base")
            for r in ("body", "world")
        ]
        assert len({x.tobytes() for x in seen}) == 4
        packed = lw.mass_matrix(model, q, packed=True)
        full = lw.mass_matrix(model, q)
        assert packed.shape == (28,) and full.shape == (7, 7)
        masks = [
            lw.hybrid_dynamics(model, q, v, a, a, prescribed=way)[0] for way in (["elbow"], ["floating"], [])
        ]
        assert len({x.tobytes() for x in masks}) == 3
    assert set(one.kernels) and robot().kernels == {}


def test_joints_of_others_are_not_known_by_content(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two joints of one name that say the same of themselves, but do not do the same."""
    from linkwork.compiler.runtime import build

    def lever(length: float) -> Any:
        class Lever(lw.joints.Joint):
            nq = nv = 1

            def transform(self, q: Any) -> Pose:
                return Pose.translation(np.array([length * q[0], 0.0, 0.0]))

            def subspace(self, q: Any) -> np.ndarray:
                return np.array([[0.0, 0.0, 0.0, length, 0.0, 0.0]]).T

            def __eq__(self, other: object) -> bool:
                return type(other).__name__ == "Lever"

            def __hash__(self) -> int:
                return 3

        import dataclasses

        return dataclasses.dataclass(frozen=True, eq=False)(Lever)()

    def model(length: float) -> Model:
        return (
            ModelBuilder()
            .add_body("b", mass=1.0)
            .add_joint("j", lever(length), parent="world", child="b")
            .build()
        )

    short = model(1.0)
    long = model(2.0)
    assert short.digest == long.digest  # the content cannot tell
    asked: list[str] = []
    real = build.build_named_kernel
    monkeypatch.setattr(
        build, "build_named_kernel", lambda name, *more: (asked.append(name), real(name, *more))[1]
    )
    assert lw.mass_matrix(short, [0.0]) == 1.0 and lw.mass_matrix(long, [0.0]) == 4.0 and asked == []
    lw.mass_matrix(robot(armature=0.777), robot().neutral())
    assert len(asked) == 1 and robot(armature=0.777).digest in asked[0]


def test_joints_must_be_values() -> None:
    class Odd(lw.joints.Joint):  # no dataclass: nobody can say what it holds
        nq = nv = 1

        def transform(self, q: Any) -> Pose:
            return Pose.rotation_about(2, q[0])

        def subspace(self, q: Any) -> np.ndarray:
            return np.eye(6)[:, 2:3]

    m = ModelBuilder().add_body("b", mass=1.0).add_joint("j", Odd(), parent="world", child="b").build()
    with pytest.raises(ModelError, match="a model cannot hold a Odd"):
        hash(m)


def test_functions_of_others_are_not_known_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    from linkwork.compiler.runtime import build

    def made(factor: float) -> lw.ModelFunction:
        @lw.model_function(q="nq")
        def scaled(model: Model, q: Any) -> Any:
            return factor * lw.center_of_mass.body(model, q)

        return scaled

    monkeypatch.setattr(build, "build_named_kernel", None)
    q, _ = ARM.random_state(0)
    assert np.allclose(made(2.0)(ARM, q), 2.0 * made(1.0)(ARM, q), rtol=1e-14)
    with pytest.raises(LinkworkError, match="shapes are given for"):
        lw.model_function(v="nv")(lambda model, q: q)


def test_nodes_are_for_everyone() -> None:
    """Algorithms of one's own are written on nodes, over floats or symbols."""
    m = random_model(np.random.default_rng(5), 4)
    q, v, *_ = state_of(m, np.random.default_rng(6))
    nodes = lw.nodes(m, q, v)
    order = list(nodes.base_to_tips())
    assert [k.name for k in order] == [j.name for j in m.joints] and list(nodes.tips_to_base()) == order[::-1]
    at = {GROUND: nodes.ground} | {joint.child: k for k, joint in zip(order, m.joints)}
    for k, joint in zip(order, m.joints):
        assert (
            isinstance(k, RigidNode)
            and k.parent is at[joint.parent]
            and k in nodes.children(at[joint.parent])
        )
        body = nodes[joint.child]  # nodes hold bodies, by their index
        assert (
            k.body is body is nodes.bodies[joint.child]
            and body.on is nodes[joint.parent]
            and body.joint is joint
        )
        assert isinstance(body, RigidBody)
    assert (
        isinstance(nodes[GROUND], Ground)
        and nodes[GROUND] is nodes.below
        and heavy(np.random.default_rng(0))["mass"] > 0
    )


def test_peers_are_not_needed() -> None:
    """The rooms that speak with other software import none of it."""
    code = """
        import sys
        import linkwork.interop.mujoco, linkwork.interop.pinocchio
        print([name for name in sys.modules if name.split(".")[0] in ("mujoco", "pinocchio")])
        """
    result = run_python(code)
    assert result.stdout == "[]\n", result.stderr
