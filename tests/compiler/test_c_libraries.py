"""C libraries with several functions, with and without a C library under them, and rollouts in C."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import linkwork as lw
from c_target_programs import STRICT, Case, compiler, loops, products, run
from linkwork.cli.cli import main
from linkwork.compiler.ir.interpret import interpret
from linkwork.compiler.ir.program import Program
from linkwork.compiler.ir.trace import trace
from linkwork.compiler.targets.c import Export, Function, export_library
from linkwork.errors import LinkworkError
from linkwork.simulation.export_c import exported_rollout
from programs import SPECIAL, as_tuple, every_operation, random_bits, same_bits

FREE = [*STRICT, "-ffreestanding", "-nostdlib", "-Wl,--no-undefined", "-fno-stack-protector"]
both = pytest.mark.parametrize("cc", ["gcc", "clang"])

pytestmark = pytest.mark.skipif(
    not (shutil.which("cc") or shutil.which("gcc")), reason="no C compiler: cc, gcc"
)


def fused(dtype: str) -> Program:
    return trace(lambda a, b, c: lw.fma(a, b, c), {"a": (), "b": (), "c": ()}, name="fused").with_dtype(dtype)


def root(dtype: str) -> Program:
    return trace(lambda a: lw.sqrt(a), {"a": ()}, name="root").with_dtype(dtype)


@np.errstate(all="ignore")
def hard_numbers(dtype: str, count: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Rows a, b, c: any bits, special numbers, and sums that nearly cancel or have exponents close to one
    another.
    """
    real = np.dtype(dtype).type
    a, b, c = (random_bits(rng, (count,), dtype) for _ in range(3))
    a[::3], b[::3], c[::3] = (rng.choice(np.array(SPECIAL, dtype), len(a[::3])) for _ in range(3))
    near = slice(1, None, 3)
    a[near], b[near] = (rng.normal(size=len(a[near])).astype(dtype) for _ in range(2))
    c[near] = -(a[near] * b[near]) * (1 + rng.integers(-2, 3, len(a[near])) * np.finfo(dtype).eps).astype(
        dtype
    )
    part = slice(2, None, 6)  # products around subnormal numbers and around the largest
    scale = rng.choice([np.finfo(dtype).minexp, np.finfo(dtype).maxexp], len(a[part]))
    a[part] = np.ldexp(rng.normal(size=len(a[part])), scale // 2 + rng.integers(-30, 30, len(scale))).astype(
        dtype
    )
    b[part] = np.ldexp(rng.normal(size=len(a[part])), scale // 2 + rng.integers(-30, 30, len(scale))).astype(
        dtype
    )
    c[part] = np.ldexp(rng.normal(size=len(a[part])), scale + rng.integers(-60, 2, len(scale))).astype(dtype)
    assert isinstance(a[0], real)
    return [a, b, c]


def symbols(library: Path) -> set[str]:
    """What a library asks others for."""
    text = subprocess.run(
        [compiler("nm"), "-u", str(library)], capture_output=True, text=True, check=True
    ).stdout
    return {line.split()[-1] for line in text.splitlines()} - {"_GLOBAL_OFFSET_TABLE_"}


def link_alone(path: str, flags: list[str], export: Export, library: Path) -> ctypes.CDLL:
    """The library linked with nothing at all."""
    run(path, *FREE, *flags, "-shared", "-fPIC", export.source, "-o", library)
    assert symbols(library) == set()
    assert not re.search(r"#include <(?!float\.h|stdint\.h)", export.source.read_text())
    return ctypes.CDLL(str(library))


