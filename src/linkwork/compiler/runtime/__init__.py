"""Runtime of compiled programs: kernels, calls, the cache, background compilation and threads.

- `build`: entry, selects the target. `kernel`: kernels on the CPU, from memory, the cache or the compiler.
- `compiler`: cache keys, LLVM, and the background thread. `unfinished`: code left over by an ended process.
- `cache`, `cache_files`: files on disk. `source`: digest of this package, a part of every key.
- `native`: machine code in memory and its lifetime. `direct`, `bound`: calls without NumPy's overhead.
- `arguments`, `results`, `threads`, `signals`, `progress`: checks, memory, batches, interrupts, messages.
- `constant`: models without degrees of freedom. `xla`: custom calls. `cuda_start`, `cuda/`: GPUs.
"""
