"""One articulated body on the device in float64: its Jacobian, inertia and forces.

A `Chain` holds the data of a body for the kernels of `newtonsim.kernels.trees.exact`, in one configuration
for each world. Arrays for arguments and results are allocated at the first call of an operation; later calls
fill them, launch one recorded kernel, and read the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
import warp as wp

from newtonsim.importers.geometry.pose import Pose
from newtonsim.kernels.trees.exact import dynamics as exact_dynamics
from newtonsim.kernels.trees.exact.views import ChainMotion, ChainState, ChainView, CompositeView
from newtonsim.pybullet_compat.descriptions.description import Link
from newtonsim.pybullet_compat.surface.constants import JOINT_PLANAR, JOINT_SPHERICAL
from newtonsim.pybullet_compat.world.body import COORDINATES, planar_axes
from newtonsim.runtime import capture, compilation
from newtonsim.runtime.arguments import NONE, Arguments, Kernel
from newtonsim.runtime.devices import find_device

BASE_DOFS = 6


class Shared:
    """An array on a device that the host writes and reads; on the CPU both are the same memory.

    Args:
        shape: Shape on the host, with the components of vectors as last axis.
        dtype: Warp type.
        device: Warp device.
        values: What to fill it with, zeros if None.
        host: Memory for the values on the host, float64; new memory if None.

    Attributes:
        host: The values on the host.
        memory: Their memory.
        array: The values on the device.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        dtype: type,
        device: str,
        values: object = None,
        host: np.ndarray | None = None,
    ):
        self.host = np.zeros(shape, np.int32 if dtype is int else np.float64) if host is None else host
        if values is not None:
            self.host[...] = values
        self.memory = self.host.data
        self._on_host = find_device(device).is_cpu
        self.array = wp.array(self.host, dtype=dtype, device=device, copy=not self._on_host)

    def push(self) -> None:
        """Send the host's values to the device."""
        if not self._on_host:
            self.array.assign(self.host)

    def pull(self) -> np.ndarray:
        """Return the device's values."""
        if not self._on_host:
            self.host[...] = self.array.numpy().reshape(self.host.shape)
        return self.host