@both
@pytest.mark.parametrize("flags", ["-O0 -DLW_SOFTWARE", "-O2 -DLW_SOFTWARE", "-O0", "-O3 -march=native"])
def test_without_a_c_library(cc: str, flags: str, tmp_path: Path) -> None:
    """Nothing is left for the linker, and fma and sqrt are exact: by instructions, and by integer arithmetic."""
    path = compiler(cc)
    rng = np.random.default_rng(5)
    programs = [p(dtype) for p in (fused, root) for dtype in ("float64", "float32")]
    programs += [
        trace(products, {"q": 4, "v": 4, "k": ()}),
        trace(loops, {"x": 2, "n": ()}),
        every_operation(),
    ]
    made = export_library([Function(p) for p in programs], tmp_path, name="alone", freestanding=True)
    library = link_alone(path, flags.split(), made, tmp_path / "free.so")
    for name, program in zip(made.functions, programs, strict=True):
        inputs = [rng.normal(size=(300, *a.shape)).astype(program.dtype) for a in program.inputs]
        if program.name in ("fused", "root"):
            inputs = hard_numbers(program.dtype, 6000, rng)[: len(inputs)]
        wanted = [np.array(w) for w in as_tuple(interpret(program, *inputs))]
        Case(
            program, Export(name, made.header, made.source, made.test, made.cmake, {name: 0}), inputs, wanted
        ).compare(library)


@pytest.mark.parametrize(
    "target, flags, some",
    [
        ("aarch64-none-elf", "", ("fmadd", "fsqrt")),
        (
            "armv7em-none-eabihf",
            "-mcpu=cortex-m7 -mfpu=fpv5-d16",
            ("vfma.f64", "vfma.f32", "vsqrt.f64", "vsqrt.f32"),
        ),
        ("riscv64-none-elf", "-march=rv64gc", ("fmadd.d", "fmadd.s", "fsqrt.d", "fsqrt.s")),
    ],
)
def test_other_processors_use_their_instructions(
    target: str, flags: str, some: tuple[str, ...], tmp_path: Path
) -> None:
    path = compiler("clang")
    command = [
        path,
        f"--target={target}",
        *flags.split(),
        "-ffreestanding",
        "-x",
        "c",
        "-c",
        "/dev/null",
        "-o",
        "/dev/null",
    ]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip(f"this clang has no {target}")
    functions = [Function(p(dtype)) for p in (fused, root) for dtype in ("float64", "float32")]
    made = export_library(functions, tmp_path, name="alone", freestanding=True)
    run(
        path,
        f"--target={target}",
        *flags.split(),
        *STRICT,
        "-ffreestanding",
        "-O1",
        "-c",
        made.source,
        "-o",
        tmp_path / "x.o",
    )
    run(
        path,
        f"--target={target}",
        *flags.split(),
        "-ffreestanding",
        "-O1",
        "-S",
        made.source,
        "-o",
        tmp_path / "x.s",
    )
    text = (tmp_path / "x.s").read_text()
    assert all(re.search(rf"\s{re.escape(word)}\s", text) for word in some) and "lw_integer" not in text


@both
def test_several_functions_in_one_library(cc: str, tmp_path: Path) -> None:
    """One header and source, both dtypes, each helper once, names that do not clash, and a test that covers
    all.
    """
    path = compiler(cc)
    model = lw.robots.four_bar()
    made = lw.export_c(
        {
            "fd": (lw.forward_dynamics, model),
            "Fd": (lw.forward_dynamics, model, {"dtype": "float32"}),
            "q": (lw.close_loops, model),
        },
        tmp_path,
        name="robot",
    )
    assert list(made.functions) == ["fd", "Fd_2", "q"] and made.header.name == "robot.h"
    source = made.source.read_text()
    header = made.header.read_text()
    defined = re.findall(r"^(?:LW_PART|static [\w ]+|void) \*?(\w+)\(", source, re.M)
    assert len(defined) == len(set(defined)) and {"lw_fma", "lw_fmaf"} <= set(defined)
    macros = re.findall(r"#define (\w+)", header)
    assert len(macros) == len(set(macros)) == 4
    assert header.count(f"0 {model.q_names[0]},") >= 3  # joints are named
    run(path, *STRICT, "-O1", made.source, made.test, "-o", tmp_path / "check", "-lm")
    assert run(tmp_path / "check") == "24 passed, 0 failed\n"
    made.source.write_text(source.replace("    out0[0] = ", "    out0[0] = 1.0 + ", 1))
    run(path, *STRICT, "-O1", made.source, made.test, "-o", tmp_path / "check", "-lm")
    assert "16 passed, 8 failed" in run(tmp_path / "check", ok=False)


