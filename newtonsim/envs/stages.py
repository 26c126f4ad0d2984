"""Stages of a task that consist of several kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from newtonsim.kernels.envs.terms.views import TermView
from newtonsim.runtime.arguments import Kernel

if TYPE_CHECKING:
    import warp as wp

    from newtonsim.kernels.envs.views import EnvView
    from newtonsim.runtime.launcher import Launcher


class KernelSequence:
    """Kernels of terms that run one after the other, as one stage of a task.

    Attributes:
        terms: Kernels `(first, env, term, mask)`, each with its view of its term.
    """

    def __init__(self) -> None:
        self.terms: list[tuple[Kernel, TermView]] = []

    def launch(self, launch: Launcher, env: EnvView, mask: wp.array) -> None:
        """Launch them for the masked worlds of a launcher."""
        for kernel, term in self.terms:
            launch.user_kernel(kernel, "world", env, term, mask)
