"""Whole-process times of the command, as ratios to hpccm rendering a recipe: `python -m benchmarks`."""
