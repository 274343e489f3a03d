"""A small shop that uses djqueue: the project behind the tests, the demo and the benchmarks."""
