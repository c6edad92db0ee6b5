"""Compile the programs that time the peers from C and C++: `python bench/peers/build.py [--best]`.

Headers and libraries are those of the peers' wheels. Binaries are kept in `out/peers`, named by a digest of
their inputs. If something is missing, a message says so and None is returned.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
KEPT = HERE.parents[1] / "out" / "peers"
EIGEN = "cmeel-eigen==3.4.1"  # what Pinocchio's wheels are built with; it is not among what they need to run

PINOCCHIO = [
    "-DBOOST_MPL_LIMIT_LIST_SIZE=30", "-DBOOST_MPL_LIMIT_VECTOR_SIZE=30", "-DBOOST_MPL_CFG_NO_PREPROCESSED_HEADERS",
    "-DBOOST_FUSION_INVOKE_MAX_ARITY=12", "-DNDEBUG", "-std=c++17", "-w",
]  # fmt: skip


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def compiler(variable: str, names: tuple[str, ...]) -> str | None:
    """Return the compiler named by an environment variable, or the first installed one."""
    found = next(
        (path for name in (os.environ.get(variable), *names) if name and (path := shutil.which(name))), None
    )
    if found is None:
        say(f"No {' or '.join(names)} found: the peers are timed from Python only.")
    return found


def version(wheel: str) -> str | None:
    """Return the version of an installed wheel."""
    try:
        return importlib.metadata.version(wheel)
    except importlib.metadata.PackageNotFoundError:
        say(f"{wheel} is not installed: nothing to time.")
        return None


def prefix() -> Path | None:
    """Return the folder of Pinocchio's headers and libraries."""
    spec = importlib.util.find_spec("pinocchio")
    if spec is None or spec.origin is None:
        return None
    return next((p for p in Path(spec.origin).parents if (p / "include" / "pinocchio").is_dir()), None)


def eigen(pinocchio: Path) -> Path | None:
    """Return the folder of Eigen's headers: beside Pinocchio's, fetched once from the package index, or the
    system's.
    """
    kept = KEPT / EIGEN.replace("==", "-")
    inside = Path("cmeel.prefix") / "include" / "eigen3"
    if (pinocchio / "include" / "eigen3" / "Eigen").is_dir():
        return pinocchio / "include" / "eigen3"
    if not (kept / inside).is_dir():
        with tempfile.TemporaryDirectory() as folder:
            command = [
                sys.executable,
                "-m",
                "pip",
                "download",
                "-qq",
                "--no-deps",
                "--only-binary=:all:",
                "-d",
                folder,
                EIGEN,
            ]
            if subprocess.run([*command, "--disable-pip-version-check"], capture_output=True).returncode == 0:
                with zipfile.ZipFile(next(Path(folder).glob("*.whl"))) as wheel:
                    wheel.extractall(
                        kept, [name for name in wheel.namelist() if name.startswith(inside.as_posix())]
                    )
    places = (kept / inside, Path("/usr/include/eigen3"), Path("/usr/local/include/eigen3"))
    found = next((p for p in places if (p / "Eigen").is_dir()), None)
    if found is None:
        say(
            "Eigen's headers could not be found or fetched (pip install cmeel-eigen): Pinocchio is timed from Python only."
        )
    return found


def compiled(source: Path, command: list[str], link: list[str], facts: list[str]) -> Path | None:
    """Return the binary of a source, compiled unless cached; `facts` are versions that it depends on."""
    about = subprocess.run([command[0], "--version"], capture_output=True, text=True).stdout
    key = hashlib.sha256(
        "\0".join([source.read_text(), *command, *link, *facts, about]).encode()
    ).hexdigest()[:16]
    binary = KEPT / f"{source.stem}-{key}"
    if binary.exists():
        return binary
    KEPT.mkdir(parents=True, exist_ok=True)
    partial = binary.with_suffix(f".{os.getpid()}")
    flags = " ".join(flag for flag in command[1:] if flag[:2] in ("-O", "-m"))
    say(f"Compiling {source.name} ({Path(command[0]).name} {flags})")
    start = time.perf_counter()
    done = subprocess.run([*command, str(source), "-o", str(partial), *link], capture_output=True, text=True)
    if done.returncode != 0:
        say(f"{source.name} does not compile, the peer is timed from Python only:\n{done.stderr[-2000:]}")
        return None
    partial.replace(binary)
    say(f"... took {time.perf_counter() - start:.0f} s")
    return binary


def host() -> str:
    """Return the processor that `-march=native` stands for."""
    try:
        import llvmlite.binding as llvm

        return llvm.get_host_cpu_name()
    except ImportError:
        return ""


def pinocchio(best: bool = False, source: str = "pinocchio_times") -> Path | None:
    """Return a program that times Pinocchio: linked to the shipped library, or inlined for this processor.

    The shipped library is built for any x86-64, with Eigen's alignment of 16 bytes: `-march=native` would lay
    out the caller's structures for wider vectors, which ends in a crash, so it is not given there. The other
    build (`best`) shares nothing with that library. Clang's code for it is up to twice as fast as GCC's, so
    Clang is taken where there is one. It knows only revolute joints about x, y, z and free bases: that
    compiles in half a minute to a minute; with all of Pinocchio's joints it takes two minutes and 2 GB (4 GB
    with GCC), and Clang's code is equally fast.
    """
    names = ("clang++", "c++", "g++") if best else ("c++", "g++", "clang++")
    cxx = compiler("CXX", names)
    number = version("pin")
    root = prefix()
    if cxx is None or number is None or root is None or (headers := eigen(root)) is None:
        return None
    lib = root / "lib"
    command = [cxx, "-O3", *PINOCCHIO, f"-I{root / 'include'}", f"-I{headers}"]
    link = [f"-L{lib}", "-lboost_serialization", f"-Wl,-rpath,{lib}"]
    if best:
        command += [
            "-march=native",
            "-ffp-contract=fast",
            "-DFEW_JOINTS",
            "-DBOOST_VARIANT_USE_RELAXED_GET_BY_DEFAULT",
        ]
    else:
        command.append("-DPINOCCHIO_ENABLE_TEMPLATE_INSTANTIATION")
        link.insert(1, "-lpinocchio_default")
    facts = [number, host() if best else "", *(header.read_text() for header in sorted(HERE.glob("*.hpp")))]
    return compiled(HERE / f"{source}.cpp", command, link, facts)


def mujoco() -> Path | None:
    """Return the program that times MuJoCo, linked to the shipped library."""
    cc = compiler("CC", ("cc", "gcc", "clang"))
    number = version("mujoco")
    spec = importlib.util.find_spec("mujoco")
    if cc is None or number is None or spec is None or spec.origin is None:
        return None
    root = Path(spec.origin).parent
    library = next((p for p in sorted(root.glob("libmujoco.*")) if number in p.name), None)
    if library is None:
        say("The MuJoCo wheel has no library to link: MuJoCo is timed from Python only.")
        return None
    command = [cc, "-std=gnu11", "-O3", "-march=native", f"-I{root / 'include'}"]
    return compiled(
        HERE / "mujoco_times.c", command, [str(library), f"-Wl,-rpath,{root}", "-lm"], [number, host()]
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--best", action="store_true", help="also Pinocchio with all code inlined for this processor"
    )
    wanted = parser.parse_args()
    made = [pinocchio(), mujoco()]
    if wanted.best:
        made += [pinocchio(best=True), pinocchio(best=True, source="pinocchio_constrained")]
        made += [pinocchio(best, source="pinocchio_derivatives") for best in (False, True)]
    for binary in made:
        if binary is not None:
            print(binary)
