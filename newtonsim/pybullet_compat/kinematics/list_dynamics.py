"""Dynamics of one chain from lists to tuples: for most calls NumPy would take longer than the kernels do."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np

from newtonsim.pybullet_compat.kinematics.chains import BASE_DOFS, Chain
from newtonsim.pybullet_compat.surface.arguments import SEQUENCES

Values = Sequence[float]
_SIZE = 8
"""Bytes of a number."""


class ListDynamics:
    """Inverse dynamics, Jacobians and mass matrices of a chain in one world on the CPU.

    The base is fixed, and no joint is spherical: coordinates are the angles and distances of the joints. What
    is not a list or a tuple of as many numbers is left to others: then the answer is None.

    Args:
        chain: The chain, whose arrays it uses.
        turned: Whether points of each link are given along other axes than the chain's.
    """

    def __init__(self, chain: Chain, turned: Sequence[bool]):
        count, width, skip = chain.nv, BASE_DOFS + chain.nv, BASE_DOFS * _SIZE
        self._chain, self._count, self._skip, self._turned = chain, count, skip, turned
        self._row = struct.Struct(f"{count}d")
        self._rows = [slice(k * count, (k + 1) * count) for k in range(max(count, BASE_DOFS))]
        self._memory = chain.motion_memory.data
        self._motion = struct.Struct(f"{count}d{skip}x{count}d{skip}x{count}d")
        self._six_rows = struct.Struct(f"{skip}x{count}d" * BASE_DOFS)
        self._matrix = struct.Struct(f"{BASE_DOFS * width * _SIZE}x" + f"{skip}x{count}d" * count)
        self._unused = bytearray(count * _SIZE)
        self._gravity: np.ndarray | None = None

    def has(self, link: int) -> bool:
        """Whether there is a link, -1 for the base, whose points are given along the axes of the chain."""
        return -1 <= link < len(self._turned) - 1 and not self._turned[link + 1]

    def _put(self, values: Values, target: memoryview | bytearray, offset: int = 0) -> bool:
        """Write a list of numbers into memory; returns whether they were as many as there are joints."""
        if values.__class__ not in SEQUENCES:
            return False
        try:
            self._row.pack_into(target, offset, *values)
        except (struct.error, TypeError):
            return False
        return True

    def _configure(self, q: Values) -> bool:
        return self._put(q, self._chain.upright())

    def forces(self, q: Values, qd: Values, qdd: Values, gravity: np.ndarray) -> tuple[float, ...] | None:
        """Return the forces of the joints (n,) for rates and accelerations under gravity (3,) [m/s²]."""
        if not (q.__class__ in SEQUENCES and qd.__class__ in SEQUENCES and qdd.__class__ in SEQUENCES):
            return None
        if not len(q) == len(qd) == len(qdd):
            return None
        chain = self._chain
        _, _, pull, tau, run = chain.force_buffers
        if not chain.is_upright:
            chain.upright()
        try:
            self._motion.pack_into(self._memory, 0, *q, *qd, *qdd)
        except (struct.error, TypeError):
            return None
        if gravity is not self._gravity:  # which is replaced as a whole
            pull.host[...] = self._gravity = gravity
        run()
        return self._row.unpack_from(tau.memory, self._skip)

    def jacobian(self, place: int, point: Values, q: Values, others: tuple[Values, Values]) -> tuple | None:
        """Return the linear and angular Jacobian, three rows each, of a point of a link.

        Args:
            place: Place of the link.
            point: In the link frame.
            q: Coordinates of the joints.
            others: Two lists that have to be as long, and are not used.
        """
        link, points, out, run = self._chain.jacobian_buffers
        if not all(self._put(values, self._unused) for values in others) or not self._configure(q):
            return None
        try:
            points.host[0, :] = point
        except (TypeError, ValueError):
            return None
        link.host[0] = place
        run()
        values = self._six_rows.unpack_from(out.memory)
        rows = [values[row] for row in self._rows[:BASE_DOFS]]
        return tuple(rows[:3]), tuple(rows[3:])

    def mass_matrix(self, q: Values) -> tuple[tuple[float, ...], ...] | None:
        """Return the rows of the joint-space inertia (n, n)."""
        out, run = self._chain.mass_matrix_buffers
        if not self._configure(q):
            return None
        run()
        values = self._matrix.unpack_from(out.memory)
        return tuple([values[row] for row in self._rows[: self._count]])
