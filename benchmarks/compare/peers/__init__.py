"""One module per contender: what it is, how it enqueues, how its worker is run.

Each is also a program, run by the interpreter of the virtualenv that has the contender's package, so the package may be
imported inside functions only: `python -m benchmarks.compare.peers.NAME VERB …`.
"""
