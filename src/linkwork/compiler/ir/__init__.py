"""Intermediate representation: programs, tracing, the reference interpreter and liveness."""
