"""Compiler from traced functions to programs and to kernels for CPUs, C and GPUs; it knows no mechanics."""
