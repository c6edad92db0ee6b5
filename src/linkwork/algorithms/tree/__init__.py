"""Algorithms on trees of nodes: dynamics, mass matrix, kinematics, energy and their derivatives."""
