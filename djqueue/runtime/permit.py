"""What a job needs that calls a dependency: the leave to start, which ends when the circuit opens."""


class Permit:
    """The leave to start under one term of a circuit, shared by the jobs that have it. The main thread takes it back,
    slot threads look at it."""

    __slots__ = ("circuit", "is_valid", "term")

    def __init__(self, circuit: str, term: int) -> None:
        self.circuit = circuit
        self.term = term
        self.is_valid = True
