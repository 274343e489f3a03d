"""What stands in a test where a worker has its connections' guard and its page of the slot table."""


class Untouched:
    """The test's own connections and transactions are left alone."""

    def check_before(self) -> None:
        """Do nothing."""

    def reset_after(self) -> str:
        """Find no fault."""
        return ""


class NoPage:
    """Nobody looks into this one."""

    def start(self, index: int, started: int, deadline: int) -> None:
        """Nobody looks."""

    def extend(self, index: int, deadline: int) -> None:
        """Nobody looks."""

    def is_marked(self, index: int, word: int, token: int) -> bool:
        """Nobody marks."""
        return False
