"""Targets: translators of lowered programs for processors, C compilers and GPUs."""
