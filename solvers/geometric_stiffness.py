"""Stage of FeatherstoneSolver for light bodies that transmit large forces."""

from __future__ import annotations

import numpy as np
import warp as wp

from newtonsim.kernels.constraints import geometric_stiffness
from newtonsim.kernels.views.model import BodyView
from newtonsim.kernels.views.pair_rows import LoopView, PairRowView
from newtonsim.runtime.launcher import Launcher
from newtonsim.runtime.tree_inertias import tree_inertias
from newtonsim.scene.allocation import put, zeros
from newtonsim.scene.enums import ConstraintType, JointType
from newtonsim.scene.model import Model
from newtonsim.scene.topology import topology_of


class GeometricStiffness:
    """Finds the inertia with which links in tension are calm, see `kernels.constraints.geometric_stiffness`.

    Args:
        model: The model.
        light: 1 for bodies that are to be calmed, (body_count,).

    Attributes:
        view: Forces that bodies transmit, and the inertia that replaces the model's.
    """

    def __init__(self, model: Model, light: np.ndarray):
        bodies, device = model.body_count, model.device
        self.view = geometric_stiffness.StiffnessView()
        for name in ("pull", "turning", "held", "force", "acceleration", "stiffness", "added"):
            setattr(self.view, name, zeros(bodies, dtype=wp.vec3, device=device))
        self.view.light = put(light, dtype=int, device=device)
        self.view.inertia = wp.clone(model.body_inertia, requires_grad=model.requires_grad)

    @property
    def memory(self) -> tuple[wp.array, ...]:
        """Forces of the last step and their stiffness, which the next one depends on, (body_count,) each."""
        return self.view.pull, self.view.turning, self.view.held

    def begin(self, launch: Launcher, body_q: wp.array, body_qd: wp.array, dt: float) -> None:
        """Find the inertia for a step, and have a launcher use it.

        Args:
            launch: Launcher of the step.
            body_q: Poses at the start of the step.
            body_qd: Velocities likewise.
            dt: Time step [s].
        """
        v = launch.views
        launch(
            geometric_stiffness.stiffen_trees,
            "tree team",
            reads=dict(
                tree=v.tree,
                levels=v.levels,
                joint=v.joint,
                body=_bodies(launch.model, launch.model.body_inertia),
                gravity=launch.model.gravity_vec,
                body_q=body_q,
                body_qd=body_qd,
                dt=dt,
            ),
            writes=dict(stiffness=self.view),
        )
        self.use(launch)

    def slow(
        self, launch: Launcher, body_q: wp.array, body_qd: wp.array, dt: float, body_f: wp.array
    ) -> None:
        """Add the torques with which new inertia begins a step at rest; needs `begin`.

        Args:
            launch: Launcher of the step, which may record.
            body_q: Poses at its start.
            body_qd: Velocities likewise.
            dt: Time step [s].
            body_f: Wrenches on bodies, to be added to.
        """
        launch(
            geometric_stiffness.slow_bodies,
            "body",
            reads=dict(added=self.view.added, body_q=body_q, body_qd=body_qd, dt=dt),
            writes=dict(body_f=body_f),
        )

    def use(self, launch: Launcher) -> None:
        """Have a launcher use the inertia that `begin` found."""
        launch.views.body = _bodies(launch.model, self.view.inertia)

    def reverse(self, launch: Launcher) -> None:
        """Add the gradient of the inertia to that of the model's, and clear it; needs `begin`.

        The forces that bodies transmit are taken as given.
        """
        launch(
            geometric_stiffness.reverse_inertia,
            "body",
            reads=dict(inertia=launch.model.body_inertia, stiffened=self.view.inertia),
            writes=dict(gradient=launch.model.body_inertia.grad, source=self.view.inertia.grad),
        )

    def remember(
        self, launch: Launcher, loop: LoopView, rows: PairRowView, body_q: wp.array, dt: float
    ) -> None:
        """Keep the forces of rows between bodies, and release some of the inertia that is held.

        Args:
            launch: Launcher of the step.
            loop: Constraints of the model.
            rows: Rows between bodies, solved.
            body_q: Poses at the start of the step.
            dt: Time step [s].
        """
        v = launch.views
        launch(
            geometric_stiffness.release_bodies, "body", reads=dict(dt=dt), writes=dict(stiffness=self.view)
        )
        launch(
            geometric_stiffness.add_pulls,
            "pair_row",
            reads=dict(joint=v.joint, body=v.body, loop=loop, rows=rows, body_q=body_q, dt=dt),
            writes=dict(stiffness=self.view),
        )

    def forget_bodies(self, bodies: np.ndarray) -> None:
        """Drop the forces on some bodies, by their numbers."""
        for memory in self.memory:
            values = memory.numpy()
            values[bodies] = 0.0
            memory.assign(values)

    def forget(self, launch: Launcher, world_mask: wp.array) -> None:
        """Drop the forces of masked worlds."""
        launch(
            geometric_stiffness.forget_pulls,
            "body",
            reads=dict(mask=world_mask, world=launch.model.body_world),
            writes=dict(stiffness=self.view),
        )


