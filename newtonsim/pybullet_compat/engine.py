"""The physics of a client: model, solver, simulator, and the state on the host.

The state is read from the device once after a step, when something asks for it, into float64 arrays that
bodies hold views of. What is written there goes to the device before the next step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import warp as wp

from newtonsim.builder import ModelBuilder
from newtonsim.model import Model
from newtonsim.pybullet_compat import model_building
from newtonsim.pybullet_compat.multibody import Body
from newtonsim.simulator import Simulator
from newtonsim.solvers import FeatherstoneSolver

if TYPE_CHECKING:
    from newtonsim.pybullet_compat.scene import Client


class HostArray:
    """A device array with a copy on the host that is written and pushed; on the CPU both are the same.

    Attributes:
        device_array: The array that kernels read.
        host: Values by world, shape (W, ...).
    """

    def __init__(self, array: wp.array, worlds: int):
        self.device_array = array
        self._shared = array.device.is_cpu
        values = array.numpy()
        self._flat = values if self._shared else values.copy()
        self.host = self._flat.reshape(worlds, len(values) // worlds, *values.shape[1:])

    def push(self) -> None:
        """Send the host's values to the device."""
        if not self._shared:
            self.device_array.assign(self._flat)

    def pull(self) -> np.ndarray:
        """Return the device's values (W, ...)."""
        if not self._shared:
            self._flat[...] = self.device_array.numpy()
        return self.host


class Engine:
    """Model and simulator of the present structure of a client.

    Attributes:
        client: The client.
        model: The model of all worlds.
        solver: The solver.
        simulator: Owner of state and control.
        q, u: Coordinates and velocities on the host (W, coordinates), float64.
        pose, twist: Poses and velocities of all links (W, bodies, 7) and (W, bodies, 6), float64.
        rows: Bodies that have each row of `pose`, as (body unique id, link index).
        shape_link: (body unique id, link index) of each shape of a world.
        shape_geometry: Number of the geometry of its link that each shape belongs to.
        unread_coordinates, unread_poses: Whether the device knows better than the host.
        written: Bodies whose coordinates the host has changed.
        forces: External forces (W, bodies, 6) as (τ, f) at the centres of mass.
        torques: Generalised forces (W, velocities).
    """

    def __init__(self, client: Client):
        self.client = client
        worlds = self.worlds = client.num_worlds
        bodies = list(client.bodies.values())
        client.read_coordinates()
        for body in bodies:
            body.refresh()
        builder = self._describe(bodies)
        many = ModelBuilder(up_vector=(0.0, 0.0, 1.0), gravity=0.0)
        many.replicate(builder, worlds, spacing=(0.0, 0.0, 0.0))
        with wp.ScopedDevice(client.device):
            self.model: Model = many.finalize()
        self.model.gravity = client.settings.gravity
        self.solver = FeatherstoneSolver(self.model)
        settings = client.settings
        self.simulator = Simulator(self.model, self.solver, settings.time_step, max(settings.substeps, 1))
        self._share_arrays(bodies)

    def _describe(self, bodies: list[Body]) -> ModelBuilder:
        builder = ModelBuilder(up_vector=(0.0, 0.0, 1.0), gravity=0.0)
        self.rows: list[tuple[int, int]] = []
        self.shape_link: list[tuple[int, int]] = []
        self.shape_geometry: list[int] = []
        for body in bodies:
            for place, number in model_building.add_body(builder, body):
                self.shape_link.append((body.uid, place - 1))
                self.shape_geometry.append(number)
            self.rows += [(body.uid, place - 1) for place in range(len(body.links))]
        builder.shape_collision_filter_pairs |= model_building.filter_pairs(self.client, self.shape_link)
        self.client.call_hooks("build", builder)
        return builder

    def _share_arrays(self, bodies: list[Body]) -> None:
        """Let the bodies' arrays be views of this engine's."""
        worlds, state = self.worlds, self.simulator.state
        self._q, self._u = HostArray(state.joint_q, worlds), HostArray(state.joint_qd, worlds)
        self._pose, self._twist = HostArray(state.body_q, worlds), HostArray(state.body_qd, worlds)
        self._base = HostArray(self.model.joint_X_p, worlds)
        self._force = HostArray(state.body_f, worlds)
        self._torque = HostArray(self.simulator.control.joint_f, worlds)
        self.forces, self.torques = self._force.host, self._torque.host
        self.forces_set = self.torques_set = False
        self.q, self.u = np.zeros(self._q.host.shape), np.zeros(self._u.host.shape)
        self.pose, self.twist = np.zeros(self._pose.host.shape), np.zeros(self._twist.host.shape)
        self.unread_coordinates = self.unread_poses = False
        self.written: set[Body] = set(bodies)
        q_end = u_end = 0
        self.u_slices: dict[int, slice] = {}
        for body in bodies:
            q_first, u_first = q_end, u_end
            q_end, u_end = q_first + body.q.shape[1], u_first + body.u.shape[1]
            rows = slice(body.first_row, body.first_row + len(body.links))
            self.u_slices[body.uid] = slice(u_first, u_end)
            for name, whole, place in (
                ("q", self.q, slice(q_first, q_end)),
                ("u", self.u, slice(u_first, u_end)),
                ("pose", self.pose, rows),
                ("twist", self.twist, rows),
            ):
                view = whole[:, place]
                view[...] = getattr(body, name)
                setattr(body, name, view)

    def release(self) -> None:
        """Let bodies have arrays of their own again."""
        self.client.read_coordinates()
        if self.unread_poses:
            self.read_poses()
        for body in self.client.bodies.values():
            for name in ("q", "u", "pose", "twist"):
                setattr(body, name, getattr(body, name).copy())
            body.first_row = -1

    # -- state -----------------------------------------------------------------------------------------------

    def read_coordinates(self) -> None:
        """Copy coordinates and velocities from the device."""
        self.unread_coordinates = False
        self.q[...] = self._q.pull()
        self.u[...] = self._u.pull()

    def read_poses(self) -> None:
        """Copy poses and velocities of links from the device."""
        self.unread_poses = False
        self.pose[...] = self._pose.pull()
        self.twist[...] = self._twist.pull()

    def push(self) -> None:
        """Send what the host has changed to the device."""
        if not self.written:
            return
        self._q.host[...] = self.q
        self._u.host[...] = self.u
        self._q.push()
        self._u.push()
        for body in self.written:
            if not body.floating:
                self._base.host[:, body.first_row] = body.base_pose
            body.refresh()
        self._pose.host[...] = self.pose
        self._twist.host[...] = self.twist
        for array in (self._base, self._pose, self._twist):
            array.push()
        self.written.clear()

    def step(self) -> None:
        """Make one step of the client's time step."""
        if self.written:
            self.push()
        if self.forces_set:
            self._force.push()
        if self.torques_set:
            self._torque.push()
        self.simulator.step()
        self.unread_coordinates = self.unread_poses = True
        if self.forces_set:
            self._force.host[...] = 0.0
            self._force.push()
            self.forces_set = False
        if self.torques_set:
            self._torque.host[...] = 0.0
            self._torque.push()
            self.torques_set = False
