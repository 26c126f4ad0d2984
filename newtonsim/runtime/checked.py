"""A mode for those who look for a fault: every step and every index is checked.

Off, steps ask one flag more. On, by `newtonsim.config.checked = True` or the environment variable
`NEWTONSIM_CHECKED=1`, `newtonsim.checking` looks at states after every step, and kernels that are loaded from
then on look at every index (`newtonsim.runtime.indexing`). `NEWTONSIM_CHECKED=indices` has the latter alone,
for programs that mean to have worlds without numbers, such as tests.
"""

from __future__ import annotations

import faulthandler
import os

VARIABLE = "NEWTONSIM_CHECKED"
INDICES = "indices"


class Config:
    """Settings of the process.

    Args:
        value: What the environment says: nothing or "0" for none, "indices", or anything else for all checks.

    Attributes:
        checked: Whether steps and indices are checked. Kernel files keep how they were loaded, so that it is
            to be set before the first launch.
        checks_steps: The same, to be read: `checked` is a property, which takes a share of a small step.
        checks_indices: Whether kernel files that are loaded now check their indices.
    """

    __slots__ = ("checks_indices", "checks_steps")

    def __init__(self, value: str = ""):
        self.checks_steps = self.checks_indices = False
        self.checked = value not in ("", "0", INDICES)
        if value == INDICES:
            self._check_indices()

    @property
    def checked(self) -> bool:
        """Whether steps and indices are checked."""
        return self.checks_steps

    @checked.setter
    def checked(self, value: bool) -> None:
        self.checks_steps = self.checks_indices = bool(value)
        if value:
            self._check_indices()

    def _check_indices(self) -> None:
        self.checks_indices = True
        if not faulthandler.is_enabled():
            faulthandler.enable()  # tells who launched the kernel that met a wrong index


config = Config(os.environ.get(VARIABLE, ""))
"""The settings that count."""
