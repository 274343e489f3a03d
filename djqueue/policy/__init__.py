"""Rules as plain functions and values: retry, cron, pace, weights, what may be stored.

Nothing here knows Django, a database or a clock; `now` and `rng` are arguments. The one invariant: the same arguments
give the same answer, so every rule can be tested without a server.
"""