def test_a_sequence_gets_numbers_where_names_clash(tmp_path: Path) -> None:
    model = lw.robots.four_bar()
    made = lw.export_c([(lw.gravity_force, model), (lw.gravity_force, model)], tmp_path, name="two")
    assert list(made.functions) == ["gravity_force", "gravity_force_2"]
    assert made.stack_bytes == max(made.functions.values())


@pytest.mark.parametrize(
    "sources, options, words",
    [
        ({}, {"name": "x"}, "at least one"),
        ([(lw.gravity_force, "model")], {"name": "x"}, "function 0: gravity_force is a function of a model"),
        (
            {"f": (lw.gravity_force, None, 3)},
            {"name": "x"},
            "'f': expected .function, model or inputs, dictionary of options.",
        ),
        ({"f": 3}, {"name": "x"}, "'f': expected a function, or a program, got int"),
        (
            {"f": (lw.gravity_force, lw.robots.four_bar(), {"dtype": "half"})},
            {"name": "x"},
            "'f': dtype: expected one of",
        ),
        ({"f": (lw.gravity_force, lw.robots.four_bar())}, {}, "needs a name"),
        (
            {"f": (lw.gravity_force, lw.robots.four_bar())},
            {"name": 3},
            "ASCII identifier",
        ),
        (
            {3: (lw.gravity_force, lw.robots.four_bar())},
            {"name": "x"},
            "ASCII identifier",
        ),
        (
            {"f": (lw.gravity_force, lw.robots.four_bar())},
            {"name": "x", "frame": "tip"},
            "options stand with each",
        ),
    ],
)
def test_refusals(sources: Any, options: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(LinkworkError, match=words):
        lw.export_c(sources, tmp_path, **options)
    assert not list(tmp_path.iterdir())


def chain() -> lw.Model:
    """A floating body with a pendulum."""
    b = lw.ModelBuilder("buoy")
    b.add_body("hull", mass=2.0, inertia=(0.1, 0.2, 0.3))
    b.add_joint("float", lw.joints.Free(), parent="world", child="hull")
    b.add_body("rod", mass=1.0, center=(0.0, 0.0, -0.4), inertia=(0.1, 0.1, 0.1))
    b.add_joint("hinge", lw.joints.Revolute((0, 1, 0)), parent="hull", child="rod")
    return b.build()


def call(function: Any, *arrays: Any, sizes: tuple[int, ...]) -> list[np.ndarray]:
    """The results of a C function, arrays of double of so many numbers."""
    given = [np.atleast_1d(np.array(a, dtype=float)) for a in arrays]
    got = [np.full(size, 77.0) for size in sizes]
    function(*[ctypes.c_void_p(a.ctypes.data) for a in given + got])
    return got


@pytest.mark.parametrize("integrator", ["semi_implicit_euler", "rk4"])
def test_rollouts_have_the_bits_of_python(integrator: str, tmp_path: Path) -> None:
    """In one call, in two, and step by step, under forces, PD control and a policy of the time.

    With loops, Python takes steps in charts, by another program, which rounds as the exported one does in the
    same chart.
    """
    model = chain()
    linkage = lw.robots.four_bar()
    dt = 0.004
    rng = np.random.default_rng(3)

    def wave(q: Any, v: Any, t: Any, inputs: Any) -> Any:
        return inputs["gain"] * lw.sin(3.0 * t) - v

    how = {"integrator": integrator}
    made = lw.export_c(
        {
            "many": (lw.rollout, model, how),
            "one": (lw.rollout, model, {**how, "looped": False}),
            "held": (lw.rollout, linkage, {**how, "control": "pd"}),
            "waved": (lw.rollout, model, {**how, "policy": wave, "inputs": {"gain": ()}}),
        },
        tmp_path,
        name="motion",
        freestanding=True,
    )
    library = link_alone(compiler("gcc"), ["-O1"], made, tmp_path / "motion.so")
    sizes = (model.nq, model.nv, 1)
    q, v = model.random_state(rng)
    tau = rng.normal(size=model.nv)
    wanted = lw.rollout(model, q, v, tau, dt=dt, steps=21, **how)

    got = call(library.many, q, v, dt, 21, 0, tau, sizes=sizes)
    assert same_bits(got[0], wanted.q[-1]).all() and same_bits(got[1], wanted.v[-1]).all() and got[2] == 21
    half = call(library.many, q, v, dt, 8, 0, tau, sizes=sizes)
    got = call(library.many, *half[:2], dt, 13, 8, tau, sizes=sizes)
    assert same_bits(got[0], wanted.q[-1]).all() and same_bits(got[1], wanted.v[-1]).all()
    got = [q, v]
    for k in range(21):
        got = call(library.one, *got[:2], dt, k, tau, sizes=sizes)
        assert same_bits(got[0], wanted.q[k + 1]).all() and same_bits(got[1], wanted.v[k + 1]).all()
    none = call(library.many, q, v, dt, 0, 0, tau, sizes=sizes)
    assert same_bits(none[0], q).all() and none[2] == 0
    bad = call(library.many, q, v, dt, 9, 0, tau * np.inf, sizes=sizes)
    assert np.isnan(bad[0]).all() and bad[2] == 0

    waved = lw.rollout(model, q, v, policy=wave, inputs={"gain": 0.7}, dt=dt, steps=15, **how)
    half = call(library.waved, q, v, dt, 6, 0, 0.7, sizes=sizes)
    got = call(library.waved, *half[:2], dt, 9, 6, 0.7, sizes=sizes)
    assert same_bits(got[0], waved.q[-1]).all() and same_bits(got[1], waved.v[-1]).all()

    q, v = linkage.random_state(rng)
    target, _ = linkage.random_state(rng)
    held = lw.rollout(linkage, q, v, lw.PD(5.0, 0.5, target), dt=dt, steps=12, **how)
    nv = linkage.nv
    gains = target, np.full(nv, 5.0), np.full(nv, 0.5), np.zeros(nv), np.zeros(nv)
    got = call(library.held, q, v, dt, 12, 0, *gains, sizes=(linkage.nq, nv, 1))
    program = lw.lower(exported_rollout(linkage, control="pd", **how).program)
    same = interpret(program, *(np.array(x, dtype=float) for x in (q, v, dt, 12, 0, *gains)))
    assert (
        all(same_bits(x, y).all() for x, y in zip(got, map(np.atleast_1d, same), strict=True))
        and got[2] == 12
    )
    assert (
        np.isfinite(held.q).all()
        and same_bits(got[0], held.q[-1]).all()
        and same_bits(got[1], held.v[-1]).all()
    )


def test_steps_and_rollouts_with_contact_have_the_bits_of_python(tmp_path: Path) -> None:
    """A sled that falls and slides: in one call, in two, and step by step."""
    b = lw.ModelBuilder("sled")
    b.add_body("sled", mass=2.0, inertia=(0.1, 0.2, 0.3))
    b.add_joint("plane", lw.joints.Planar((0.0, 1.0, 0.0)), parent="world", child="sled")
    for k, x in enumerate((0.2, -0.2)):
        b.add_frame(f"foot{k}", body="sled", xyz=(x, 0.0, -0.1))
    # so warm starts count
    model = b.build()
    contacts = lw.Contacts(shapes=["foot0", "foot1"], iterations=1)
    dt = 0.004
    how = {"contacts": contacts, "parameters": ("contact_friction",)}
    made = lw.export_c(
        {
            "many": (lw.rollout, model, how),
            "one": (lw.rollout, model, {**how, "looped": False}),
            "stepped": (lw.step, model, {"contacts": contacts, "optional": ("warm_start",), "details": True}),
        },
        tmp_path,
        name="contact",
        freestanding=True,
    )
    assert all(name in made.header.read_text() for name in lw.impulse_names(model, contacts=contacts))
    library = link_alone(compiler("gcc"), ["-O0"], made, tmp_path / "contact.so")
    q = np.array([0.101, 0.0, 0.003])
    v = np.array([-0.1, 2.0, 0.0])
    tau = np.array([0.0, 0.5, 0.1])
    friction = np.array([0.2, 0.5])
    none = np.zeros(6)
    wanted = lw.rollout(
        model, q, v, tau, dt=dt, steps=40, contacts=contacts, parameters={"contact_friction": friction}
    )
    assert np.abs(wanted.impulses).max() > 0.0
    sizes = (model.nq, model.nv, 1, 6, 1, 1, 1)
    got = call(library.many, q, v, dt, 40, 0, none, tau, friction, sizes=sizes)
    told = (wanted.q[-1], wanted.v[-1], 40.0, wanted.impulses, wanted.residual, wanted.iterations)
    assert all(same_bits(x, np.atleast_1d(y)).all() for x, y in zip(got, told)) and 0.0 < got[-1] < 40.0
    half = call(library.many, q, v, dt, 15, 0, none, tau, friction, sizes=sizes)
    got = call(library.many, *half[:2], dt, 25, 15, half[3], tau, friction, sizes=sizes)
    assert same_bits(got[0], wanted.q[-1]).all() and same_bits(got[3], wanted.impulses).all()
    cold = call(library.many, *half[:2], dt, 25, 15, none, tau, friction, sizes=sizes)
    assert not same_bits(cold[0], wanted.q[-1]).all()
    got = [q, v, None, none]
    for k in range(40):
        got = call(library.one, *got[:2], dt, k, got[3], tau, friction, sizes=sizes)
        assert same_bits(got[0], wanted.q[k + 1]).all() and same_bits(got[1], wanted.v[k + 1]).all()
    found = lw.step(
        model, wanted.q[20], wanted.v[20], tau, dt, warm_start=none, contacts=contacts, details=True
    )
    got = call(library.stepped, wanted.q[20], wanted.v[20], tau, dt, none, sizes=(3, 3, 6, 1, 1, 1))
    assert all(same_bits(x, np.atleast_1d(y)).all() for x, y in zip(got, found, strict=True))


@pytest.mark.slow
def test_recorded_rollouts_with_contact(tmp_path: Path) -> None:
    model = chain()
    made = lw.export_c(
        lw.rollout, model, tmp_path / "one", contacts=lw.Contacts(shapes=["rod"]), control="pd"
    )
    run(compiler("gcc"), *STRICT, "-O1", made.source, made.test, "-o", tmp_path / "check", "-lm")
    assert run(tmp_path / "check") == "8 passed, 0 failed\n"
    for options, words in (
        ({"contacts": True}, r"contacts: expected Contacts\(...\)"),
        ({"contacts": lw.Contacts(shapes=["rood"])}, "did you mean 'rod'"),
        (
            {"contacts": lw.Contacts(shapes=["rod"]), "integrator": "rk4"},
            "expected .semi_implicit_euler. with contacts=",
        ),
        ({"parameters": ("contact_friction",)}, "requires contacts="),
    ):
        with pytest.raises(LinkworkError, match=words):
            lw.export_c(lw.rollout, model, tmp_path / "two", **options)


def damped(q: Any, v: Any, t: Any, inputs: Any) -> Any:
    return -v


@pytest.mark.parametrize("folder", ["a\0b", "a" * 400])
def test_folders_that_cannot_be(folder: str) -> None:
    with pytest.raises(LinkworkError, match="export_c: invalid folder name 'a"):
        lw.export_c(lw.gravity_force, lw.robots.four_bar(), folder)


def test_sources_need_not_be_hashable_and_sizes_may_be_numbers_of_numpy(tmp_path: Path) -> None:
    @dataclass
    class Scaled:
        factor: float

        def __call__(self, q: Any) -> Any:
            return self.factor * q

    assert lw.export_c(Scaled(2.0), {"q": 3}, tmp_path / "one", name="scaled").name == "scaled"
    made = lw.export_c(
        lw.rollout,
        chain(),
        tmp_path / "two",
        policy=lambda q, v, t, x: -x["gain"][0] * v,
        inputs={"gain": np.int64(3)},
    )
    assert "input_gain[3]" in made.header.read_text()


def test_recorded_rollouts_and_refusals(tmp_path: Path) -> None:
    made = lw.export_c(lw.rollout, chain(), tmp_path / "one", parameters=("mass",))
    assert (
        made.name == "rollout"
        and " *        " in made.header.read_text()
        and "hinge" in made.header.read_text()
    )
    assert (
        made.test.read_text().count("NAN") < 10
    )  # in words of the flags' test only: recorded calls are finite
    run(compiler("gcc"), *STRICT, "-O1", made.source, made.test, "-o", tmp_path / "check", "-lm")
    assert run(tmp_path / "check") == "8 passed, 0 failed\n"
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"control": "p"}, "'tau' or 'pd'"),
        ({"integrator": "x"}, "integrator: expected"),
        ({"inputs": {}}, "policy"),
        ({"parameters": 3}, "parameters= in C: expected names"),
        ({"policy": damped, "inputs": 3}, "inputs= in C: expected a dict of shapes by name, got int"),
        ({"policy": "damped"}, "policy=, a function"),
        ({"policy": damped, "control": "pd"}, "either control= or policy="),
    ]
    for options, words in wrong:
        with pytest.raises(LinkworkError, match=words):
            lw.export_c(lw.rollout, chain(), tmp_path / "two", **options)


