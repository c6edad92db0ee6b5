"""Runtime of compiled programs: kernels, calls, the cache, background compilation and threads."""
