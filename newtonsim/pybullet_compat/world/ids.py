"""Unique ids of bodies, constraints, shapes and saved states."""

from __future__ import annotations


class Ids:
    """Unique ids from a first one on; freed ids are used again, the last one freed first."""

    def __init__(self, first: int = 0):
        self.first = first
        self.clear()

    def clear(self) -> None:
        """Forget all ids."""
        self._next, self._free = self.first, []

    def take(self) -> int:
        """Return an id that is not in use."""
        if self._free:
            return self._free.pop()
        self._next += 1
        return self._next - 1

    def give_back(self, uid: int) -> None:
        """Return an id that may be used again."""
        self._free.append(uid)

    def follow(self, other: Ids) -> None:
        """Continue where another one is."""
        self._next, self._free = other._next, list(other._free)
