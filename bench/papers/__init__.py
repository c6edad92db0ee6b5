"""Experiments of the papers, with their figures and tables: `PYTHONPATH=bench python -m papers loops`."""
