"""Algorithms on embedded loops: closing, active joints, forces in joints, and derivatives."""
