"""Algorithms for contact: rows, solvers, time steps and their derivatives."""
