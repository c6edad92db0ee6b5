"""Derivatives of programs, in forward and reverse mode."""
