"""How kernels come into being: quick code first, optimised code after it, and both from the cache on the
disk.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import linkwork as lw
import processes
from linkwork.compiler.ir.program import Program
from linkwork.compiler.runtime import compiler
from linkwork.compiler.runtime import kernel as module
from linkwork.compiler.runtime.cache import Cache
from linkwork.compiler.runtime.compiler import OPTIMISED
from linkwork.compiler.runtime.unfinished import Unfinished
from linkwork.compiler.targets.cpu import Machine, host
from waiting import PATIENCE, wait_until

pytestmark = pytest.mark.background

SOURCE = str(Path(lw.__file__).parents[1])
OFF = Cache(None)

STEEP = """
def steep(x, rounds=12, start=1.0):
    import linkwork as lw
    for k in range(rounds):
        x = lw.sin(x) * (start + k) + x[::-1]
    return x
"""
exec(STEEP)
steep: Callable[..., Any]


def program(start: float = 1.0, rounds: int = 12, name: str = "steep") -> Program:
    """More instructions than are optimised at once."""
    return lw.trace(lambda x: steep(x, rounds, start), {"x": 4}, name=name)  # noqa: F821


def states(rows: int = 29) -> np.ndarray:
    return np.random.default_rng(7).normal(size=(rows, 4))


class Gate:
    """Holds the optimiser back until it is opened; then it may fail."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.calls = []
        self.failure = None
        self._compile = module.compile_objects

    def __call__(self, lowered: Any, machine: Any, **options: Any) -> Any:
        self.calls.append(options["level"])
        if options["level"] == OPTIMISED:
            assert self.open.wait(PATIENCE)
            if self.failure is not None:
                raise self.failure
        return self._compile(lowered, machine, **options)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    gate = Gate()
    monkeypatch.setattr(module, "compile_objects", gate)
    yield gate
    gate.open.set()


def run_python(code: str, **more: Any) -> subprocess.CompletedProcess[str]:
    return processes.run_python(STEEP + textwrap.dedent(code), **more)


def clean(done: subprocess.CompletedProcess[str], stdout: str) -> None:
    assert (done.returncode, done.stdout, done.stderr) == (0, stdout, "")


# two tiers


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_large_program_answers_at_once_and_is_optimised_later(gate: Gate, dtype: str) -> None:
    kernel = module.build_kernel(program(), dtype, cache=OFF)
    assert kernel.size > module.MAX_IMMEDIATE_SIZE
    assert (kernel.tier, gate.calls[0]) == (1, compiler.QUICK)
    x = states().astype(dtype)
    ufunc = kernel.ufunc
    quick = [kernel(x[:n]).tobytes() for n in range(29)]
    assert kernel.tier == 1
    gate.open.set()
    assert kernel.wait() is kernel
    assert kernel.tier == 2 and gate.calls == [compiler.QUICK, OPTIMISED]
    assert kernel.ufunc is ufunc
    assert [kernel(x[:n]).tobytes() for n in range(29)] == quick
    reference = lw.interpret(lw.lower(program(), dtype), x)
    assert np.array_equal(reference[0] if isinstance(reference, tuple | list) else reference, kernel(x))


def test_a_small_program_is_optimised_at_once(gate: Gate) -> None:
    gate.open.set()
    kernel = module.build_kernel(lw.trace(lambda x: x * 4.5, {"x": 2}), cache=OFF)
    assert kernel.tier == 2 and gate.calls == [OPTIMISED]
    assert kernel.wait() is kernel


def test_compile_can_wait() -> None:
    kernel = lw.compile(lambda x: steep(x, 12, 2.5), inputs={"x": 4}, wait=True)  # noqa: F821
    assert kernel.tier == 2


