"""Names that a format accepts, each used once."""

from collections.abc import Callable, Iterable


class Names:
    """Gives valid and unique names.

    Args:
        valid: Turns any text into one that the format accepts.
        taken: Names that mean something to the format.
    """

    def __init__(self, valid: Callable[[str], str], taken: Iterable[str] = ()):
        self.valid, self.taken = valid, set(taken)
        self._next: dict[str, int] = {}

    def unique(self, key: str) -> str:
        """Return the name of something with this key, numbered where the name is taken."""
        base = self.valid(key)
        name, number = base, self._next.get(base, 1)
        while name in self.taken:
            name, number = f"{base}_{number}", number + 1
        self._next[base] = number
        self.taken.add(name)
        return name


def xml_name(key: str) -> str:
    """Return a key as XML attribute text: blanks and what XML cannot hold become underscores."""
    text = "".join(c if c.isprintable() and c not in "\ufffe\uffff" else "_" for c in key).strip()
    return text.replace(" ", "_") or "unnamed"
