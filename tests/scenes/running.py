"""Ways to run a scene, shared by the tests of scenes."""

import numpy as np

import newtonsim
from newtonsim.geometry.transforms import quat_matrix, transform_point
from newtonsim.solvers import FeatherstoneSolver

DT = 1.0 / 240.0
STEPS_PER_SECOND = 240

# points of each body by which its motion is measured, turning included
MARKS = np.array([[0.1, 0.0, 0.0], [0.0, 0.1, 0.0], [0.0, 0.0, 0.1], [-0.1, -0.1, -0.1]])


class SceneRun:
    """A scene, its default solver, and what is measured of it."""

    def __init__(self, builder: newtonsim.ModelBuilder, device: str) -> None:
        self.model = builder.finalize(device)
        self.solver = FeatherstoneSolver(self.model)
        self.simulator = newtonsim.Simulator(self.model, self.solver, DT)
        self.mass = self.model.body_mass.numpy().astype(float)
        self.inertia = self.model.body_inertia.numpy().astype(float)
        self.com = self.model.body_com.numpy().astype(float)

    def step(self, count: int = 1) -> "SceneRun":
        self.simulator.step(count)
        return self

    @property
    def poses(self) -> np.ndarray:
        """Poses of the bodies (bodies, 7)."""
        return self.simulator.state.body_q.numpy().astype(float)

    @property
    def velocities(self) -> np.ndarray:
        """Angular and linear velocities (bodies, 6)."""
        return self.simulator.state.body_qd.numpy().astype(float)

    @property
    def joint_q(self) -> np.ndarray:
        return self.simulator.state.joint_q.numpy().astype(float)

    def marks(self) -> np.ndarray:
        """Marked points of all bodies in the world (bodies, 4, 3) [m]."""
        poses = self.poses[:, None]
        return transform_point(poses, np.broadcast_to(MARKS, (len(self.mass), len(MARKS), 3)))

    def tilts(self) -> np.ndarray:
        """Angles (bodies,) [rad] between the bodies' z axes and the vertical."""
        return 2.0 * np.arcsin(np.clip(np.linalg.norm(self.poses[:, 3:5], axis=1), 0.0, 1.0))

    def energy(self) -> float:
        """Kinetic energy and potential energy above z = 0 [J], in double precision."""
        poses, velocities = self.poses, self.velocities
        heights = transform_point(poses, self.com)[:, 2]
        # world axes in body axes are the rows of the rotation matrices
        spin = np.einsum("nij,ni->nj", quat_matrix(poses[:, 3:]), velocities[:, :3])
        turning = np.einsum("ni,nij,nj->", spin, self.inertia, spin)
        moving = np.sum(self.mass * np.sum(velocities[:, 3:] ** 2, axis=1))
        return float(0.5 * (turning + moving) + 9.81 * np.sum(self.mass * heights))

    def deepest(self) -> float:
        """Greatest penetration of any contact of the last step [m], 0 without any."""
        contacts = self.solver.contacts
        count = int(contacts.world_count.numpy()[0])
        return max(0.0, -float(contacts.rigid_contact_distance.numpy()[:count].min(initial=0.0)))

    def drift(self, seconds: float) -> float:
        """Greatest distance [m] of any mark from where it is now, looked at ten times a second."""
        start, farthest = self.marks(), 0.0
        for _ in range(round(10 * seconds)):
            self.step(STEPS_PER_SECOND // 10)
            farthest = max(farthest, float(np.linalg.norm(self.marks() - start, axis=-1).max()))
        return farthest
