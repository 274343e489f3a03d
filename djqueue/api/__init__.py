"""What callers and handlers hold: the task with its options, the result of an enqueue, the context of a running job."""
