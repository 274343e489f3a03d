"""The tests: real PostgreSQL, real processes, real signals."""