def _bodies(model: Model, inertia: wp.array) -> BodyView:
    """Bodies of a model with another inertia; a view of their own, since recorded launches keep theirs."""
    body = BodyView()
    body.mass, body.com, body.inertia = model.body_mass, model.body_com, inertia
    return body


LONGEST_STEP = 1.0 / 60.0
"""Step up to which bodies are found that are too light for what they transmit [s]; longer ones are rare."""
LOADS = 3.0
"""Force on what hangs on a body, over its weight: that of a pendulum let go from the horizontal."""
GRAVITY = 9.81
"""[m/s²]"""
FLOATING = (JointType.FREE, JointType.DISTANCE)
"""Joints that bear nothing."""
SAME_MASS = 1.5
"""Ratio of masses, and of moments of inertia, up to which the inertias of a tree are not found anew."""


def stiffened_bodies(model: Model) -> np.ndarray:
    """Return which bodies are so light that their step needs the stiffness of what they transmit (bodies,).

    Those are the ones whose inertia about an axis, as their joints or constraints let them turn, is below the
    geometric stiffness of the loads that can be expected, times the square of a long step.
    """
    return LightBodies(model).find()


class LightBodies:
    """Finds the bodies of `stiffened_bodies` again and again, as masses and constraints come and go.

    What takes long is kept: the inertias of trees, whose joints stay as they are.

    Args:
        model: The model.
    """

    def __init__(self, model: Model):
        self._model = model
        self._trees = np.zeros(0, int)
        self._turning = np.zeros(0)
        self._inertias: tuple[np.ndarray, np.ndarray] | None = None

    def find(self) -> np.ndarray:
        """Return which bodies are light, (bodies,) of booleans."""
        model, loads = self._model, _Loads(self._model)
        needed = (LONGEST_STEP**2 * LOADS * GRAVITY * 2.0 * loads.carried)[:, None] * loads.reach
        moments: np.ndarray = np.diagonal(model.body_inertia.numpy(), axis1=1, axis2=2)
        light = (needed > moments).any(axis=1) & (loads.tree >= 0)
        if light.any():
            turning = self._turning_of(np.unique(loads.tree[light]), moments)
            light &= (needed > turning).any(axis=1)
        return light

    def _turning_of(self, trees: np.ndarray, moments: np.ndarray) -> np.ndarray:
        """See `TreeInertias.turning`: of some trees, infinite or known elsewhere."""
        model, mass = self._model, self._model.body_mass.numpy()
        now = mass.copy(), moments.copy()
        if self._inertias is None or not all(map(_alike, self._inertias, now)):
            self._inertias, self._trees = now, np.zeros(0, int)
            self._turning = np.full((model.body_count, 3), np.inf)
        missing = np.setdiff1d(trees, self._trees)
        if len(missing):
            self._trees = np.union1d(self._trees, missing)
            self._turning = np.minimum(self._turning, tree_inertias(model, missing).turning)
        return self._turning


def _alike(known: np.ndarray, now: np.ndarray) -> bool:
    """Whether masses or moments are so near those that were known that what follows from them holds."""
    return bool((known <= SAME_MASS * now).all() and (now <= SAME_MASS * known).all())


