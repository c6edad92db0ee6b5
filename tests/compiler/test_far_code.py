"""Machine code whose parts lie far apart in memory, as they do where a GPU's driver has taken most of the
address space.
"""

import subprocess
import sys

import pytest

from waiting import PATIENCE

PROGRAM = """
import ctypes
import llvmlite.binding as llvm
import numpy as np
from linkwork.compiler.ir.trace import trace
from linkwork.compiler.passes import Arrangement, lower
from linkwork.compiler.passes.cut import Cutting
from linkwork.compiler.ir.interpret import interpret
from linkwork.compiler.runtime.compiler import compile_objects, load_code
from linkwork.compiler.runtime.native import LoopFunction
from linkwork.compiler.targets.cpu import host

map_memory = ctypes.CDLL(None).mmap
map_memory.restype = ctypes.c_void_p
map_memory.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
NOWHERE = 0x22 | 0x4000 | 0x100000  # private, anonymous, no memory behind it, and only where nothing is

def take_gaps(reach=3 << 30):
    places = [[int(x, 16) for x in line.split()[0].split("-")] for line in open("/proc/self/maps")]
    for (_, end), (start, _) in zip(places, places[1:]):
        if end < start < 1 << 47:
            first = end if start - end <= 2 * reach else start - reach
            map_memory(first, start - first, 0, NOWHERE, -1, 0)

add = llvm.ExecutionEngine.add_object_file

def add_far(engine, data):
    add(engine, data)
    take_gaps()

llvm.ExecutionEngine.add_object_file = add_far

def body(x):
    for k in range(40):
        x = 0.5 * x + np.roll(x, 1) * (0.3 + 0.01 * k)
    return {"y": x}

program = lower(trace(body, {"x": (4,)}), arranged=Arrangement(None, Cutting(max_uncut=50, part_size=50)))
assert len(program.parts) > 3
objects = compile_objects(program, host(), level=1, lanes=host().lanes("float64"))
code = load_code(objects, ["run"])
x, y = np.linspace(0.0, 1.0, 40).reshape(10, 4), np.empty((10, 4))
pointers = np.array([x.ctypes.data, y.ctypes.data])
sizes, steps = np.array([10, 4, 4]), np.array([32, 32, 8, 8])
LoopFunction(code.address["run"])(pointers.ctypes.data, sizes.ctypes.data, steps.ctypes.data, None)
assert y.tobytes() == np.array(interpret(program, x)).tobytes()
print("far", len(objects))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks Linux for its map of memory")
def test_parts_of_a_kernel_may_lie_far_apart():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("far")
