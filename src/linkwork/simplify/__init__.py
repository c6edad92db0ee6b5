"""Descriptions of bodies that make short programs: node frames, lumped rotors, base parameters. All of them are optional."""
