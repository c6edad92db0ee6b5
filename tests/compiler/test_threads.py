"""Large batches on several threads: the same bits, no rows lost whatever happens, and the interpreter free
meanwhile.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import multiprocessing
import operator
import os
import signal
import sys
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import linkwork as lw
from linkwork.compiler.runtime import threads as module
from processes import run_python
from waiting import PATIENCE

pytestmark = pytest.mark.background

SOURCE = str(Path(lw.__file__).parents[1])
ROWS = 90_003  # more than the work for which threads are called in


def wave(x: Any, s: Any) -> Any:
    return lw.sin(x) * s + lw.exp(lw.cos(x[::-1])) / (lw.sqrt(x[0] * x[0] + 1.0))


@pytest.fixture(scope="module")
def kernel() -> Any:
    kernel = lw.compile(wave, inputs={"x": 4, "s": ()}, wait=True)
    assert kernel._data[2] < ROWS // 3
    return kernel


@pytest.fixture(scope="module")
def states() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(ROWS, 4))


@pytest.fixture(scope="module")
def expected(kernel: Any, states: np.ndarray) -> bytes:
    """In parts too small for any sharing."""
    step = kernel._data[2] // 2
    return b"".join(kernel.ufunc(states[k : k + step], 2.0).tobytes() for k in range(0, ROWS, step))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many helpers each shared call asked the pool for."""
    numbers: list[int] = []
    submit = module._Pool.submit

    def spy(pool: Any, jobs: Any) -> None:
        if jobs:
            numbers.append(len(jobs))
        submit(pool, jobs)

    monkeypatch.setattr(module._Pool, "submit", spy)
    return numbers


