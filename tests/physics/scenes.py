"""Small scenes and a fast way to run them."""

import numpy as np
import warp as wp

import newtonsim
from newtonsim.scene.enums import JointType
from newtonsim.solvers import FeatherstoneSolver

GRAVITY = 9.81


class Run:
    """A model, its state and the main solver; steps are replayed from one captured graph."""

    def __init__(self, model, dt: float, **options) -> None:
        self.model, self.dt = model, dt
        self.solver = FeatherstoneSolver(model, **options)
        self.state, self.control = model.state(), model.control()
        newtonsim.eval_fk(model, self.state.joint_q, self.state.joint_qd, None, self.state)
        self.graph = None

    def start(self, joint_q=None, joint_qd=None) -> "Run":
        """Set joint coordinates (of any shape) and the body poses that follow."""
        for array, values in ((self.state.joint_q, joint_q), (self.state.joint_qd, joint_qd)):
            if values is not None:
                array.assign(np.asarray(values, dtype=np.float32).flatten())
        newtonsim.eval_fk(self.model, self.state.joint_q, self.state.joint_qd, None, self.state)
        return self

    def step_eagerly(self) -> None:
        """Launch one step kernel by kernel."""
        self.solver.step(self.model, self.state, self.state, self.control, None, self.dt)

    def step(self, count: int = 1) -> "Run":
        """Replay steps."""
        if self.graph is None:
            with wp.ScopedCapture(device=self.model.device) as capture:
                self.step_eagerly()
            self.graph = capture.graph
        for _ in range(count):
            wp.capture_launch(self.graph)
        return self

    def run_for(self, seconds: float) -> "Run":
        """Replay steps for a duration [s]."""
        return self.step(round(seconds / self.dt))

    def record(self, count: int, *names: str, every: int = 1) -> list[np.ndarray]:
        """Replay steps and stack arrays of the state; entry 0 is the present."""
        history = [[getattr(self.state, name).numpy().copy()] for name in names]
        for _ in range(count // every):
            self.step(every)
            for name, values in zip(names, history):
                values.append(getattr(self.state, name).numpy().copy())
        return [np.stack(values) for values in history]

    @property
    def joint_q(self) -> np.ndarray:
        return self.state.joint_q.numpy().copy()

    @property
    def joint_qd(self) -> np.ndarray:
        return self.state.joint_qd.numpy().copy()

    @property
    def body_q(self) -> np.ndarray:
        return self.state.body_q.numpy().copy()

    @property
    def body_qd(self) -> np.ndarray:
        return self.state.body_qd.numpy().copy()


def z_up(gravity: float = -GRAVITY) -> newtonsim.ModelBuilder:
    """A builder with z up."""
    return newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0), gravity=gravity)


def diagonal_inertia(x: float, y: float, z: float) -> wp.mat33:
    """Principal moments of inertia [kg m^2] along the body axes."""
    return wp.mat33(x, 0.0, 0.0, 0.0, y, 0.0, 0.0, 0.0, z)


def add_hinge(
    builder, *, parent: int = -1, mass: float = 1.0, length: float = 0.5, inertia: float = 0.02, **joint
) -> int:
    """Add a link that turns about y; at angle 0 its centre of mass is `length` [m] below the hinge (z up)."""
    body = builder.add_body(
        mass=mass, com=wp.vec3(0.0, 0.0, -length), I_m=diagonal_inertia(inertia, inertia, inertia)
    )
    joint = {"axis": (0.0, 1.0, 0.0), "armature": 0.0, **joint}
    builder.add_joint_revolute(parent, body, **joint)
    return body


def many(world: newtonsim.ModelBuilder, count: int) -> newtonsim.ModelBuilder:
    """Copy one world; ground and gravity are those of the copied builder's conventions."""
    builder = newtonsim.ModelBuilder(up_vector=world.up_vector, gravity=world.gravity)
    for _ in range(count):
        builder.add_builder(world)
    return builder


def quaternion(axis, angle: float) -> np.ndarray:
    """Rotation about an axis [rad] as xyzw (4,)."""
    axis = np.asarray(axis, dtype=np.float64)
    return np.append(np.sin(0.5 * angle) * axis / np.linalg.norm(axis), np.cos(0.5 * angle))


def rotation_matrices(quaternions: np.ndarray) -> np.ndarray:
    """Rotation matrices (..., 3, 3) of quaternions xyzw (..., 4)."""
    from scipy.spatial.transform import Rotation

    flat = Rotation.from_quat(quaternions.reshape(-1, 4).astype(np.float64)).as_matrix()
    return flat.reshape(*quaternions.shape[:-1], 3, 3)


def free_joints(model) -> np.ndarray:
    """Indices of the joints that are free."""
    return np.flatnonzero(model.joint_type.numpy() == JointType.FREE)
