"""Measurements that anyone can run again: `python -m benchmarks.NAME`."""
