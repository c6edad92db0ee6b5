"""Algorithms for constraints enforced by forces: proximal solvers, Delassus matrices, and derivatives."""