class Chain:
    """An articulated body in one configuration for each world.

    Args:
        links: The base and the links.
        parents: Place of the parent of each, -1 for the base.
        inertial: Inertial frames in the link frames (L, 7).
        mass: (W, L) [kg].
        inertia: Principal moments (W, L, 3) [kg m²].
        device: Warp device.
        balls_at_parents: Whether spherical joints are taken to sit at the link frame of their parent,
            wherever they are (see `kinematics`).

    Attributes:
        worlds, link_count, nq, nv: Numbers of configurations, links with the base, coordinates and degrees of
            freedom of the joints.
        q_start, dof_start: First coordinate and degree of freedom of each link.
        balls: Links with spherical joints.
        is_upright: Whether the base is known to have no rotation.
    """

    def __init__(
        self,
        links: Sequence[Link],
        parents: Sequence[int],
        inertial: np.ndarray,
        mass: np.ndarray,
        inertia: np.ndarray,
        device: str = "cpu",
        balls_at_parents: bool = False,
    ):
        self.device, self.worlds, self.link_count = device, len(mass), len(links)
        kinds = [link.joint_type for link in links]
        counts = [(0, 0), *(COORDINATES.get(kind, (0, 0)) for kind in kinds[1:])]
        self.q_start = np.cumsum([0, *(c[0] for c in counts[:-1])])
        self.dof_start = np.cumsum([0, *(c[1] for c in counts[:-1])])
        self.nq, self.nv = sum(c[0] for c in counts), sum(c[1] for c in counts)
        self.balls = [i for i, kind in enumerate(kinds) if i and kind == JOINT_SPHERICAL]
        self._dof_counts = [c[1] for c in counts]
        self.is_upright = False
        self._trace(parents)
        self._view = self._describe(links, parents, inertial, mass, inertia, balls_at_parents)

    def _trace(self, parents: Sequence[int]) -> None:
        """Find the paths from the base to the links, and the dofs on them."""
        self._paths: list[list[int]] = []
        for i in range(self.link_count):
            path: list[int] = []
            while i > 0:
                path.insert(0, i)
                i = parents[i]
            self._paths.append(path)
        self.path_dofs = [
            [d for i in path for d in range(self.dof_start[i], self.dof_start[i] + self._dof_counts[i])]
            for path in self._paths
        ]

    def _describe(
        self,
        links: Sequence[Link],
        parents: Sequence[int],
        inertial: np.ndarray,
        mass: np.ndarray,
        inertia: np.ndarray,
        balls_at_parents: bool,
    ) -> ChainView:
        count, device = self.link_count, self.device
        poses = np.tile(Pose.identity().row(), (count, 1))
        axes, seconds = np.zeros((count, 3)), np.zeros((count, 3))
        base = Pose(inertial[0, :3], inertial[0, 3:])
        for i, link in enumerate(links[1:], 1):
            pose = link.joint_pose if parents[i] else base.inverse() @ link.joint_pose
            if balls_at_parents and link.joint_type == JOINT_SPHERICAL:
                pose = Pose(np.zeros(3), pose.q)
            poses[i], axes[i] = pose.row(), link.axis
            if link.joint_type == JOINT_PLANAR:
                seconds[i] = planar_axes(link.axis)[0]
        centres = np.array(inertial, dtype=np.float64)
        centres[0] = Pose.identity().row()
        leaves = [dofs[-1] if dofs else -1 for dofs in self.path_dofs]
        dof_parents = np.full(self.nv, -1)
        for dofs in self.path_dofs:
            dof_parents[dofs[1:]] = dofs[:-1]
        starts = np.cumsum([0, *(len(path) for path in self._paths)])
        order = sorted(range(1, count), key=lambda i: (len(self._paths[i]), i))

        def ints(values: object) -> wp.array:
            return wp.array(np.array(values, dtype=np.int32), dtype=int, device=device)

        view = ChainView()
        view.order, view.parent = ints(order), ints(parents)
        view.type = ints([-1, *(link.joint_type for link in links[1:])])
        view.q_start, view.dof_start = ints(self.q_start), ints(self.dof_start)
        view.leaf, view.dof_parent = ints(leaves), ints(dof_parents)
        view.path_start, view.path = ints(starts), ints([i for path in self._paths for i in path])
        view.joint_pose = wp.array(poses, dtype=wp.transformd, device=device)
        view.axis = wp.array(axes, dtype=wp.vec3d, device=device)
        view.second = wp.array(seconds, dtype=wp.vec3d, device=device)
        view.inertial_pose = wp.array(centres, dtype=wp.transformd, device=device)
        view.mass = wp.array(mass, dtype=wp.float64, device=device)
        view.inertia = wp.array(inertia, dtype=wp.vec3d, device=device)
        return view

    def shared(self, shape: tuple[int, ...], dtype: type = wp.float64, values: object = None) -> Shared:
        return Shared(shape, dtype, self.device, values)

    @cached_property
    def motion_memory(self) -> np.ndarray:
        """Coordinates (W, nq), velocities and accelerations (W, 6 + nv), one after the other."""
        return np.zeros(self.worlds * (self.nq + 2 * (BASE_DOFS + self.nv)))

    def _motion_part(self, start: int, width: int) -> Shared:
        """Some columns of `motion_memory` from one on, as an array (W, columns)."""
        places = slice(start * self.worlds, (start + width) * self.worlds)
        host = self.motion_memory[places].reshape(self.worlds, width)
        return Shared(host.shape, wp.float64, self.device, host=host)

    def scratch(self, width: int, dtype: type = wp.float64) -> wp.array:
        return wp.empty((self.worlds, width), dtype=dtype, device=self.device)

    @cached_property
    def _configuration(self) -> tuple[Shared, Shared, ChainState]:
        q = self._motion_part(0, self.nq)
        base = self.shared((self.worlds, 4), wp.quatd, (0.0, 0.0, 0.0, 1.0))
        state = ChainState()
        state.q, state.base = q.array, base.array
        state.pose = self.scratch(self.link_count, wp.transformd)
        state.angular, state.linear = self.scratch(self.nv, wp.vec3d), self.scratch(self.nv, wp.vec3d)
        return q, base, state

    def configure(self, q: object, base: object = (0.0, 0.0, 0.0, 1.0)) -> None:
        """Set the configuration that the next operation is about.

        Args:
            q: Coordinates of the joints, quaternions xyzw for spherical ones, (nq,) or (W, nq).
            base: Orientation xyzw of the inertial frame of the base, (4,) or (W, 4).
        """
        positions, orientations, _ = self._configuration
        positions.host[...] = q
        orientations.host[...] = base
        self.is_upright = False
        positions.push()
        orientations.push()

    def upright(self) -> memoryview:
        """Set the base to no rotation; returns the memory of the coordinates (W, nq), to be written."""
        positions, orientations, _ = self._configuration
        if not self.is_upright:
            orientations.host[...] = (0.0, 0.0, 0.0, 1.0)
            orientations.push()
            self.is_upright = True
        return positions.memory

    @property
    def configuration(self) -> np.ndarray:
        """Coordinates of the joints (W, nq)."""
        return self._configuration[0].host

    def read_configuration(self) -> np.ndarray:
        """Return `configuration` as the device has it."""
        return self._configuration[0].pull()

    def record(
        self,
        kernel: Kernel,
        *,
        reads: Arguments = NONE,
        writes: Arguments = NONE,
        count: int | None = None,
    ) -> wp.Launch:
        """Record a kernel over the chains of all worlds, or of `count`; `chain` and `state` are theirs."""
        return compilation.launch(
            kernel,
            self.worlds if count is None else count,
            reads=dict(chain=self._view, **reads),
            writes=dict(state=self._configuration[2], **writes),
            device=self.device,
            record_cmd=True,
        )

    def _quick(self, launch: wp.Launch) -> Callable[[], None]:
        """A function that makes a recorded launch; on the CPU without what Warp does around it."""
        if not find_device(self.device).is_cpu:
            return launch.launch
        return capture.LaunchList([launch]).once

    # -- Jacobian, inertia, forces

    @cached_property
    def jacobian_buffers(self) -> tuple[Shared, Shared, Shared, Callable[[], None]]:
        """Link, points (W, 3) and result (W, 36 + 6 nv) of `jacobian`, and what calculates it."""
        link = self.shared((1,), int)
        point = self.shared((self.worlds, 3), wp.vec3d)
        out = self.shared((self.worlds, 6 * (BASE_DOFS + self.nv)))
        launch = self.record(
            exact_dynamics.compute_jacobian,
            reads=dict(link=link.array, point=point.array),
            writes=dict(out=out.array),
        )
        return link, point, out, self._quick(launch)

    def jacobian(self, link: int, point: object) -> np.ndarray:
        """Return the Jacobian of a point of a link.

        Args:
            link: Place of the link, 0 for the base.
            point: In the link frame, (3,) or (W, 3); in the inertial frame of the base.

        Returns:
            (W, 2, 3, 6 + nv): linear and angular velocity of the point for unit rates of ω and v of the
            base's centre of mass and of the joints. It is overwritten by the next call.
        """
        place, points, out, run = self.jacobian_buffers
        place.host[0] = link
        points.host[...] = point
        place.push()
        points.push()
        run()
        return out.pull().reshape(self.worlds, 2, 3, BASE_DOFS + self.nv)

    @cached_property
    def mass_matrix_buffers(self) -> tuple[Shared, Callable[[], None]]:
        """Result of `mass_matrix`, row by row in each world, and what calculates it."""
        width = BASE_DOFS + self.nv
        out = self.shared((self.worlds, width * width))
        view = CompositeView()
        view.mass, view.moment = self.scratch(self.link_count), self.scratch(self.link_count, wp.vec3d)
        view.inertia, view.matrix = self.scratch(self.link_count, wp.mat33d), out.array
        return out, self._quick(self.record(exact_dynamics.compute_mass_matrix, writes=dict(body=view)))

    def mass_matrix(self) -> np.ndarray:
        """Return the joint-space inertia (W, 6 + nv, 6 + nv), the base first as in `jacobian`."""
        out, run = self.mass_matrix_buffers
        run()
        return out.pull().reshape(self.worlds, BASE_DOFS + self.nv, BASE_DOFS + self.nv)

    @cached_property
    def force_buffers(self) -> tuple[Shared, Shared, Shared, Shared, Callable[[], None]]:
        """Velocities, accelerations, gravity (W, 3) and result of `forces`, and what calculates it."""
        width = BASE_DOFS + self.nv
        qd, qdd = self._motion_part(self.nq, width), self._motion_part(self.nq + width, width)
        tau = self.shared((self.worlds, width))
        gravity = self.shared((self.worlds, 3), wp.vec3d)
        view = ChainMotion()
        view.qd, view.qdd, view.tau, view.gravity = qd.array, qdd.array, tau.array, gravity.array
        view.omega = self.scratch(self.link_count, wp.vec3d)
        view.alpha = self.scratch(self.link_count, wp.vec3d)
        view.acceleration = self.scratch(self.link_count, wp.vec3d)
        view.force = self.scratch(self.link_count, wp.vec3d)
        view.torque = self.scratch(self.link_count, wp.vec3d)
        launch = self.record(exact_dynamics.compute_forces, writes=dict(motion=view))
        return qd, qdd, gravity, tau, self._quick(launch)

    def motion(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the velocities and accelerations (W, 6 + nv) that `forces` reads, to be written."""
        qd, qdd, *_ = self.force_buffers
        return qd.host, qdd.host

    def forces(self, gravity: object) -> np.ndarray:
        """Return the generalised forces (W, 6 + nv) of the motion: torque and force on the base, joints.

        Args:
            gravity: (3,) or (W, 3) [m/s²].
        """
        qd, qdd, pull, tau, run = self.force_buffers
        pull.host[...] = gravity
        for array in (qd, qdd, pull):
            array.push()
        run()
        return tau.pull()
