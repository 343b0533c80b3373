"""How long a session stood in our own queue, by the clock on the wall: calls that wait side by side count once."""


class Waits:
    """Times are monotonic seconds."""

    def __init__(self) -> None:
        self._n_waiting = 0
        self._since = 0.0
        self._seconds = 0.0

    def begin(self, now: float) -> None:
        if not self._n_waiting:
            self._since = now
        self._n_waiting += 1

    def end(self, now: float) -> None:
        self._n_waiting -= 1
        if not self._n_waiting:
            self._seconds += now - self._since

    def seconds(self, now: float) -> float:
        """Of all waits up to now."""
        return self._seconds + (now - self._since if self._n_waiting else 0.0)