def test_calls_during_the_swap_are_right(gate: Gate) -> None:
    kernel = module.build_kernel(program(3.0), cache=OFF)
    x = states(64)
    expected = [kernel(x[:n]).tobytes() for n in range(65)]
    tiers: list[set[int]] = [set() for _ in range(4)]
    wrong: list[Any] = []
    stop = threading.Event()

    def work(seen: set[int]) -> None:
        bound = kernel.bind(x)
        n = 0
        while not (stop.is_set() and 2 in seen):
            n = n % 64 + 1
            before = kernel.tier
            if kernel(x[:n]).tobytes() != expected[n] or bound().tobytes() != expected[64]:
                wrong.append((before, n))
            seen.add(before)

    workers = [threading.Thread(target=work, args=(seen,)) for seen in tiers]
    for w in workers:
        w.start()
    wait_until(lambda: all(1 in seen for seen in tiers))
    gate.open.set()
    kernel.wait()
    stop.set()
    for w in workers:
        w.join()
    assert wrong == [] and tiers == [{1, 2}] * 4


def test_the_background_gives_way_to_first_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    levels = []
    real = compiler.compile_object
    waiting, gone_on, yield_priority = (
        threading.Event(),
        threading.Event(),
        compiler.background.yield_priority,
    )

    def watched() -> None:
        if threading.current_thread().name == "linkwork-compiler":
            waiting.set()
            yield_priority()
            gone_on.set()

    monkeypatch.setattr(compiler.background, "yield_priority", watched)
    monkeypatch.setattr(
        compiler,
        "compile_object",
        lambda text, to, level: levels.append(level) or real(text, to, level=level),
    )
    with compiler.background.ahead():  # as while a kernel is made
        kernel = module.build_kernel(program(21.0), cache=OFF)
        assert waiting.wait(PATIENCE) and not gone_on.wait(0.5)
        assert kernel.tier == 1 and set(levels) == {compiler.QUICK}
        assert kernel.wait().tier == 2 and OPTIMISED in levels  # now somebody waits for it
    with compiler.background.ahead():
        other = module.build_kernel(program(22.0), cache=OFF)
    wait_until(lambda: other.tier == 2)  # nobody is ahead any more


def test_a_failing_optimiser_leaves_the_quick_kernel(gate: Gate) -> None:
    kernel = module.build_kernel(program(4.0, name="unlucky"), cache=OFF)
    x = states()
    before = kernel(x).tobytes()
    gate.failure = MemoryError("too large")
    gate.open.set()
    for _ in range(2):
        with pytest.raises(
            lw.TargetError, match="unlucky: the optimised kernel could not be built: too large"
        ) as found:
            kernel.wait()
        assert found.value.__cause__ is gate.failure
    assert kernel.tier == 1 and kernel(x).tobytes() == before == kernel.bind(x)().tobytes()


def test_a_failing_optimiser_is_reported_at_once_for_small_programs(gate: Gate) -> None:
    gate.failure = RuntimeError("no such luck")
    gate.open.set()
    with pytest.raises(lw.TargetError, match="no such luck"):
        module.build_kernel(lw.trace(lambda x: x * 5.5, {"x": 2}), cache=OFF)


def test_the_background_goes_on_after_a_failure(gate: Gate) -> None:
    failing = module.build_kernel(program(5.0), cache=OFF)
    following = module.build_kernel(program(6.0), cache=OFF)
    gate.failure = RuntimeError("both times")
    gate.open.set()
    with pytest.raises(lw.TargetError):
        failing.wait()
    with pytest.raises(lw.TargetError):
        following.wait()
    gate.failure = None
    assert module.build_kernel(program(7.0), cache=OFF).wait().tier == 2


# the end of the process


@pytest.mark.parametrize("count", [1, 4])
def test_a_process_may_end_while_kernels_are_pending(count: int, tmp_path: Path) -> None:
    done = run_python(
        f"""
        import numpy as np, linkwork as lw
        kernels = [lw.compile(lambda x: steep(x, 80, 1.0 + k), {{"x": 6}}) for k in range({count})]
        print(kernels[-1].tier, np.isfinite(kernels[-1](np.ones(6))).all())
        """,
        LINKWORK_CACHE=str(tmp_path / "cache"),
        LINKWORK_EXIT_SECONDS="0",
    )
    clean(done, "1 True\n")


