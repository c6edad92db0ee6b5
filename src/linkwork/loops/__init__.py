"""Topology and mobility: clusters, loop closure, ranks of constraint Jacobians,
and independent velocities.
"""