class _Loads:
    """What hangs on the bodies of a model.

    Attributes:
        tree: Tree of each body, or -1.
        carried: Mass of what hangs on each body [kg]: behind it in its tree, or also ahead of it where a
            constraint holds what is behind it; and in all other trees that constraints hold on to it, unless
            its own floats and is held by one constraint.
        reach: Largest distance of joints and anchors of constraints from each axis of the body through its
            centre of mass [m], (body_count, 3).
    """

    def __init__(self, model: Model):
        topology = topology_of(model)
        mass: np.ndarray = model.body_mass.numpy().astype(np.float64)
        self.tree = topology.body_tree
        self._com = model.body_com.numpy()
        self.reach = np.zeros((model.body_count, 3))
        parent: np.ndarray = model.joint_parent.numpy()
        child: np.ndarray = model.joint_child.numpy()
        kind: np.ndarray = model.joint_type.numpy()
        jointed = ~np.isin(kind, FLOATING)
        behind = mass.copy()
        for level in range(int(topology.joint_level.max(initial=0)), 0, -1):
            here = topology.joint_level == level
            np.add.at(behind, parent[here], behind[child[here]])
        self.carried = behind - mass
        self._behind = np.append(behind, 0.0)  # of the world, body -1
        self._extend(child[jointed], model.joint_X_c.numpy()[jointed])
        self._extend(parent[jointed], model.joint_X_p.numpy()[jointed])
        if model.constraint_count:
            self._tie(model, mass, topology.tree_count)

    def _tie(self, model: Model, mass: np.ndarray, trees: int) -> None:
        """Count what constraints hold together."""
        holds = (model.constraint_enabled.numpy() != 0) & (
            model.constraint_type.numpy() != ConstraintType.COUPLING
        )
        ends: list[np.ndarray] = [model.constraint_parent.numpy(), model.constraint_child.numpy()]
        ends = [end[holds] for end in ends]
        frames = [model.constraint_X_p.numpy()[holds], model.constraint_X_c.numpy()[holds]]
        for end, frame in zip(ends, frames):
            self._extend(end, frame)
        self._close(ends[0], ends[1], model, mass)
        ends = [np.where(end >= 0, self.tree[end], -1) for end in ends]
        own = (ends[0] >= 0) & (ends[1] >= 0)
        group = _groups(trees, ends[0][own], ends[1][own])
        ties = np.zeros(trees, int)
        for end in ends:
            np.add.at(ties, end[end >= 0], 1)
        roots: np.ndarray = model.joint_parent.numpy() < 0
        floats = np.zeros(trees, bool)
        child: np.ndarray = model.joint_child.numpy()
        kind: np.ndarray = model.joint_type.numpy()
        floats[self.tree[child[roots]]] = np.isin(kind[roots], FLOATING)
        moved = self.tree >= 0
        own_mass, total = np.zeros(trees), np.zeros(trees)
        np.add.at(own_mass, self.tree[moved], mass[moved])
        np.add.at(total, group, own_mass)
        # what floats and is held once only follows
        bears = ties > floats
        others = np.where(bears, total[group] - own_mass, 0.0)
        self.carried[moved] += others[self.tree[moved]]

    def _close(self, first: np.ndarray, second: np.ndarray, model: Model, mass: np.ndarray) -> None:
        """Let bodies carry what is ahead of them, too, where constraints between two bodies close a loop."""
        first, second = (np.where(self.tree[end] >= 0, end, -1) for end in (first, second))
        apart = (first < 0) | (second < 0) | (self.tree[first] != self.tree[second])
        alone = np.concatenate([first[apart], second[apart]])
        first = np.concatenate([first[~apart], alone])
        second = np.concatenate([second[~apart], np.full(len(alone), -1)])
        up, level = np.full(model.body_count, -1), np.full(model.body_count + 1, -1)
        child: np.ndarray = model.joint_child.numpy()
        up[child] = model.joint_parent.numpy()
        level[child] = topology_of(model).joint_level
        pair, body, heads = _between(first, second, up, level)
        hanging = self._behind[heads].sum(axis=0)
        np.maximum.at(self.carried, body, hanging[pair] - mass[body])

    def _extend(self, bodies: np.ndarray, frames: np.ndarray) -> None:
        """Let bodies reach anchors; body -1 is the world."""
        own = bodies >= 0
        squares = (frames[own, :3] - self._com[bodies[own]]) ** 2
        arms = np.sqrt(squares.sum(axis=1, keepdims=True) - squares)
        np.maximum.at(self.reach, bodies[own], arms)


def _between(
    first: np.ndarray, second: np.ndarray, up: np.ndarray, level: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return what is on the ways between pairs of bodies of one tree, without their common ancestors.

    Args:
        first: First body of each pair, or -1 for the world, (pairs,).
        second: The second one.
        up: Parent of each body, or -1, (body_count,).
        level: Number of joints between each body and the root of its tree, -1 for the world, at the end.

    Returns:
        The pair and the body of each place on a way, and the last body on either side of each pair, or -1,
        (2, pairs).
    """
    ends, heads = np.stack([first, second]), np.full((2, len(first)), -1)
    pairs, bodies = [np.zeros(0, int)], [np.zeros(0, int)]
    while (apart := ends[0] != ends[1]).any():
        deeper = level[ends[0]] >= level[ends[1]]
        for side, moves in enumerate((apart & deeper, apart & ~deeper)):
            pairs.append(np.flatnonzero(moves))
            bodies.append(ends[side, moves])
            heads[side, moves] = ends[side, moves]
            ends[side, moves] = up[ends[side, moves]]
    return np.concatenate(pairs), np.concatenate(bodies), heads


def _groups(count: int, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return a number of the group of each of `count` items, of which those of each pair belong together."""
    group = np.arange(count)
    while True:
        least = group.copy()
        lower = np.minimum(group[first], group[second])
        np.minimum.at(least, group[first], lower)
        np.minimum.at(least, group[second], lower)
        least = least[least]
        if (least[group] == group).all():
            return group
        group = least[group]
