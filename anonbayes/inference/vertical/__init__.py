"""Samplers of vertical (Anatomy) releases: kernels on plain arrays, PyMC steps, a driver."""
