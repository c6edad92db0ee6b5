"""Start of the CUDA driver in parallel with the imports that a first kernel needs.

The driver and the context of a GPU take about 0.2 s to start, most of it outside of Python: in a thread of
its own this adds no time to loading a kernel from the cache.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
from functools import cache

DRIVER = "nvcuda.dll" if os.name == "nt" else "libcuda.so.1"
NOT_INITIALIZED = 3  # CUDA_ERROR_NOT_INITIALIZED


@cache
def start_driver() -> None:
    """Start the driver and the first GPU's context in a thread, unless this process has started them.

    Failures are ignored here: code that needs the driver calls it again, waits for this start, and reports
    errors.
    """
    # not a daemon: a script that ends early waits for it instead of stopping the driver while it starts
    threading.Thread(target=start, name="linkwork: start of CUDA").start()


def start() -> None:
    """Start the driver and the first GPU's context in this thread."""
    with contextlib.suppress(OSError, AttributeError):  # no driver, or an unknown one
        cuda = ctypes.CDLL(DRIVER)
        number = ctypes.c_int()
        context = ctypes.c_void_p()
        if cuda.cuDeviceGetCount(ctypes.byref(number)) != NOT_INITIALIZED:
            # already started, perhaps for another GPU: a context of the first one would waste its memory
            return
        if cuda.cuInit(0) == 0 and cuda.cuDeviceGet(ctypes.byref(number), 0) == 0:
            cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), number)
