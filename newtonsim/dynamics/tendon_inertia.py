"""What the armature of tendons adds to joint-space inertia and forces."""

from __future__ import annotations

from typing import Any

import numpy as np
import warp as wp

from newtonsim.dynamics.tendon_paths import TendonPaths, path_layout
from newtonsim.kernels.tendons import inertia
from newtonsim.kernels.trees import crba
from newtonsim.runtime.launcher import Launcher, Motion
from newtonsim.runtime.shards import Shard
from newtonsim.scene.allocation import put, zeros
from newtonsim.scene.model import Model
from newtonsim.scene.topology import topology_of


class TendonInertia(TendonPaths):
    """Armature of the tendons of a model, see `kernels.tendons.inertia`.

    Every method needs a launcher of `launcher`, and `place`.

    Args:
        model: A model with tendons that have armature; those without armature now have none later.
        dof_articulation: Articulation of each degree of freedom, int (joint_dof_count,).
        dof_local: Its place in the articulation, int (joint_dof_count,).
        requires_grad: Whether gradients flow through the forces.

    Attributes:
        spatial: Whether a spatial tendon has armature, whose Jacobian depends on the configuration.
        spread: Whether a tendon with armature goes along several articulations.
    """

    def __init__(
        self, model: Model, dof_articulation: wp.array, dof_local: wp.array, requires_grad: bool = False
    ):
        super().__init__(model, requires_grad)
        device, dofs, worlds = model.device, model.joint_dof_count, model.world_count
        layout = path_layout(model)
        heavy = np.flatnonzero(model.tendon_armature.numpy() > 0.0)
        of_world = [heavy[layout.world[heavy] == w] for w in range(worlds)]
        most = max(map(len, of_world), default=0)
        number, tendon = np.full(model.tendon_count, -1), np.full((worlds, most), -1)
        for w, own in enumerate(of_world):
            number[own] = np.arange(len(own))
            tendon[w, : len(own)] = own
        articulation: np.ndarray = dof_articulation.numpy()
        first: np.ndarray = model.tendon_start.numpy()
        self.spatial = bool((layout.element_dof[first[heavy]] < 0).any())
        self.spread = any(len(set(articulation[layout.dofs[t]].tolist())) > 1 for t in heavy.tolist())
        self._numbers = inertia.TendonNumbers()
        self._numbers.number = put(number, dtype=int, device=device)
        self._numbers.tendon = put(tendon, dtype=int, device=device)
        world: np.ndarray = topology_of(model).view.dof_world.numpy()
        starts = np.searchsorted(world, np.arange(worlds + 1))
        self._numbers.dof_start = put(starts, dtype=int, device=device)
        self._numbers.dof_articulation, self._numbers.dof_local = dof_articulation, dof_local

        def make(count: int, dtype: Any = float) -> wp.array:
            return zeros(count, dtype=dtype, device=device, requires_grad=requires_grad)

        self._count = most
        self._body_q = make(model.body_count, wp.transform)
        self._body_qd = make(model.body_count, wp.spatial_vector)
        # bodies that no joint moves stay where they are
        self._body_q.assign(model.body_q)
        self._acceleration, self._rhs, self._column = make(model.tendon_count), make(dofs), make(dofs)
        self._y = zeros(most * dofs, dtype=float, device=device)
        self._s = zeros((worlds, most), dtype=float, device=device)

    def launcher(self, record_tape: bool = False, shard: Shard | None = None) -> Launcher:
        """Return a launcher for the current arrays of the model, over the worlds of a shard or all."""
        shard = Shard(self.model) if shard is None else shard
        return Launcher(self.model, record_tape, shard.with_starts(self.starts))

    def place(
        self, launch: Launcher, motion: Motion, joint_q: wp.array, joint_qd: wp.array, moving: Motion
    ) -> None:
        """Find how lengths change with the degrees of freedom, and with the velocities.

        Args:
            launch: The launcher.
            motion: Poses and velocities.
            joint_q: Coordinates.
            joint_qd: Velocities.
            moving: Room for velocities and accelerations in these poses.
        """
        launch.write_bodies(motion, self._body_q, self._body_qd)
        self.measure(launch, motion.kin, self._body_q, joint_q, joint_qd, moving)

    def add_inertia(self, launch: Launcher, dense: wp.array) -> None:
        """Add a JᵀJ to blocks of articulations; what couples two of them has no place there."""
        launch(
            inertia.add_inertia,
            "dof",
            reads=dict(
                tendon=self.view,
                motion=self.motion,
                numbers=self._numbers,
                armature=self.model.tendon_armature,
            ),
            writes=dict(dense=dense),
        )

    def add_forces(self, launch: Launcher, joint_qdd: wp.array, tau: wp.array) -> None:
        """Add a Jᵀ(J q̈ + J̇ q̇) to generalised forces."""
        launch(
            inertia.accelerate_tendons,
            "tendon",
            reads=dict(tendon=self.view, motion=self.motion, qdd=joint_qdd),
            writes=dict(acceleration=self._acceleration),
        )
        launch(
            inertia.add_forces,
            "dof",
            reads=dict(
                tendon=self.view,
                motion=self.motion,
                armature=self.model.tendon_armature,
                acceleration=self._acceleration,
            ),
            writes=dict(tau=tau),
        )

    def factorize(self, launch: Launcher, L: wp.array, zero: wp.array) -> None:
        """Find the corrections of M⁻¹.

        Args:
            launch: The launcher.
            L: Factors of the inertia without tendons.
            zero: Zeros, shape (joint_dof_count,).
        """
        v, paths = launch.views, dict(tendon=self.view, motion=self.motion, numbers=self._numbers)
        for k in range(self._count):
            launch(inertia.fill_column, "dof", reads=dict(**paths, k=k), writes=dict(rhs=self._rhs))
            launch(
                crba.solve,
                "tree team",
                reads=dict(tree=v.tree, levels=v.levels, L=L, rhs=self._rhs, scale=1.0, base=zero),
                writes=dict(x=self._column),
            )
            launch(
                inertia.correct_column,
                "world",
                reads=dict(**paths, armature=self.model.tendon_armature, k=k, base=zero),
                writes=dict(x=self._column, y=self._y, s=self._s),
            )

    def correct_vector(self, launch: Launcher, base: wp.array, x: wp.array) -> None:
        """Correct x - base, a product with the inverse of the inertia without tendons; needs `factorize`."""
        paths = dict(tendon=self.view, motion=self.motion, numbers=self._numbers)
        launch(
            inertia.correct_vector,
            "world",
            reads=dict(**paths, y=self._y, s=self._s, base=base),
            writes=dict(x=x),
        )

    def correct_blocks(self, launch: Launcher, dense: wp.array) -> None:
        """Correct products of blocks with that inverse likewise, if no tendon couples articulations."""
        paths = dict(tendon=self.view, motion=self.motion, numbers=self._numbers)
        reads = dict(**paths, y=self._y, s=self._s)
        launch(inertia.correct_blocks, "world", reads=reads, writes=dict(dense=dense))

    def correct_mobilities(
        self, launch: Launcher, motion: Motion, kind: str, bodies: wp.array, inverse: wp.array
    ) -> None:
        """Correct the mobilities of n bodies, shape (n, 6, 6), which a kind of index counts.

        Needs `factorize`.
        """
        launch(
            inertia.correct_mobilities,
            kind,
            reads=dict(
                tree=launch.views.tree,
                kin=motion.kin,
                body_com=self.model.body_com,
                y=self._y,
                s=self._s,
                bodies=bodies,
            ),
            writes=dict(inverse=inverse),
        )
