"""The comparison's jobs in the words of each contender. These modules import its package, in its own virtualenv."""
