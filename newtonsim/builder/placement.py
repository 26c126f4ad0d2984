"""Bodies whose poses are left to joints."""

from dataclasses import dataclass, field


@dataclass
class Unplaced:
    """Bodies that were added without a pose and are not yet the child of a joint.

    The bodies without a pose that joints have placed on such a body, directly or through others, follow it:
    their poses are known relative to it alone.
    """

    _followers: dict[int, set[int]] = field(default_factory=dict)
    _leader: dict[int, int] = field(default_factory=dict)

    def copy(self) -> "Unplaced":
        """Return a record that changes on its own."""
        followers = {body: set(bodies) for body, bodies in self._followers.items()}
        return Unplaced(followers, dict(self._leader))

    def __contains__(self, body: int) -> bool:
        return body in self._followers

    def add(self, body: int) -> None:
        """Add a body without a pose."""
        self._followers[body] = set()
        self._leader[body] = body

    def place(self, parent: int, child: int) -> set[int]:
        """Take note of a joint that places a body; return that body and those that follow it."""
        moved = self._followers.pop(child) | {child}
        for body in moved:
            del self._leader[body]
        leader = self._leader.get(parent)
        if leader is not None:
            self._followers[leader] |= moved
            self._leader.update(dict.fromkeys(moved, leader))
        return moved

    def leave(self, body: int) -> None:
        """Take a body out of this record, as it has a pose after all."""
        for other in self._followers.pop(body) | {body}:
            del self._leader[other]