@pytest.fixture
def ignored(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Exceptions that Python could only print."""
    found: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda u: found.append(type(u.exc_value)))
    return found


# the same bits


@pytest.mark.parametrize("threads", [1, 2, 3, 5, np.int64(2), np.uint8(4)])
def test_any_number_of_threads_gives_the_same_bits(
    kernel: Any, states: np.ndarray, expected: bytes, asked: list[int], threads: Any
) -> None:
    assert kernel(states, 2.0, threads=threads).tobytes() == expected
    assert asked == ([int(threads) - 1] if int(threads) > 1 else [])


@pytest.mark.parametrize("rows", [0, 1, 17, ROWS - 1, ROWS - 2, ROWS - 7, ROWS // 2 + 1])
def test_any_number_of_rows(kernel: Any, states: np.ndarray, expected: bytes, rows: int) -> None:
    for threads in (2, 3):
        assert kernel(states[:rows], 2.0, threads=threads).tobytes() == expected[: 32 * rows]


def test_any_layout(kernel: Any, states: np.ndarray, expected: bytes) -> None:
    flipped = np.asfortranarray(states)[::-1]
    out = np.full((4, ROWS), np.nan).T[::-1]
    assert kernel(flipped, np.full(ROWS, 2.0), out=out, threads=3) is out
    assert out[::-1].tobytes() == expected
    narrow = np.zeros((ROWS, 4), np.float32)
    kernel(states, 2.0, out=narrow, threads=3)
    assert narrow.tobytes() == np.frombuffer(expected).astype(np.float32).tobytes()


def test_several_outer_dimensions(kernel: Any, states: np.ndarray, expected: bytes) -> None:
    s = np.full((3, 1), 2.0)
    found = kernel(states, s, threads=3)
    assert [found[k].tobytes() for k in range(3)] == [expected] * 3


def test_small_batches_need_no_threads(kernel: Any, states: np.ndarray, asked: list[int]) -> None:
    few = kernel._data[2] - 1
    kernel(states[:few], 2.0, threads=4)
    assert asked == []
    kernel(states[: few + 1], 2.0, threads=4)
    assert asked == [3]


def test_threads_are_for_one_call_of_one_thread(kernel: Any, states: np.ndarray, asked: list[int]) -> None:
    kernel(states, 2.0, threads=3)
    with pytest.raises(lw.ShapeError):
        kernel(states[:, :3], 2.0, threads=3)
    with module.using_threads(2):
        kernel(states, 2.0)
        kernel(states, 2.0, threads=4)
        kernel(states, 2.0)
        other = threading.Thread(target=lambda: asked.append(-module._threads()))
        other.start()
        other.join()
    assert asked == [2, 1, 3, 1, -module.default_threads()]


def test_many_python_threads_at_once(kernel: Any, states: np.ndarray, expected: bytes) -> None:
    def work(number: int) -> list[bool]:
        return [kernel(states, 2.0, threads=1 + (number + k) % 4).tobytes() == expected for k in range(6)]

    with ThreadPoolExecutor(4) as pool:
        assert all(itertools.chain(*pool.map(work, range(4))))


# the number from outside


def test_the_environment_says_how_many() -> None:
    code = """
        import numpy as np, linkwork as lw
        from linkwork.compiler.runtime import threads
        asked, submit = [], threads._Pool.submit
        threads._Pool.submit = lambda pool, jobs: jobs and asked.append(len(jobs)) or submit(pool, jobs)
        kernel = lw.compile(lambda x: lw.sin(x), {"x": 4})
        x = np.ones((2 * kernel._data[2], 4))
        kernel(x)
        kernel(x, threads=2)
        print(threads.default_threads(), asked)
    """
    for text, words in (("1", "1 [1]"), ("3", "3 [2, 1]"), (" 2 ", "2 [1, 1]")):
        done = run_python(code, LINKWORK_THREADS=text)
        assert (done.returncode, done.stdout.strip(), done.stderr) == (0, words, "")


def test_a_wrong_number_in_the_environment_is_found_when_a_kernel_is_made() -> None:
    done = run_python("""
        import os, linkwork as lw
        for text in ("0", "-2", "x", "1.5", "two"):
            os.environ["LINKWORK_THREADS"] = text
            try:
                lw.compile(lambda x: x * 2.0, {"x": 2})
            except lw.LinkworkError as error:
                print(error)
        os.environ["LINKWORK_THREADS"] = ""
        print(lw.compile(lambda x: x * 2.0, {"x": 2})([1.0, 2.0]))
    """)
    wanted = [
        f"LINKWORK_THREADS: expected an integer >= 1, got {t!r}" for t in ("0", "-2", "x", "1.5", "two")
    ]
    assert (done.returncode, done.stdout.splitlines(), done.stderr) == (0, [*wanted, "[2. 4.]"], "")


def test_the_default_is_the_cores_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_requested_threads", lambda: None)
    if hasattr(os, "sched_getaffinity"):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: {1, 4, 7})
        assert module.default_threads() == 3
        monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert module.default_threads() == 6
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert module.default_threads() == 1


# when something goes wrong


@pytest.mark.parametrize("good", [0, 1, 2])
def test_threads_that_cannot_start(
    kernel: Any,
    states: np.ndarray,
    expected: bytes,
    monkeypatch: pytest.MonkeyPatch,
    ignored: list[Any],
    good: int,
) -> None:
    start = module._thread.start_new_thread
    started = []

    def limited(*args: Any) -> Any:
        if len(started) == good:
            raise RuntimeError("can't start new thread")
        started.append(start(*args))
        return started[-1]

    monkeypatch.setattr(module, "_pool", module._Pool())
    with monkeypatch.context() as patch:
        patch.setattr(module._thread, "start_new_thread", limited)
        for _ in range(5):
            assert kernel(states, 2.0, threads=4).tobytes() == expected
    assert len(started) == good and ignored == []
    assert module._pool._jobs.qsize() == 0 or good


def test_helpers_that_never_come_are_not_waited_for(
    kernel: Any, states: np.ndarray, expected: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = threading.Event()
    out = np.full((ROWS, 4), np.nan)
    pool = module._Pool()
    monkeypatch.setattr(module, "_pool", pool)
    pool.submit([gate.wait, gate.wait])
    while pool._jobs.qsize():
        pass
    kernel(states, 2.0, out=out, threads=3)
    assert out.tobytes() == expected and pool._jobs.qsize() == 2
    out[...] = 0.0
    gate.set()
    while pool._jobs.qsize():
        pass
    kernel(states, 2.0, threads=3)
    assert not out.any()  # who comes late finds nothing to do


PLACES = [
    (module.BatchSplitter, "_plan"), (module._Batch, "call_helpers"), (module._Batch, "finish"), (module._Batch, "_drain"),
    (module._Pool, "submit"), (module, "_threads"), (module, "_run_of"),
]  # fmt: skip


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, lw.LinkworkError])
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(("owner", "name"), PLACES, ids=[name for _, name in PLACES])
def test_an_exception_in_the_callback_loses_no_row(
    monkeypatch: pytest.MonkeyPatch,
    ignored: list[Any],
    owner: Any,
    name: str,
    after: bool,
    error: type[BaseException],
) -> None:
    """As a Ctrl-C does it, in the calling thread only."""
    add = lw.compile(lambda x: x + lw.sin(x) * 1e-300, inputs={"x": 4})
    rows = 2 * add._data[2] + 3
    x = np.random.default_rng(1).normal(size=(rows, 4))
    expected = add(x, threads=1).tobytes()
    caller, original, left = threading.get_ident(), getattr(owner, name), [2]

    def broken(*args: Any) -> Any:
        strike = threading.get_ident() == caller and left[0] > 0
        left[0] -= strike
        if strike and not after:
            raise error
        result = original(*args)
        if strike:
            raise error
        return result

    monkeypatch.setattr(owner, name, broken)
    out = np.full((rows, 4), np.nan)
    with pytest.raises(error):
        add(x, out=out, threads=3)
    assert out.tobytes() == expected
    assert ignored == [] and left[0] < 2


def test_rows_are_done_once(monkeypatch: pytest.MonkeyPatch, ignored: list[Any]) -> None:
    """A Ctrl-C after the caller's own part: doing it again would show, since here out is the input."""
    add = lw.compile(lambda x: x + lw.sin(x) * 0.0 + 1.0, inputs={"x": ()})
    x = np.zeros(3 * add._data[2])
    drain, caller, left = module._Batch._drain, threading.get_ident(), [3]

    def interrupted(batch: Any) -> None:
        drain(batch)
        if threading.get_ident() == caller and left[0]:
            left[0] -= 1
            raise KeyboardInterrupt

    monkeypatch.setattr(module._Batch, "_drain", interrupted)
    with pytest.raises(KeyboardInterrupt):
        add(x, out=x, threads=2)
    assert np.all(x == 1.0)
    assert ignored == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="POSIX signals")