def test_a_process_may_end_by_an_error_while_a_kernel_is_pending() -> None:
    done = run_python(
        """
        import sys, linkwork as lw
        lw.compile(lambda x: steep(x, 80), {"x": 6})
        sys.exit(3)
        """,
        LINKWORK_CACHE="off",
    )
    assert (done.returncode, done.stdout, done.stderr) == (3, "", "")


def hangs(code: str) -> bool:
    try:
        done = run_python(code, LINKWORK_CACHE="off")
    except subprocess.TimeoutExpired:
        return True
    assert (done.returncode, done.stderr) == (0, "")
    return "hangs" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("when", ["after", "before"])
@pytest.mark.parametrize("last", ["lw.compile(lambda x: x * 7.0, {'x': 2})", "kernel.wait()"])
def test_exit_handlers_may_use_kernels(last: str, when: str) -> None:
    """Handlers run in the order opposite to their registration. They may fail with an error, too; but not
    hang.
    """
    assert not hangs(f"""
        import atexit, contextlib
        {"import linkwork as lw" if when == "after" else ""}

        @atexit.register
        def end():
            with contextlib.suppress(lw.LinkworkError):
                {last}

        import linkwork as lw
        kernel = lw.compile(lambda x: steep(x, 100), {{"x": 6}})
        """)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.parametrize("use", ["kernel.wait()", "lw.compile(lambda x: x * 7.0, {'x': 2})"])
def test_a_child_process_may_use_kernels_that_are_pending(use: str) -> None:
    assert not hangs(f"""
        import multiprocessing, warnings, linkwork as lw
        warnings.simplefilter("ignore")

        def child():
            assert kernel([1.0] * 6).shape == (6,)
            {use}

        kernel = lw.compile(lambda x: steep(x, 100), {{"x": 6}})
        process = multiprocessing.get_context("fork").Process(target=child)
        process.start()
        process.join(200)
        if process.is_alive():
            print("hangs")
            process.kill()
        """)


LOCKED = """
    import os, signal, sys, threading, warnings
    warnings.simplefilter("ignore")  # Python's own words on forks beside threads
    locks, make = [], threading.Lock

    def watched():
        made, frame = make(), sys._getframe(1)
        while frame.f_code.co_filename == threading.__file__:  # of an Event, say
            frame = frame.f_back
        if frame.f_globals.get("__name__", "").startswith("linkwork."):
            locks.append(made)
        return made

    threading.Lock = watched
    import linkwork as lw
    from linkwork.compiler.runtime import compiler

    kernel = lw.compile(lambda x: steep(x, 18), {"x": 4})
    cache = compiler.default_cache()
    print(kernel.tier, flush=True)
    held = [lock for lock in locks if lock is not compiler._llvm and lock.acquire(timeout=100)]
    child = os.fork()
    if child == 0:
        signal.alarm(300)
        cache.turn_off("this is a test")
        print(kernel.wait().tier, lw.compile(lambda x: 2.0 * x, {"x": 2})([1.0, 2.0]), len(cache.notes), flush=True)
        os._exit(0)
    for lock in held:
        lock.release()
    print(os.waitpid(child, 0)[1], len(held) == len(locks) - 1 > 2)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_no_lock_that_a_thread_holds_holds_up_a_child(tmp_path: Path) -> None:
    """Threads do not survive a fork, but the locks that they hold do."""
    clean(
        run_python(LOCKED, LINKWORK_CACHE=str(tmp_path / "cache"), LINKWORK_EXIT_SECONDS="0"),
        "1\n2 [2. 4.] 1\n0 True\n",
    )


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_child_does_what_a_thread_of_its_parent_was_waiting_for() -> None:
    """Where the background has no thread, whoever waits compiles; in a child, nobody goes on with that."""
    clean(run_python("""
        import os, signal, threading, warnings, linkwork as lw
        from linkwork.compiler.runtime import kernel as module
        warnings.simplefilter("ignore")
        start, make, inside, go = threading.Thread.start, module.compile_objects, threading.Event(), threading.Event()

        def refuse(thread):
            if thread.name == "linkwork-compiler":
                raise RuntimeError("can't start new thread")
            start(thread)

        def slow(*args, **options):
            inside.set()
            go.wait()
            return make(*args, **options)

        threading.Thread.start = refuse
        kernel = lw.compile(lambda x: steep(x, 12), {"x": 4})
        module.compile_objects = slow
        threading.Thread(target=kernel.wait, daemon=True).start()
        inside.wait()
        if not (child := os.fork()):
            signal.alarm(300)
            module.compile_objects = make
            print(kernel.wait().tier, flush=True)
            os._exit(0)
        print(os.waitpid(child, 0)[1])
        go.set()
        print(kernel.wait().tier)
    """, LINKWORK_CACHE="off"), "2\n0\n2\n")  # fmt: skip


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_second_background_does_not_hold_up_forks() -> None:
    clean(run_python("""
        import os, signal
        from linkwork.compiler.runtime import compiler
        compiler.Background()
        signal.alarm(300)
        if not (child := os.fork()):
            os._exit(0)
        print(os.waitpid(child, 0)[1])
    """), "0\n")  # fmt: skip


def test_waiting_for_a_job_that_is_done_starts_no_thread(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be done between a look at the kernel and a look at the jobs."""
    background = compiler.Background()
    started = []
    monkeypatch.setattr(background, "_ensure_thread", lambda: started.append(True) or True)
    kernel = module.build_kernel(program(), cache=OFF)
    job = kernel._job
    assert job is not None
    gate.open.set()
    kernel.wait()
    codes = list(kernel._codes)
    background.run_inline(job)
    assert started == [] and kernel._codes == codes and kernel._job is None


