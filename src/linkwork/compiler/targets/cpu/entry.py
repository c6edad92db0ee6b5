"""Entry functions of kernels, as LLVM text: `loop`, which NumPy calls, and `bound` (see `module`).

They do not depend on the program: their module is compiled once and is a part of every kernel.
"""

from __future__ import annotations

from functools import cache

from linkwork.compiler.targets.cpu.direct import NDARRAY_DATA
from linkwork.compiler.targets.cpu.machine import COMMON
from linkwork.compiler.targets.cpu.share import share_text

# Declarations, save and restore of the floating-point exception flags, by architecture
_FLAGS = {
    "x86_64": (
        "declare void @llvm.x86.sse.stmxcsr(ptr)\ndeclare void @llvm.x86.sse.ldmxcsr(ptr)",
        "%flags = alloca i32\ncall void @llvm.x86.sse.stmxcsr(ptr %flags)",
        "call void @llvm.x86.sse.ldmxcsr(ptr %flags)",
    ),
    "aarch64": (
        "declare i64 @llvm.aarch64.get.fpsr()\ndeclare void @llvm.aarch64.set.fpsr(i64)",
        "%flags = call i64 @llvm.aarch64.get.fpsr()",
        "call void @llvm.aarch64.set.fpsr(i64 %flags)",
    ),
}
_FLAGS["arm64"] = _FLAGS["aarch64"]


@cache
def entry_text(triple: str) -> str:
    """Return the module of `loop` and `bound`, which is common to all kernels.

    Rows with invalid numbers and branches not taken raise floating-point exceptions, of which NumPy would
    warn; the results show them, so the flags are restored.
    """
    declare, save, restore = _FLAGS.get(triple.partition("-")[0], ("", "", ""))
    return f"""{COMMON}
{declare}
declare ptr @malloc(i64) nonlazybind
declare void @free(ptr) nonlazybind
{share_text(triple)}
define void @loop(ptr %args, ptr %dims, ptr %steps, ptr %data) #0 {{
{save}
%n = load i64, ptr %dims
%limitp = getelementptr i64, ptr %data, i64 2
%limit = load i64, ptr %limitp
%large = icmp uge i64 %n, %limit
br i1 %large, label %many, label %alone
many:
%done = call i32 @share(ptr %args, ptr %dims, ptr %steps, ptr %data)
%all = icmp eq i32 %done, 1
br i1 %all, label %end, label %alone
alone:
%f = load atomic ptr, ptr %data acquire, align 8
call void %f(ptr %args, ptr %dims, ptr %steps, ptr %data)
br label %end
end:
{restore}
ret void
}}
define ptr @bound(ptr %self, ptr %unused) #0 {{
%tablep = getelementptr i8, ptr %self, i64 {NDARRAY_DATA}
%table = load ptr, ptr %tablep
%p1 = getelementptr ptr, ptr %table, i64 1
%p2 = getelementptr ptr, ptr %table, i64 2
%p3 = getelementptr ptr, ptr %table, i64 3
%p4 = getelementptr ptr, ptr %table, i64 4
%p5 = getelementptr ptr, ptr %table, i64 5
%result = load ptr, ptr %table
%incref = load ptr, ptr %p1
%args = load ptr, ptr %p2
%dims = load ptr, ptr %p3
%steps = load ptr, ptr %p4
%data = load ptr, ptr %p5
%f = load atomic ptr, ptr %data acquire, align 8
call void %f(ptr %args, ptr %dims, ptr %steps, ptr %data)
call void %incref(ptr %result)
ret ptr %result
}}
attributes #0 = {{ nounwind }}
"""
