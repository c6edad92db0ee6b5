"""Call from compiled code into Python to split a batch among threads, as LLVM text.

NumPy calls the loop with the interpreter lock released, and checks for no exception afterwards. So `share`
takes the lock, calls the Python function with the addresses (args, dims, steps, data, status), and stores its
exception until the call is over: in the main thread, where signals are handled, Python raises the same
exception as its next step; in any other thread an exception of the same class, raised asynchronously. The
function leaves 1 in `status` when all rows are done; `share` returns that. Word [3] of the kernel's data
points to the words named in WORDS.
"""

from __future__ import annotations

FUNCTIONS = (
    "PyGILState_Ensure", "PyGILState_Release", "PyObject_CallFunction", "Py_DecRef", "PyErr_Fetch",
    "PyErr_Restore",
    "PyErr_WriteUnraisable", "Py_AddPendingCall", "PyThreadState_SetAsyncExc", "PyThread_get_thread_ident",
)  # fmt: skip
WORDS = (*FUNCTIONS, "main")  # the last is the identifier of the main thread


def share_text(triple: str) -> str:
    """Return `share` and its helper functions."""
    number = "i32" if "windows" in triple else "i64"  # C's long, in which threads are counted
    return f"\n{_share()}{_later(number)}{_RAISE}"


def _share() -> str:
    """Return the function that calls Python to split a batch."""
    parameters = ", ".join(f"i64 %{name}.i" for name in ("args", "dims", "steps", "data", "status"))
    addresses = "\n".join(
        f"%{name}.i = ptrtoint ptr %{name} to i64" for name in ("args", "dims", "steps", "data", "status")
    )
    return f"""\
@share.format = private constant [6 x i8] c"LLLLL\\00"
define internal i32 @share(ptr %args, ptr %dims, ptr %steps, ptr %data) #0 {{
%status = alloca i32
store i32 0, ptr %status
%functionp = getelementptr ptr, ptr %data, i64 1
%function = load ptr, ptr %functionp
%tablep = getelementptr ptr, ptr %data, i64 3
%table = load ptr, ptr %tablep
{_load("PyGILState_Ensure", "PyGILState_Release", "PyObject_CallFunction", "Py_DecRef")}
{addresses}
%lock = call i32 %PyGILState_Ensure()
%result = call ptr (ptr, ptr, ...) %PyObject_CallFunction(ptr %function, ptr @share.format, {parameters})
%raised = icmp eq ptr %result, null
br i1 %raised, label %bad, label %good
bad:
call void @share.later(ptr %table)
br label %over
good:
call void %Py_DecRef(ptr %result)
br label %over
over:
call void %PyGILState_Release(i32 %lock)
%done = load i32, ptr %status
ret i32 %done
}}
"""


def _later(number: str) -> str:
    """Return the function that keeps an exception of Python until the call is over."""
    return f"""\
define internal void @share.later(ptr %table) #0 {{
{_load("Py_DecRef", "PyErr_Fetch", "PyErr_Restore", "PyErr_WriteUnraisable")}
{_load("Py_AddPendingCall", "PyThreadState_SetAsyncExc", "PyThread_get_thread_ident")}
%mainp = getelementptr i64, ptr %table, i64 {WORDS.index("main")}
%main = load {number}, ptr %mainp
%typep = alloca ptr
%valuep = alloca ptr
%tracep = alloca ptr
call void %PyErr_Fetch(ptr %typep, ptr %valuep, ptr %tracep)
%type = load ptr, ptr %typep
%value = load ptr, ptr %valuep
%trace = load ptr, ptr %tracep
%here = call {number} %PyThread_get_thread_ident()
%first = icmp eq {number} %here, %main
br i1 %first, label %keep, label %other
keep:
%kept = call ptr @malloc(i64 32)
%poor = icmp eq ptr %kept, null
br i1 %poor, label %lost, label %fill
fill:
%kept1 = getelementptr ptr, ptr %kept, i64 1
%kept2 = getelementptr ptr, ptr %kept, i64 2
%kept3 = getelementptr ptr, ptr %kept, i64 3
store ptr %type, ptr %kept
store ptr %value, ptr %kept1
store ptr %trace, ptr %kept2
store ptr %PyErr_Restore, ptr %kept3
%full = call i32 %Py_AddPendingCall(ptr @share.raise, ptr %kept)
%refused = icmp ne i32 %full, 0
br i1 %refused, label %back, label %end
back:
call void @free(ptr %kept)
br label %lost
lost:
call void %PyErr_Restore(ptr %type, ptr %value, ptr %trace)
call void %PyErr_WriteUnraisable(ptr null)
br label %end
other:
%count = call i32 %PyThreadState_SetAsyncExc({number} %here, ptr %type)
call void %Py_DecRef(ptr %type)
call void %Py_DecRef(ptr %value)
call void %Py_DecRef(ptr %trace)
br label %end
end:
ret void
}}
"""


_RAISE = """\
define internal i32 @share.raise(ptr %kept) #0 {
%kept1 = getelementptr ptr, ptr %kept, i64 1
%kept2 = getelementptr ptr, ptr %kept, i64 2
%kept3 = getelementptr ptr, ptr %kept, i64 3
%type = load ptr, ptr %kept
%value = load ptr, ptr %kept1
%trace = load ptr, ptr %kept2
%restore = load ptr, ptr %kept3
call void @free(ptr %kept)
call void %restore(ptr %type, ptr %value, ptr %trace)
ret i32 -1
}
"""


def _load(*names: str) -> str:
    return "\n".join(
        f"%{name}.p = getelementptr ptr, ptr %table, i64 {WORDS.index(name)}\n"
        f"%{name} = load ptr, ptr %{name}.p"
        for name in names
    )