def test_real_interrupts() -> None:
    """Signals whose handler raises, at any place of a shared call: all rows are done or none, and the caller
    learns of it.
    """
    done = run_python("""
        import signal, sys, numpy as np, linkwork as lw

        def interrupt(*_):
            raise KeyboardInterrupt

        signal.signal(signal.SIGALRM, interrupt)
        kernel = lw.compile(lambda x: lw.sin(lw.exp(lw.sin(x))), {"x": 6}, wait=True)
        x = np.random.default_rng(0).normal(size=(150_000, 6))
        expected, out, interrupts = kernel(x, threads=1), np.empty_like(x), 0
        for k in range(40):
            out[...] = np.nan
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.001 + 0.0005 * (k % 10))
                kernel(x, out=out, threads=2 + k % 3)
                signal.setitimer(signal.ITIMER_REAL, 0.0)
            except KeyboardInterrupt:
                interrupts += 1
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            if not np.array_equal(out, expected) and not np.isnan(out).all():
                sys.exit(f"wrong in round {k}")
        print(interrupts > 0)
    """)
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")


def test_an_interrupt_reaches_the_caller(
    kernel: Any, states: np.ndarray, monkeypatch: pytest.MonkeyPatch, ignored: list[Any]
) -> None:
    call_helpers = module._Batch.call_helpers
    left = [1]

    def interrupted(batch: Any) -> None:
        if left[0]:
            left[0] = 0
            raise KeyboardInterrupt
        call_helpers(batch)

    monkeypatch.setattr(module._Batch, "call_helpers", interrupted)
    with pytest.raises(KeyboardInterrupt):
        kernel(states, 2.0, threads=2)


@pytest.mark.skipif(
    sys.version_info < (3, 11) or not hasattr(os, "fork"), reason="operator.call, POSIX signals"
)
@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_on_entry_loses_no_row(
    kernel: Any, states: np.ndarray, expected: bytes, ignored: list[Any]
) -> None:
    """A Ctrl-C before the callback, while NumPy copies say, is raised at its first line, before any `try`."""
    outs = [np.full((ROWS, 4), np.nan) for _ in range(12)]
    calls: list[Any] = []
    for k, out in enumerate(outs):
        calls += [ctypes.pythonapi.PyErr_SetInterrupt] * (k == 3) + [
            functools.partial(kernel.ufunc, states, 2.0, out=out)
        ]
    with (
        module.using_threads(2),
        pytest.raises(KeyboardInterrupt),
    ):  # until the last callback, no line of Python runs
        deque(map(operator.call, calls), maxlen=0)
    assert ignored == []
    assert [out.tobytes() == expected for out in outs] == [True] * 12