SHORT = """
    import threading, linkwork as lw
    from linkwork.compiler.runtime import kernel as module
    foreground, lower, make = [], module.lower, module.compile_objects
    def watch(work):
        def watched(*args, **options):
            if threading.current_thread() is threading.main_thread():
                foreground.append(work)
            return work(*args, **options)
        return watched
    module.lower, module.compile_objects = watch(module.lower), watch(module.compile_objects)
    kernel = lw.compile(lambda x: steep(x, 14), {"x": 6})
    print(kernel.tier, len(foreground), kernel([1.0] * 6).tobytes().hex())
"""


def test_a_short_script_that_is_run_again_gets_its_optimised_kernel(tmp_path: Path) -> None:
    """Each run ends before the optimised kernel is done, and each gets on with it."""
    found = []
    for _ in range(60):  # on a busy machine, each does little
        done = run_python(SHORT, LINKWORK_CACHE=str(tmp_path / "cache"))
        assert (done.returncode, done.stderr) == (0, "")
        found.append(done.stdout.split())
        if found[-1][0] == "2":
            break
    assert found[0][:2] == ["1", "2"]  # lowered and compiled before the first answer
    assert all(work == "0" for _, work, _ in found[1:]) and found[-1][0] == "2"
    assert len({result for *_, result in found}) == 1
    assert len(list((tmp_path / "cache").iterdir())) == 1  # what was unfinished has gone


def test_python_may_wait_at_its_exit_until_all_is_done(tmp_path: Path) -> None:
    """Handlers of an exit run last what was registered first: here, after linkwork's own."""
    code = """
        import atexit, os
        atexit.register(lambda: print(len(os.listdir(os.environ["LINKWORK_CACHE"]))))
        import linkwork as lw
        print(*[lw.compile(lambda x: steep(x, 20, start), {"x": 4}).tier for start in (1.0, 2.0)])
    """
    out = [
        run_python(code, LINKWORK_CACHE=str(tmp_path / "cache"), LINKWORK_EXIT_SECONDS="inf")
        for _ in range(2)
    ]
    clean(out[0], "1 1\n2\n")
    clean(out[1], "2 2\n2\n")


