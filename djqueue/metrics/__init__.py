"""Metrics for Prometheus, with the extra `djqueue[metrics]`: a collector, and a view that is protected.

A top layer, beside the admin. Invariant: a scrape reads what the leader and the workers have summed up, in a handful of
statements for each database; it never looks at jobs or history.
"""
