"""What a reader does about a fault of a file: refuse the file, or read on and say what was forgiven."""

import warnings
from typing import Protocol

from newtonsim.errors import ImportFileError, LimitError, UnsupportedElementWarning


class Faults(Protocol):
    """Decides whether a file with a fault is read on."""

    def meet(self, fault: ImportFileError, assumed: str = "") -> None:
        """Take note of a fault; if this returns, the reader goes on with a stand-in.

        Args:
            fault: Names file, line, element and value.
            assumed: What the reader goes on with.

        Raises:
            ImportFileError: The fault, where files must have none.
        """


def refuse_what_is_too_large(fault: ImportFileError) -> None:
    """Raise a fault that is, or was brought about by, a `LimitError`: to read on would hide it."""
    cause: BaseException | None = fault
    while cause is not None:
        if isinstance(cause, LimitError):
            raise fault
        cause = cause.__cause__


class Refuse:
    """Refuses a file at its first fault."""

    def meet(self, fault: ImportFileError, assumed: str = "") -> None:
        """Raise the fault."""
        raise fault


class Forgive:
    """Forgives all faults that a reader has a stand-in for.

    Attributes:
        forgiven: The faults, in the order in which they were met.
    """

    def __init__(self) -> None:
        self.forgiven: list[ImportFileError] = []

    def meet(self, fault: ImportFileError, assumed: str = "") -> None:
        """Remember the fault; what is too large is refused."""
        refuse_what_is_too_large(fault)
        self.forgiven.append(fault)

    def warn(self, stacklevel: int = 1) -> None:
        """Warn of each fault once, as seen from `stacklevel` callers up."""
        for text in dict.fromkeys(map(str, self.forgiven)):
            warnings.warn(text, UnsupportedElementWarning, stacklevel=stacklevel + 1)


REFUSE = Refuse()
