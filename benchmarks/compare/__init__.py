"""djqueue and its peers side by side: the same workloads, in one run, on one server."""
