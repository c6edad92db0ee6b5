"""Rooms that speak with other software: its states in, its states out. Each peer is needed only by those who have it."""