@pytest.mark.skipif(not hasattr(os, "fork"), reason="POSIX signals")
@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_between_two_callbacks_loses_no_row(
    kernel: Any, states: np.ndarray, expected: bytes, monkeypatch: pytest.MonkeyPatch, ignored: list[Any]
) -> None:
    """As before, in a call with an outer dimension: here a failed callback returns what the one before it
    returned.
    """
    finish = module._Batch.finish
    interrupts = []
    last = type(
        "Last", (), {"__del__": ctypes.pythonapi.PyErr_SetInterrupt}
    )  # no line of Python runs when it goes

    def finish_and_interrupt(batch: Any) -> None:
        finish(batch)
        if not interrupts:
            interrupts.append(True)
            batch.last = last()

    monkeypatch.setattr(module._Batch, "finish", finish_and_interrupt)
    out = np.full((4, ROWS, 4), np.nan)
    with pytest.raises(KeyboardInterrupt):
        kernel(
            states, np.full((4, 1), 2.0), out=out, threads=1
        )  # helpers would keep the batch alive for longer
    assert interrupts and not ignored
    assert [part.tobytes() == expected for part in out] == [True] * 4


class TooLateError(ValueError):
    """As users write them: not made of nothing, and of a class that refused calls raise, too."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"more than {seconds} s")
        self.seconds = seconds


@pytest.fixture
def alarm() -> Any:
    """A signal that raises when it is handled, and what lets it come in the middle of C code."""

    def strike(*_: Any) -> None:
        raise TooLateError(0.25)

    before = signal.signal(signal.SIGALRM, strike)
    yield functools.partial(ctypes.pythonapi.PyErr_SetInterruptEx, signal.SIGALRM)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="POSIX signals")
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("place", ["_plan", "call_helpers", "finish", "_drain"])
def test_an_exception_of_a_signals_handler_reaches_the_caller(
    kernel: Any,
    states: np.ndarray,
    expected: bytes,
    monkeypatch: pytest.MonkeyPatch,
    ignored: list[Any],
    alarm: Any,
    place: str,
    threads: int,
) -> None:
    owner = module.BatchSplitter if place == "_plan" else module._Batch
    caller = threading.get_ident()
    left = [1]
    original = getattr(owner, place)

    def struck(*args: Any) -> Any:
        result = original(*args)
        if threading.get_ident() == caller and left[0]:
            left[0] = 0
            alarm()
        return result

    monkeypatch.setattr(owner, place, struck)
    out = np.full((ROWS, 4), np.nan)
    with pytest.raises(TooLateError, match="more than 0.25 s") as found:
        kernel(states, 2.0, out=out, threads=threads)
    assert found.value.seconds == 0.25 and not left[0]
    assert out.tobytes() == expected and ignored == []


@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="POSIX signals")
def test_a_signal_while_numpy_makes_ready_reaches_the_caller(
    kernel: Any, states: np.ndarray, expected: bytes, ignored: list[Any], alarm: Any
) -> None:
    """It is handled at the first line of the callback, and raised when the call is over."""

    class Struck(np.ndarray):
        def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any, **_: Any) -> Any:
            call = functools.partial(ufunc, self.view(np.ndarray), *inputs[1:], out=out[0].view(np.ndarray))
            return deque(map(operator.call, [alarm, call]), maxlen=0)  # no line of Python between the two

    out = np.full((ROWS, 4), np.nan)
    with pytest.raises(TooLateError, match="more than"):
        kernel(states.view(Struck), 2.0, out=out)
    assert out.tobytes() == expected and ignored == []


@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="POSIX signals")
@pytest.mark.parametrize("threads", [None, 1, 2])
def test_deadlines(threads: int | None) -> None:
    """Real alarms in batches of a function of a model, of whatever class their exception is."""
    done = run_python(f"""
        import signal, sys, numpy as np, linkwork as lw

        class Late(Exception):
            pass

        def late(*_):
            raise kinds[count % len(kinds)](count)

        kinds, count = [Late, TimeoutError, ValueError, KeyError, TypeError, SystemExit], 0
        arm = lw.robots.arm()
        q = np.random.default_rng(0).normal(size=(60_000, arm.nq))
        how = {{"threads": {threads}}}
        wanted = lw.inverse_dynamics(arm, q, q, q)
        signal.signal(signal.SIGALRM, late)
        while count < 24:
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.0004 + 0.0003 * (count % 7))
                while True:
                    lw.inverse_dynamics(arm, q, q, q, **how)
            except tuple(kinds) as error:
                assert type(error) is kinds[count % len(kinds)] and error.args == (count,), error
            count += 1
        print(np.array_equal(lw.inverse_dynamics(arm, q, q, q, **how), wanted))
    """)
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")


def test_an_exception_in_another_thread_stays_there(
    kernel: Any, states: np.ndarray, monkeypatch: pytest.MonkeyPatch, ignored: list[Any]
) -> None:
    found: list[Any] = []

    def work() -> None:
        def broken(*_: Any) -> Any:
            if threading.get_ident() == me:
                raise TimeoutError
            return plan(*_)

        plan, me = module.BatchSplitter._plan, threading.get_ident()
        monkeypatch.setattr(module.BatchSplitter, "_plan", broken)
        try:
            kernel(states, 2.0)
        except BaseException as error:
            found.append(type(error))

    worker = threading.Thread(target=work)
    worker.start()
    worker.join()
    assert found == [TimeoutError] and ignored == []


# more threads than are of use


def test_the_pool_is_bounded(kernel: Any, states: np.ndarray, expected: bytes, asked: list[int]) -> None:
    started = threading.active_count(), module._pool._size
    assert (
        kernel(states, 2.0, threads=2000).tobytes()
        == kernel(states, 2.0, threads=999999999999).tobytes()
        == expected
    )
    most = max(32, os.cpu_count() or 1)
    assert max(asked) < most and module._pool._size < max(most, started[1] + 1)


# forks, the lock, the end


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_process_shares_its_batches_too(
    kernel: Any, states: np.ndarray, expected: bytes, asked: list[int]
) -> None:
    assert kernel(states, 2.0, threads=3).tobytes() == expected
    asked.clear()
    pool = module._pool

    def child(pipe: Any) -> None:
        assert module._pool is not pool  # its threads stayed behind
        found = [kernel(states, 2.0, threads=t).tobytes() == expected for t in (3, 1, 4, 2)]
        pipe.send((found, asked, kernel.bind(states[:9], np.array(2.0))().tobytes() == expected[: 9 * 32]))

    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    process = context.Process(target=child, args=(theirs,))
    process.start()
    try:
        assert ours.poll(PATIENCE), "the child hangs"
        assert ours.recv() == ([True] * 4, [2, 3, 1], True)
    finally:
        process.kill()
        process.join()
    assert kernel(states, 2.0, threads=3).tobytes() == expected


@pytest.mark.parametrize("threads", [1, 2])
def test_calls_leave_the_interpreter_to_others(threads: int) -> None:
    """Another Python thread sees a batch half done, which it cannot if the call holds the lock."""
    kernel = lw.compile(lambda x: lw.sin(lw.exp(lw.sin(x))) + 0.5, inputs={"x": 6})
    x = np.ones((300_000, 6))
    out = np.empty_like(x)
    seen = []
    stop = threading.Event()

    def watch() -> None:
        while not stop.is_set():
            if not np.isnan(out[0, 0]) and np.isnan(out[-1, 0]):
                seen.append(True)
                return

    out[...] = np.nan
    watcher = threading.Thread(target=watch)
    watcher.start()
    for _ in range(2000):
        out[...] = np.nan  # from the front: this alone never looks half done
        kernel(x, out=out, threads=threads)
        if seen:
            break
    stop.set()
    watcher.join()
    assert seen


@pytest.mark.skipif(not hasattr(os, "fork"), reason="POSIX signals")
def test_an_interrupt_while_threads_start_does_no_harm() -> None:
    """Neither to the call nor to the end of the process."""
    done = run_python("""
        import signal, sys, numpy as np, linkwork as lw

        def interrupt(*_):
            raise KeyboardInterrupt

        kernel = lw.compile(lambda x: lw.sin(x), {"x": 4})
        x = np.random.default_rng(0).normal(size=(2 * kernel._data[2], 4))
        expected, out = kernel(x, threads=1), np.empty_like(x)
        kernel(x, threads=2)
        signal.signal(signal.SIGALRM, interrupt)
        for k in range(20):
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.00015 + 0.00001 * k)
                kernel(x, out=out, threads=3 + k)
                signal.setitimer(signal.ITIMER_REAL, 0.0)
            except KeyboardInterrupt:
                pass
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        print(np.array_equal(kernel(x, threads=9), expected))
    """)
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")


def test_the_interpreter_ends_cleanly_after_a_shared_batch() -> None:
    done = run_python("""
        import atexit, numpy as np, linkwork as lw
        kernel = lw.compile(lambda x: lw.sin(x), {"x": 4})
        x = np.ones((3 * kernel._data[2], 4))
        kernel(x, threads=4)
        atexit.register(lambda: print(np.all(kernel(x, threads=4) == kernel(x[0]))))
    """)
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")
