"""A model and what comes back when its file is read again."""

import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import warp as wp

import newtonsim
from newtonsim import dynamics
from newtonsim.examples import asset_path
from newtonsim.geometry.transforms import (
    quat_conjugate,
    quat_multiply,
    quat_rotate,
    transform_inverse,
    transform_multiply,
)
from newtonsim.scene.enums import JointType
from newtonsim.utils import export_mjcf, export_urdf, export_usd, parse_mjcf, parse_urdf, parse_usd


def _parse_usd(path: str, builder: newtonsim.ModelBuilder, **options):
    return parse_usd(path, builder, **options)["report"]


FORMATS: dict[str, tuple[Callable, Callable]] = {
    "xml": (export_mjcf, parse_mjcf),
    "urdf": (export_urdf, parse_urdf),
    "usda": (export_usd, _parse_usd),
}


def robot(name: str, ground: bool = False) -> newtonsim.ModelBuilder:
    """One of the example robots as its file describes it."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    if ground:
        # restitution and stiffness have no place in MJCF: the ground has those of the robot
        material = {"ke": 1.0e4, "kd": 1.0e3, "kf": 1.0e2, "mu": 0.8, "restitution": 0.5, "thickness": 0.0}
        builder.add_shape_plane(plane=(0, 0, 1, 0), width=0.0, length=0.0, key="floor", **material)
    if name.endswith(".urdf"):
        parse_urdf(asset_path(name), builder, ignore_inertial_definitions=False)
    else:
        parse_mjcf(asset_path(name), builder, floating=None, ignore_inertial_definitions=False)
    return builder


class Twins:
    """A model, its file, and the model that the file gives.

    Attributes:
        model: The first model.
        report: What the writer said.
        again: The model read from the file.
        read: What the reader said.
        coords: For each coordinate of the first model its place in the second.
        dofs: The same for velocities.
    """

    def __init__(self, source, path: Path, up: tuple[float, float, float] = (0.0, 0.0, 1.0), **options):
        export, parse = FORMATS[path.suffix[1:]]
        self.model = source.finalize("cpu") if isinstance(source, newtonsim.ModelBuilder) else source
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", newtonsim.UnsupportedElementWarning)
            self.report = export(self.model, path, **options)
            self.builder = newtonsim.ModelBuilder(up_vector=up)
            self.read = parse(str(path), self.builder, **self.report.read_with)
        self.again = self.builder.finalize("cpu")
        self.path = path
        self._map_joints()

    def _map_joints(self) -> None:
        model, again = self.model, self.again
        q, qd = model.joint_q_start.numpy(), model.joint_qd_start.numpy()
        self.coords, self.dofs = np.full(q[-1], -1), np.full(qd[-1], -1)
        for joint in range(model.joint_count):
            nq, nv = q[joint + 1] - q[joint], qd[joint + 1] - qd[joint]
            if nv == 0:
                continue
            names = self.report.joints.get(joint, [])
            if not names or names[0] not in self.read.joint_coords:
                # the base joint of a URDF robot has no name in the file
                child = self.builder.body_key.index(self.report.bodies[int(model.joint_child.numpy()[joint])])
                other = again.joint_child.numpy().tolist().index(child)
                starts = again.joint_q_start.numpy()[other], again.joint_qd_start.numpy()[other]
            elif len(names) == 1:
                starts = self.read.joint_coords[names[0]], self.read.joint_dofs[names[0]]
            else:
                starts = None
                self.coords[q[joint] : q[joint + 1]] = [self.read.joint_coords[name] for name in names]
                self.dofs[qd[joint] : qd[joint + 1]] = [self.read.joint_dofs[name] for name in names]
            if starts is not None:
                self.coords[q[joint] : q[joint + 1]] = starts[0] + np.arange(nq)
                self.dofs[qd[joint] : qd[joint + 1]] = starts[1] + np.arange(nv)
        assert sorted(self.dofs) == list(range(again.joint_dof_count))

    def states(self, seed: int, spread: float = 0.4):
        """The same random state of both models."""
        rng = np.random.default_rng(seed)
        model, again = self.model, self.again
        q = model.joint_q.numpy() + spread * rng.normal(size=model.joint_coord_count)
        qd = rng.normal(size=model.joint_dof_count)
        other_q, other_qd = again.joint_q.numpy().astype(np.float64), np.zeros(again.joint_dof_count)
        self.turn = np.eye(again.joint_dof_count)
        kinds, starts = model.joint_type.numpy(), (model.joint_q_start.numpy(), model.joint_qd_start.numpy())
        for joint, kind in enumerate(kinds):
            at, dof = (slice(*start[joint : joint + 2]) for start in starts)
            if kind in (JointType.BALL, JointType.FREE):
                q[at][-4:] /= np.linalg.norm(q[at][-4:])
            other_q[self.coords[at]], other_qd[self.dofs[dof]] = q[at], qd[dof]
            frame = model.joint_X_c.numpy()[joint, 3:].astype(np.float64)
            if kind == JointType.FREE and model.joint_parent.numpy()[joint] < 0:
                # a free body is read with its own pose as coordinates
                outer, inner = (
                    X.numpy()[joint].astype(np.float64) for X in (model.joint_X_p, model.joint_X_c)
                )
                pose = transform_multiply(transform_multiply(outer, q[at]), transform_inverse(inner))
                other_q[self.coords[at]] = pose
            if kind == JointType.BALL and self.path.suffix == ".xml":
                # MJCF's ball joints have the axes of the body, so that the coordinates are turned by X_c
                other_q[self.coords[at]] = quat_multiply(quat_multiply(frame, q[at]), quat_conjugate(frame))
                matrix = np.stack([quat_rotate(frame, e) for e in np.eye(3)], axis=1)
                self.turn[np.ix_(self.dofs[dof], self.dofs[dof])] = matrix
        other_qd = self.turn @ other_qd
        return _state(model, q, qd), _state(again, other_q, other_qd)

    def mass_matrices(self, seed: int, armature: bool = True) -> tuple[np.ndarray, np.ndarray]:
        """Joint-space inertia of both, in the coordinates of the first."""
        first, second = self.states(seed)
        ours = _blocks(self.model, dynamics.mass_matrix(self.model, first, armature=armature).numpy())
        theirs = _blocks(self.again, dynamics.mass_matrix(self.again, second, armature=armature).numpy())
        theirs = self.turn.T @ theirs @ self.turn
        return ours, theirs[np.ix_(self.dofs, self.dofs)]

    def bias_forces(self, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Generalised forces without acceleration of both, in the coordinates of the first."""
        results = []
        for model, state in zip((self.model, self.again), self.states(seed)):
            zero = wp.zeros(model.joint_dof_count, dtype=float, device="cpu")
            results.append(dynamics.inverse_dynamics(model, state, zero).numpy().copy())
        return results[0], (self.turn.T @ results[1])[self.dofs]

    def trajectories(self, steps: int, solver_type, dt: float = 1.0 / 240.0) -> tuple[np.ndarray, np.ndarray]:
        """Joint coordinates over time of both from the same start, (steps, coordinates) of the first."""
        rows = []
        for model, state in zip((self.model, self.again), self.states(0, spread=0.02)):
            solver, control = solver_type(model), model.control()
            start = next((k for k in model.keyframes if k["name"] == "initial"), None)
            if start is not None:
                control.joint_act.assign(start["joint_act"])
            path = []
            for _ in range(steps):
                solver.step(model, state, state, control, None, dt)
                path.append(state.joint_q.numpy().copy())
            rows.append(np.array(path))
        return rows[0], rows[1][:, self.coords]


def _state(model, q: np.ndarray, qd: np.ndarray):
    state = model.state()
    state.joint_q.assign(q.astype(np.float32))
    state.joint_qd.assign(qd.astype(np.float32))
    newtonsim.eval_fk(model, state.joint_q, state.joint_qd, None, state)
    return state


def _blocks(model, dense: np.ndarray) -> np.ndarray:
    """One matrix of all dofs from one block for each articulation."""
    starts = model.joint_qd_start.numpy()[model.articulation_start.numpy()]
    result = np.zeros((model.joint_dof_count,) * 2)
    for block, start, end in zip(dense, starts, starts[1:]):
        result[start:end, start:end] = block[: end - start, : end - start]
    return result