@pytest.mark.parametrize("seconds", ["0.1", "0"])
def test_python_does_not_wait_at_its_exit_for_what_takes_longer(tmp_path: Path, seconds: str) -> None:
    code = """
        import time, linkwork as lw
        from linkwork.compiler.runtime import kernel as module
        module.arrange = lambda program, how: time.sleep(1000)
        print(lw.compile(lambda x: steep(x, 12), {"x": 4}).tier)
    """
    for _ in range(2):
        clean(run_python(code, LINKWORK_CACHE=str(tmp_path / "cache"), LINKWORK_EXIT_SECONDS=seconds), "1\n")


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.usefixtures("interruptible")
def test_an_impatient_user_ends_the_wait_at_exit(tmp_path: Path) -> None:
    code = STEEP + textwrap.dedent("""
        import threading, time, linkwork as lw
        join = threading.Thread.join

        def waited(thread, *seconds):
            if thread.name != "linkwork-compiler":
                return join(thread, *seconds)
            print("exits", flush=True)
            threading.Thread.join = join
            time.sleep(1000)

        threading.Thread.join = waited
        lw.compile(lambda x: steep(x, 60), {"x": 6})
    """)
    env = {
        **os.environ,
        "PYTHONPATH": SOURCE,
        "LINKWORK_CACHE": str(tmp_path),
        "LINKWORK_EXIT_SECONDS": "inf",
    }
    with subprocess.Popen(
        [sys.executable, "-c", code], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as it:
        assert it.stdout is not None and it.stdout.readline() == "exits\n"
        it.send_signal(signal.SIGINT)
        assert (*it.communicate(timeout=PATIENCE), it.returncode) == ("", "", 0)


def test_at_exit_only_what_is_kept_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    background = compiler.background
    assert not background.stopping() and not background.stopping(lasting=True)
    monkeypatch.setattr(background, "_stopping", True)
    assert not background.stopping() and not background.stopping(
        lasting=True
    )  # who waits for a job at exit gets it
    monkeypatch.setattr(background, "_thread", threading.current_thread())
    assert background.stopping() and not background.stopping(lasting=True)
    monkeypatch.setattr(background, "_end", 0.0)
    assert background.stopping() and background.stopping(lasting=True)
    for cache, lasting in (
        (Cache("somewhere"), True),
        (Cache("somewhere", read_only=True), False),
        (OFF, False),
    ):
        assert Unfinished(cache, "key", "name").lasting == lasting


def test_a_wrong_time_to_wait_at_exit_is_refused() -> None:
    done = run_python(
        "import linkwork as lw; lw.compile(steep, {'x': 4})",
        LINKWORK_EXIT_SECONDS="soon",
        LINKWORK_CACHE="off",
    )
    assert "LINKWORK_EXIT_SECONDS: expected seconds >= 0, got 'soon'" in done.stderr


# the cache


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache")


def files(cache: Cache) -> list[Path]:
    assert cache.folder is not None
    return sorted(cache.folder.glob("*.kernel"))


@pytest.fixture
def lowered(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The programs that were lowered, and so not taken from the cache."""
    names: list[str] = []
    lower = module.lower
    monkeypatch.setattr(
        module, "lower", lambda p, dtype, **how: names.append(p.name) or lower(p, dtype, **how)
    )
    return names


@pytest.mark.parametrize("rounds", [1, 12])
def test_the_second_time_comes_from_the_cache(cache: Cache, lowered: list[str], rounds: int) -> None:
    first = module.build_kernel(program(rounds=rounds), cache=cache, wait=True)
    background_is_done()
    second = module.build_kernel(program(rounds=rounds), cache=cache)
    assert second is not first and lowered == ["steep"]
    assert (second.tier, second.size, second.lanes, second.signature) == (
        2,
        first.size,
        first.lanes,
        first.signature,
    )
    assert second.wait() is second
    assert second(states()).tobytes() == first(states()).tobytes() == second.bind(states())().tobytes()


def test_a_quick_kernel_in_the_cache_answers_without_being_lowered(
    cache: Cache, gate: Gate, lowered: list[str]
) -> None:
    first = module.build_kernel(program(), cache=cache)
    second = module.build_kernel(program(), cache=cache)
    assert (first.tier, second.tier, gate.calls.count(compiler.QUICK)) == (1, 1, 1) and lowered == ["steep"]
    assert (second.lanes, second.size, second.signature) == (first.lanes, first.size, first.signature)
    quick = second(states()).tobytes()
    gate.open.set()
    assert second.wait().tier == 2 and second(states()).tobytes() == quick == first(states()).tobytes()
    background_is_done()
    assert len(files(cache)) == 1  # the optimised one


def interrupted_compilations(
    cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> tuple[int, list[bytes], list[bytes]]:
    """How many modules LLVM compiled in processes that each end after one; what came of it; and what comes in
    one go.
    """
    whole = lw.lower(program(), "float64")
    how: dict[str, Any] = {"level": compiler.QUICK, "lanes": 4}
    expected = compiler.compile_objects(whole, host(), **how)
    count = [0]
    real = compiler.compile_object
    monkeypatch.setattr(
        compiler, "compile_object", lambda *a, **o: (count.__setitem__(0, count[0] + 1), real(*a, **o))[1]
    )
    for _ in range(10):
        before = count[0]
        rest = Unfinished(cache, compiler.make_key("x"), "x")
        found = compiler.compile_objects(
            lambda: whole,
            host(),
            **how,
            stop=lambda before=before: count[0] > before,
            unfinished=rest,
        )
        if found is not None:
            break
    assert found is not None and expected is not None
    return count[0], found, expected


def test_no_module_is_compiled_twice(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    count, found, expected = interrupted_compilations(cache, monkeypatch)
    assert count == len(expected) >= 3 and found == expected


@pytest.mark.parametrize(
    "harm", ["header.clear()", "header['texts'] = -1", "header['objects'] = [3]", "blob = blob[:-1]"]
)
def test_unfinished_modules_that_make_no_sense_are_made_anew(
    cache: Cache, monkeypatch: pytest.MonkeyPatch, harm: str
) -> None:
    load = cache.load

    def harmed(key: str) -> Any:
        stored = load(key)
        if stored is None:
            return None
        scope = {"header": dict(stored.header), "blob": stored.blob}
        exec(harm, scope)
        return stored._replace(header=scope["header"], blob=scope["blob"])

    rest = Unfinished(cache, compiler.make_key("x"), "x")
    rest.store([b"\x7fELF and so on"], ["define"])
    assert rest.load() == ([b"\x7fELF and so on"], ["define"])
    monkeypatch.setattr(cache, "load", harmed)
    assert rest.load() is None


def background_is_done() -> None:
    """The entry is stored after wait() returns."""
    done = threading.Event()
    compiler.background.submit(done.set)
    assert done.wait(PATIENCE)


def test_another_process_comes_from_the_cache(tmp_path: Path) -> None:
    code = """
        import linkwork as lw
        from linkwork.compiler.runtime import kernel as module
        import numpy as np
        {poison}
        kernel = lw.compile(steep, {{"x": 4}})
        tier = kernel.tier
        kernel.wait()
        print(tier, kernel(np.ones((3, 4))).tobytes().hex())
    """
    first = run_python(code.format(poison=""), LINKWORK_CACHE=str(tmp_path / "cache"))
    second = run_python(
        code.format(poison="module.lower = module.compile_objects = None"),
        LINKWORK_CACHE=str(tmp_path / "cache"),
    )
    assert (first.returncode, first.stderr, second.returncode, second.stderr) == (0, "", 0, "")
    assert first.stdout[:2] == "1 " and second.stdout == "2" + first.stdout[1:]


def test_entries_are_only_for_the_same(
    cache: Cache, lowered: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def times(factor: float, name: str = "times", size: int = 3) -> Program:
        return lw.trace(lambda x: x * factor, {"x": size}, name=name)

    def make(p: Program, dtype: str = "float64", number: int = 0) -> None:
        kernel = module.build_kernel(p, dtype, cache=cache)
        x = np.arange(p.inputs[0].size, dtype=dtype)
        factor = kernel(np.ones_like(x))[0]
        np.testing.assert_array_equal(kernel(x), x * factor)
        assert (len(lowered), len(files(cache))) == (number, number)

    make(times(2.0), number=1)
    make(times(2.0), number=1)
    make(times(3.0), number=2)
    make(times(2.0), "float32", number=3)
    make(times(2.0, "other"), number=4)
    make(times(2.0, size=4), number=5)
    with monkeypatch.context() as patch:
        patch.setattr(compiler, "source_digest", lambda: "another version of linkwork")
        make(times(2.0), number=6)
        make(times(2.0), number=6)
    key = Machine.key
    with monkeypatch.context() as patch:
        patch.setattr(Machine, "key", lambda machine: [*key(machine)[:3], "LLVM 99.0.0", key(machine)[4]])
        make(times(2.0), number=7)
    make(times(2.0), number=7)


def test_the_key_knows_the_machine() -> None:
    p = program()
    machine = host()
    keys = {
        compiler.kernel_key(p, m)
        for m in (
            machine,
            Machine(machine.triple, "other", machine.features),
            Machine(machine.triple, machine.cpu, machine.features + ",+more"),
            Machine("riscv64-unknown-linux-gnu", machine.cpu, machine.features),
        )
    }
    assert len(keys) == 4
    assert any("LLVM" in part for part in machine.key()) and any("llvmlite" in part for part in machine.key())


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "junk"])
def test_a_damaged_entry_is_made_anew(cache: Cache, lowered: list[str], damage: str) -> None:
    p = lw.trace(lambda x: x * 2.0, {"x": 3}, name="twice")
    module.build_kernel(p, cache=cache)
    (path,) = files(cache)
    data = path.read_bytes()
    middle = len(data) // 2
    path.write_bytes({
        "cut": data[:middle],
        "flip": data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :],
        "empty": b"",
        "junk": b"linkwork kernel\n" + os.urandom(len(data)),
    }[damage])  # fmt: skip
    for _ in range(2):
        assert module.build_kernel(p, cache=cache)([1, 2, 3]).tolist() == [2.0, 4.0, 6.0]
    assert lowered == ["twice"] * 2
    assert path.read_bytes()[: len(data) // 2] == data[: len(data) // 2]


def test_another_programs_entry_under_this_name_is_not_used(cache: Cache) -> None:
    two, three = (lw.trace(lambda x: x * f, {"x": 3}, name="times") for f in (2.0, 3.0))  # noqa: B023
    module.build_kernel(two, cache=cache)
    (path,) = files(cache)
    module.build_kernel(three, cache=cache)
    (other,) = set(files(cache)) - {path}
    path.write_bytes(other.read_bytes())
    assert module.build_kernel(two, cache=cache)([1, 2, 3]).tolist() == [2.0, 4.0, 6.0]


NONSENSE = {
    "no sizes": "del header['objects']",
    "no size": "del header['size']",
    "size is text": "header['size'] = 'x'",
    "sizes are text": "header['objects'] = 'abc'",
    "sizes are no list": "header['objects'] = None",
    "no objects": "header['objects'] = []",
    "half of the objects": "header['objects'] = header['objects'][:1]",
    "half of each object": "header['objects'] = [n // 2 for n in header['objects']]",
    "more than there is": "header['objects'][-1] += 100",
    "negative": "header['objects'] = [-5, 10]",
    "negative but adding up": "header['objects'] = [-5, len(blob) + 5]",
    "fractions": "header['objects'] = [1.5]",
    "zeros for code": "blob = bytes(len(blob))",
    "text for code": "blob, header['objects'] = b'hello world', [11]",
}


@pytest.mark.sweep(3)
@pytest.mark.parametrize("what", NONSENSE)
def test_an_entry_with_the_right_digest_that_makes_no_sense(tmp_path: Path, what: str) -> None:
    """As another version might leave it. In a process of its own, which LLVM may end."""
    done = run_python(
        f"""
        import os, sys
        import linkwork as lw
        from linkwork.compiler.runtime import compiler, kernel as module
        from linkwork.compiler.runtime.cache import Cache
        from linkwork.compiler.targets.cpu import host
        cache = Cache(os.environ["LINKWORK_CACHE"])
        program = lw.trace(lambda x: x * 2.0, {{"x": 3}}, name="twice")
        module.build_kernel(program, cache=cache)
        key = compiler.kernel_key(program, host())
        header, blob = cache.load(key)
        {NONSENSE[what]}
        assert cache.store(key, header, blob)
        for _ in range(2):
            print(module.build_kernel(program, cache=cache)([1, 2, 3]))
        """,
        LINKWORK_CACHE=str(tmp_path / "cache"),
    )
    clean(done, "[2. 4. 6.]\n" * 2)


@pytest.mark.slow
def test_many_processes_start_at_once(tmp_path: Path) -> None:
    code = STEEP + textwrap.dedent("""
        import numpy as np, linkwork as lw
        kernel = lw.compile(steep, {"x": 4}, wait=True)
        small = lw.compile(lambda x: x * 2.0, {"x": 2})
        print(kernel(np.ones(4)).tobytes().hex(), small([1, 2]))
    """)
    env = {**os.environ, "PYTHONPATH": SOURCE, "LINKWORK_CACHE": str(tmp_path / "cache")}
    pipe = subprocess.PIPE
    processes = [
        subprocess.Popen([sys.executable, "-c", code], env=env, stdout=pipe, stderr=pipe, text=True)
        for _ in range(16)
    ]
    found = [(*process.communicate(timeout=PATIENCE), process.returncode) for process in processes]
    assert len(set(found)) == 1 and found[0][1:] == ("", 0), set(found)
    assert "[2. 4.]" in found[0][0]
    cache = Cache(tmp_path / "cache")
    assert cache.verify() == [] and len(files(cache)) == 2


def test_a_read_only_cache_is_read_and_not_written(cache: Cache, lowered: list[str]) -> None:
    two, three = (lw.trace(lambda x: x * f, {"x": 3}, name="times") for f in (2.0, 3.0))  # noqa: B023
    module.build_kernel(two, cache=cache)
    before = files(cache)
    reader = Cache(cache.folder, read_only=True)
    assert module.build_kernel(two, cache=reader)([1, 2, 3]).tolist() == [2.0, 4.0, 6.0]
    assert len(lowered) == 1
    assert module.build_kernel(three, cache=reader)([1, 2, 3]).tolist() == [3.0, 6.0, 9.0]
    assert files(cache) == before and len(reader.notes) == 1


@pytest.mark.parametrize("kind", ["file", "below a file", "open to all", "no rights", "off", "ro"])
def test_folders_that_cannot_be_used(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "cache"
    text = {"off": "off", "ro": f"ro:{folder}", "below a file": str(folder / "deeper")}.get(kind, str(folder))
    if "file" in kind:
        folder.write_text("mine")
    elif kind == "open to all":
        folder.mkdir()
        folder.chmod(0o777)
    elif kind == "no rights":
        folder.mkdir()
        folder.chmod(0o000)
    done = run_python(
        """
        import linkwork as lw
        kernel = lw.compile(lambda x: x * 2.0, {"x": 2})
        print(kernel.tier, kernel([1, 2]))
        """,
        LINKWORK_CACHE=text,
    )
    if folder.is_dir():
        folder.chmod(0o700)
        root = kind == "no rights" and os.geteuid() == 0  # nothing is forbidden to root
        assert root or list(folder.iterdir()) == []
    clean(done, "2 [2. 4.]\n")
