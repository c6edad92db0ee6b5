"""Optional descriptions of bodies for short programs: node frames, lumped rotors, base parameters."""
