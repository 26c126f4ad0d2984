"""Patterns of names."""


def as_pattern(name: str) -> str:
    """Return the pattern that matches a name and nothing else."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)
