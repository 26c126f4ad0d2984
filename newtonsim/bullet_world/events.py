"""Events: lists of functions that are called when something happens in a world."""

from __future__ import annotations

from collections.abc import Callable


class Event:
    """Functions to call, in the order in which they were added.

    `event += f` and `event.add(f)` add a function, `event -= f` and `event.remove(f)` take it away, and
    `event(...)` calls all of them with the same arguments.
    """

    def __init__(self):
        self._handlers: list[Callable] = []

    def add(self, handler: Callable) -> Event:
        """Call a function from now on; one that was already added is not added again.

        Raises:
            TypeError: It cannot be called.
        """
        if not callable(handler):
            raise TypeError(f"handler: expected a callable, got {handler!r}")
        if handler not in self._handlers:
            self._handlers.append(handler)
        return self

    def remove(self, handler: Callable) -> Event:
        """Stop calling a function; does nothing if it was not added."""
        if handler in self._handlers:
            self._handlers.remove(handler)
        return self

    __iadd__ = add
    __isub__ = remove

    def __call__(self, *args: object, **keywords: object) -> None:
        for handler in tuple(self._handlers):  # handlers may add or remove
            handler(*args, **keywords)

    def __len__(self) -> int:
        return len(self._handlers)
