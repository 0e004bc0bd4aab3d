"""Benchmarks: ratios within one run, one JSON object a line."""
