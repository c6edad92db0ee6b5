"""Mechanisms that ship with linkwork."""
