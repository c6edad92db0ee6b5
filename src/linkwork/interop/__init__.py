"""Conversion of states to and from other software. Each peer is imported only where it is used."""
