"""Selection of bodies, joints and shapes by patterns, as for file names."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from newtonsim.errors import NewtonsimError, did_you_mean

_SHOWN = 12
"""Number of labels that an error names."""


def match_labels(patterns: str | Sequence[str], labels: Sequence[str], what: str) -> list[int]:
    """Return the indices of the labels that a pattern matches, in the order of the labels.

    A star stands for any characters, a question mark for one, `[ab]` for one of these.

    Args:
        patterns: One pattern, or several of which any may match.
        labels: The labels.
        what: What they name, for the error, such as "joints".

    Raises:
        NewtonsimError: A pattern matches none; the error names existing labels.
    """
    found: set[int] = set()
    for pattern in [patterns] if isinstance(patterns, str) else patterns:
        matched = [place for place, label in enumerate(labels) if fnmatchcase(label, pattern)]
        if not matched:
            known = list(dict.fromkeys(labels))
            shown = ", ".join(map(repr, known[:_SHOWN])) or "none"
            more = f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else ""
            hint = did_you_mean(pattern, known)
            raise NewtonsimError(f"{pattern!r} matches no {what}{hint}; there are {shown}{more}")
        found.update(matched)
    return sorted(found)
