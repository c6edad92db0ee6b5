"""The program of a worker process: `python -m linkwork.studies.executors.worker`, started by `processes`."""

from __future__ import annotations

import os
import pickle
import signal
import sys
import warnings
from typing import Any

from linkwork.errors import StudyError


def main() -> None:
    """Answer requests until standard input ends. What user functions print goes to standard error."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the driver decides
    requests = sys.stdin.buffer
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    from linkwork.studies.chunks import compute_chunk
    from linkwork.studies.executors.processes import receive, send

    hello = receive(requests)
    if hello is None:
        return
    setup = pickle.loads(hello)
    sys.path[:] = setup["path"]
    warnings.simplefilter("ignore")  # the driver has warned
    try:
        study = pickle.loads(setup["study"])
        failure = None
    except Exception as error:
        study = None
        failure = f"study: cannot be read in another process ({type(error).__name__}: {error})"
    while (request := receive(requests)) is not None:
        try:
            if failure is not None:
                raise StudyError(failure)
            first, last = pickle.loads(request)
            answer: tuple[str, Any] = (
                "result",
                tuple(compute_chunk(study, first, last, setup["keep_files"])),
            )
        except StudyError as error:
            answer = ("study", str(error))
        except Exception as error:
            answer = ("error", f"study: {type(error).__name__}: {error}")
        try:
            send(answers, pickle.dumps(answer, protocol=5))
        except BrokenPipeError:
            return


if __name__ == "__main__":
    main()
