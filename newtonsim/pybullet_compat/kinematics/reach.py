"""Inverse kinematics of a `Chain`: its arguments, and the call of the kernels."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise

import numpy as np
import warp as wp

from newtonsim.kernels.trees.exact import reach as exact_reach
from newtonsim.kernels.trees.exact.views import ReachView
from newtonsim.pybullet_compat.kinematics.chains import Chain
from newtonsim.runtime.arguments import Arguments, Kernel
from newtonsim.runtime.compilation import core_count

EFFECTORS, COLUMNS, ITERATIONS = range(3)
LEAST_WORLDS = 64
"""Number of worlds per additional thread, about a millisecond of work."""


class Reach:
    """Inverse kinematics of a `Chain`: arguments and scratch for a growing number of effectors.

    Args:
        chain: The body.

    Attributes:
        damping: Of each degree of freedom (W, nv).
        lower, upper, range, rest: What the null space is used for (W, nv).
        iterations: How many steps the last call took (W,).
    """

    DEFAULT_DAMPING = 0.5

    def __init__(self, chain: Chain):
        self._chain = chain
        shape = (chain.worlds, chain.nv)
        self._count, self._threshold = chain.shared((5,), int), chain.shared((1,))
        self._column, self._place = chain.shared((chain.nv,), int), chain.shared((chain.nv,), int)
        self._damping = chain.shared(shape, values=self.DEFAULT_DAMPING)
        self._rest = [chain.shared(shape) for _ in range(4)]
        self.damping = self._damping.host
        self.lower, self.upper, self.range, self.rest = (array.host for array in self._rest)
        self._iterations = chain.shared((chain.worlds,), int)
        self._effectors: tuple[int, ...] = ()
        self._allocate(1)

    @property
    def iterations(self) -> np.ndarray:
        """How many steps the last call took (W,)."""
        return self._iterations.pull()

    def _allocate(self, effectors: int) -> None:
        """Make the arrays whose size depends on the number of effectors, and record the launches."""
        chain = self._chain
        self._capacity = effectors
        rows, nv = 3 * effectors + 3, chain.nv
        self._effector = chain.shared((effectors,), int)
        self._position = chain.shared((chain.worlds, effectors, 3), wp.vec3d)
        self._orientation = chain.shared((chain.worlds, 4), wp.quatd)
        view = ReachView()
        view.count, view.threshold = self._count.array, self._threshold.array
        view.effector, view.column, view.place = (
            self._effector.array,
            self._column.array,
            self._place.array,
        )
        view.position, view.orientation = self._position.array, self._orientation.array
        view.damping = self._damping.array
        view.lower, view.upper, view.range, view.rest = (array.array for array in self._rest)
        view.jacobian, view.error = chain.scratch(rows * nv), chain.scratch(rows)
        view.matrix, view.vectors = chain.scratch(max(rows, nv) ** 2), chain.scratch(rows * rows)
        view.wish, view.step, view.by_column = (chain.scratch(nv) for _ in range(3))
        view.iterations = self._iterations.array
        self._damped = self._record(exact_reach.reach_damped, writes=dict(reach=view))
        self._selective = self._record(exact_reach.reach_selective, writes=dict(reach=view))

    def _record(self, kernel: Kernel, writes: Arguments) -> list[wp.Launch]:
        """Record launches of a kernel that threads may make side by side."""
        chain = self._chain
        on_cpu = wp.get_device(chain.device).is_cpu
        parts = min(core_count(), 1 + chain.worlds // LEAST_WORLDS) if on_cpu else 1
        bounds = np.linspace(0, chain.worlds, parts + 1).astype(int).tolist()
        return [
            chain.record(kernel, reads=dict(first=first), writes=writes, count=end - first)
            for first, end in pairwise(bounds)
        ]

    def _select(self, effectors: tuple[int, ...]) -> None:
        """Number the degrees of freedom that move the effectors."""
        if len(effectors) > self._capacity:
            self._allocate(len(effectors))
        chain = self._chain
        dofs = sorted({d for i in effectors for d in chain.path_dofs[i]})
        self._effector.host[: len(effectors)] = effectors
        self._column.host[: len(dofs)] = dofs
        self._place.host[...] = -1
        self._place.host[dofs] = range(len(dofs))
        self._count.host[EFFECTORS], self._count.host[COLUMNS] = len(effectors), len(dofs)
        for array in (self._effector, self._column, self._place):
            array.push()
        self._effectors = effectors

    def damping_changed(self) -> None:
        """Send `damping` to the device."""
        self._damping.push()

    def solve(
        self,
        effectors: tuple[int, ...],
        position: object,
        orientation: object | None = None,
        resting: bool = False,
        selective: bool = False,
        iterations: int = 20,
        threshold: float = 1.0e-4,
    ) -> np.ndarray:
        """Return coordinates of the joints that bring effectors to targets, from the present configuration.

        Args:
            effectors: Places of links.
            position: Of their link frames, about the centre of mass of the base: (E, 3) or (W, E, 3) [m].
            orientation: Quaternion xyzw of the first effector, (4,) or (W, 4); None for any.
            resting: Whether to use the null space, for `rest` and the limits.
            selective: Whether to use selectively damped least squares; not together with `resting`.
            iterations: Most steps.
            threshold: Largest distance from the targets before a step that may be the last [m].

        Returns:
            (W, nq). It is overwritten by the next call.
        """
        if effectors != self._effectors:
            self._select(effectors)
        count = self._count.host
        count[ITERATIONS:] = iterations, orientation is not None, resting
        self._threshold.host[0] = threshold
        self._position.host[:, : len(effectors)] = position
        arrays = [self._count, self._threshold, self._position]
        if orientation is not None:
            self._orientation.host[...] = orientation
            arrays.append(self._orientation)
        for array in arrays + self._rest if resting else arrays:
            array.push()
        _launch_together(self._selective if selective and not resting else self._damped)
        return self._chain.read_configuration()


def _launch_together(launches: list[wp.Launch]) -> None:
    """Make launches side by side."""
    others = [_helpers(os.getpid()).submit(launch.launch) for launch in launches[1:]]
    launches[0].launch()
    for other in others:
        other.result()


@cache
def _helpers(process: int) -> ThreadPoolExecutor:
    """The other threads; a forked process has none of its parent's."""
    return ThreadPoolExecutor(core_count(), thread_name_prefix="newtonsim-reach")