def test_the_command_writes_several_functions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["export", "arm", "--function", "gravity_force,rollout", "--freestanding", "--out", str(tmp_path)]
    assert main(argv) == 0
    assert "arm.h" in capsys.readouterr().out
    assert re.findall(r"^void (\w+)", (tmp_path / "arm.h").read_text(), re.M) == ["gravity_force", "rollout"]
    assert "math.h" not in (tmp_path / "arm.c").read_text()


@pytest.mark.parametrize("inside", [False, True])
def test_a_file_where_the_folder_should_be(inside: bool, tmp_path: Path) -> None:
    file = tmp_path / "taken"
    file.write_text("mine")
    twice = lw.trace(lambda x: 2.0 * x, {"x": 2}, name="twice")
    for what in ([twice], [lw.forward_dynamics, lw.robots.arm()], [{"f": twice}]):
        with pytest.raises(lw.LinkworkError, match=r"a folder for several files; '.*taken' is a file"):
            lw.export_c(*what, file / "c" if inside else file, name="f")
    with pytest.raises(lw.LinkworkError, match="expected a path, got int"):
        lw.export_c(twice, 3)
    assert file.read_text() == "mine"


def test_what_cannot_be_written_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TypeError, match="rollout has no option .record_every. in C; it has control, policy"):
        lw.export_c(lw.rollout, lw.robots.arm(), tmp_path, record_every=3)
    twice = lw.trace(lambda x: 2.0 * x, {"x": 2}, name="twice")

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    for what in ([twice], [{"f": twice}]):
        with pytest.raises(
            lw.LinkworkError, match=r"export_c: cannot write to '.*here': No space left on device"
        ):
            lw.export_c(*what, tmp_path / "here", name="f")
