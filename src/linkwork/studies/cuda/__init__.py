"""Sampling and reductions of studies on a GPU, with the bits of the host."""
