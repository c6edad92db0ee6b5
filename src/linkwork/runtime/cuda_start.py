"""The start of the CUDA driver, beside the imports that a first kernel needs.

The driver and the context of a GPU take about 0.2 s to start, most of it outside of Python: in a thread of its own it costs a
kernel from the cache no time besides.
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
    """Start the driver and the first GPU's context, unless somebody in this process has; returns at once.

    Nothing is said of failures: whoever needs the driver asks it again, waits for this start, and says what is wrong.
    """
    # no daemon: a script that ends at once waits for it, rather than take the driver down while it starts
    threading.Thread(target=start, name="linkwork: start of CUDA").start()


def start() -> None:
    """The same, here and now."""
    with contextlib.suppress(OSError, AttributeError):  # there is no driver, or none that is known here
        cuda = ctypes.CDLL(DRIVER)
        number, context = ctypes.c_int(), ctypes.c_void_p()
        if cuda.cuDeviceGetCount(ctypes.byref(number)) != NOT_INITIALIZED:
            return  # who started it may use another GPU: a context of the first one would take its memory for nothing
        if cuda.cuInit(0) == 0 and cuda.cuDeviceGet(ctypes.byref(number), 0) == 0:
            cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), number)
