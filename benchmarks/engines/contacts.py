"""One scene in three engines: newtonsim, MuJoCo and PyBullet, translated from one newtonsim model.

Geometry, masses, inertias, friction and time step are equal in all engines; solvers keep the settings that
each engine has by default. PyBullet has no ellipsoids either: they become hulls of points on their surface.
"""

import math
from typing import Protocol

import numpy as np
import warp as wp
from tasks.contacts import (
    CONJUGATE,
    CORNERS,
    IDENTITY,
    WITHOUT_AXIS,
    Z_TO_Y,
    Description,
    Link,
    Shape,
    inertial_frame,
    mjcf,
)

import newtonsim
from engines.pybullet_client import PybulletClient
from newtonsim.geometry.transforms import (
    quat_matrix,
    quat_multiply,
    quat_rotate,
    transform_inverse,
    transform_multiply,
    transform_point,
)
from newtonsim.scene.enums import GeoType, JointType
from newtonsim.solvers import FeatherstoneSolver


class Engine(Protocol):
    """A scene in an engine; bodies are those of the model, in its order."""

    name: str

    def step(self, count: int) -> None:
        """Advance by some steps of the time step."""

    def aim(self, targets: np.ndarray) -> None:
        """Set the targets of the drives, one entry a link with a moving joint, in their order."""

    def positions(self) -> np.ndarray:
        """Positions of the bodies' centres of mass (bodies, 3) [m]."""

    def contacts(self) -> int:
        """Number of contact points."""


class NewtonsimEngine:
    """newtonsim with its default solver, each step replayed from a captured graph."""

    name = "newtonsim"

    def __init__(self, model: newtonsim.Model, dt: float):
        self.model = model
        self.solver = FeatherstoneSolver(model)
        self.simulator = newtonsim.Simulator(model, self.solver, dt)

    def step(self, count: int) -> None:
        self.simulator.step(count)
        wp.synchronize_device(self.model.device)

    def aim(self, targets: np.ndarray) -> None:
        self.simulator.control.joint_act.assign(targets)

    def positions(self) -> np.ndarray:
        poses = self.simulator.state.body_q.numpy().astype(float)
        return np.array([transform_point(q, c) for q, c in zip(poses, self.model.body_com.numpy())])

    def contacts(self) -> int:
        return int(self.solver.contacts.world_count.numpy().sum())


class MujocoEngine:
    """MuJoCo, from an MJCF document."""

    name = "MuJoCo"

    def __init__(self, scene: Description, dt: float, solver: str = "Newton"):
        import mujoco

        self.mujoco = mujoco
        self.model = mujoco.MjModel.from_xml_string(mjcf(scene, dt, solver))
        self.data = mujoco.MjData(self.model)
        self.ids = [self.model.body(f"b{i}").id for i in range(len(scene.links))]
        for i, link in enumerate(scene.links):
            if link.joint == JointType.FREE:
                start = self.model.joint(f"j{i}").dofadr[0]
                angular, linear = scene.velocities[i, :3], scene.velocities[i, 3:]
                # MuJoCo's free joint: velocity of the body's origin, and angular velocity in body axes
                arm = quat_rotate(link.pose[3:], link.com)
                self.data.qvel[start : start + 3] = linear - np.cross(angular, arm)
                self.data.qvel[start + 3 : start + 6] = quat_rotate(link.pose[3:] * CONJUGATE, angular)
            elif link.joint != JointType.FIXED:
                self.data.qpos[self.model.joint(f"j{i}").qposadr[0]] = link.coordinate
        moving = [i for i, link in enumerate(scene.links) if link.joint not in WITHOUT_AXIS]
        self.driven = [k for k, i in enumerate(moving) if scene.links[i].drive is not None]
        mujoco.mj_forward(self.model, self.data)

    def step(self, count: int) -> None:
        self.mujoco.mj_step(self.model, self.data, count)

    def aim(self, targets: np.ndarray) -> None:
        self.data.ctrl[:] = targets[self.driven]

    def positions(self) -> np.ndarray:
        return self.data.xipos[self.ids].copy()

    def contacts(self) -> int:
        return int(self.data.ncon)


def _ball_points() -> np.ndarray:
    """Return points (n, 3) spread over the unit sphere along a spiral."""
    n = 4 * CORNERS
    height = 1.0 - (2.0 * np.arange(n) + 1.0) / n
    angle = np.arange(n) * math.pi * (3.0 - math.sqrt(5.0))
    radius = np.sqrt(1.0 - height**2)
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle), height])


class PybulletEngine(PybulletClient):
    """PyBullet without graphics."""

    name = "PyBullet"

    def __init__(self, scene: Description, dt: float):
        super().__init__(dt, scene.gravity)
        self.where: dict[int, tuple[int, int]] = {}
        for shape in scene.static:
            self._add_static(shape)
        for root in (i for i, link in enumerate(scene.links) if link.parent < 0):
            self._add_tree(scene, root)
        self._couple(scene)
        self.links = scene.links

    def _collision_shape(self, shape: Shape, frame: np.ndarray = IDENTITY) -> int:
        """Create a shape on a body whose inertial frame (7,) in the body frame is given."""
        pb, size = self.pb, shape.size
        place = transform_multiply(transform_inverse(frame), shape.pose)
        if shape.kind in (GeoType.CAPSULE, GeoType.CYLINDER, GeoType.PLANE):
            place[3:] = quat_multiply(place[3:], Z_TO_Y)
        if shape.kind == GeoType.SPHERE:
            arguments = {"shapeType": pb.GEOM_SPHERE, "radius": size[0]}
        elif shape.kind == GeoType.BOX:
            arguments = {"shapeType": pb.GEOM_BOX, "halfExtents": size.tolist()}
        elif shape.kind in (GeoType.CAPSULE, GeoType.CYLINDER):
            kind = pb.GEOM_CAPSULE if shape.kind == GeoType.CAPSULE else pb.GEOM_CYLINDER
            arguments = {"shapeType": kind, "radius": size[0], "height": 2.0 * size[1]}
        elif shape.kind == GeoType.PLANE:
            arguments = {"shapeType": pb.GEOM_PLANE, "planeNormal": [0.0, 0.0, 1.0]}
        else:
            vertices = _ball_points() * size if shape.kind == GeoType.ELLIPSOID else shape.vertices
            arguments = {"shapeType": pb.GEOM_MESH, "vertices": vertices.tolist()}
        arguments |= {"collisionFramePosition": place[:3], "collisionFrameOrientation": place[3:]}
        return pb.createCollisionShape(**arguments, **self.options)

    def _add_static(self, shape: Shape) -> None:
        body = self.pb.createMultiBody(0.0, self._collision_shape(shape), **self.options)
        self._set_surface(body, -1, shape)

    def _set_surface(self, body: int, link: int, shape: Shape) -> None:
        # PyBullet multiplies the coefficients of both shapes, newtonsim takes their mean
        self.pb.changeDynamics(
            body,
            link,
            lateralFriction=math.sqrt(shape.friction),
            restitution=shape.restitution,
            rollingFriction=0.0,
            spinningFriction=0.0,
            **self.options,
        )

    def _add_tree(self, scene: Description, root: int) -> None:
        """Create a kinematic tree, whose bodies have one shape or none; link frames are inertial frames."""
        pb = self.pb
        order = [root]
        for i in order:
            order += [k for k, link in enumerate(scene.links) if link.parent == i]
        place = {i: n for n, i in enumerate(order)}
        frames = {i: inertial_frame(scene.links[i]) for i in order}
        shapes = [
            self._collision_shape(scene.links[i].shapes[0], frames[i]) if scene.links[i].shapes else -1
            for i in order
        ]
        base, links = scene.links[root], [scene.links[i] for i in order[1:]]
        pose = transform_multiply(base.pose, frames[root])
        relative = [
            transform_multiply(
                transform_inverse(frames[scene.links[i].parent]),
                transform_multiply(scene.links[i].pose, frames[i]),
            )
            for i in order[1:]
        ]
        axes = [quat_rotate(frames[i][3:] * CONJUGATE, scene.links[i].axis) for i in order[1:]]
        body = pb.createMultiBody(
            baseMass=0.0 if base.joint == JointType.FIXED else base.mass,
            baseCollisionShapeIndex=shapes[0],
            basePosition=pose[:3],
            baseOrientation=pose[3:],
            linkMasses=[link.mass for link in links],
            linkCollisionShapeIndices=shapes[1:],
            linkVisualShapeIndices=[-1] * len(links),
            linkPositions=[x[:3].tolist() for x in relative],
            linkOrientations=[x[3:].tolist() for x in relative],
            linkInertialFramePositions=[[0.0, 0.0, 0.0]] * len(links),
            linkInertialFrameOrientations=[[0.0, 0.0, 0.0, 1.0]] * len(links),
            linkParentIndices=[place[link.parent] for link in links],
            linkJointTypes=[pb.JOINT_PRISMATIC] * len(links),
            linkJointAxis=[axis.tolist() for axis in axes],
            **self.options,
        )
        for i in order:
            self.where[i] = (body, place[i] - 1)
            self._set_dynamics(scene.links[i], frames[i], *self.where[i])
        if base.joint == JointType.FREE:
            angular, linear = scene.velocities[root, :3], scene.velocities[root, 3:]
            pb.resetBaseVelocity(body, linear.tolist(), angular.tolist(), **self.options)

    def _set_dynamics(self, link: Link, frame: np.ndarray, body: int, index: int) -> None:
        rotation = quat_matrix(frame[3:])
        diagonal = np.diag(rotation.T @ link.inertia @ rotation)
        dynamics = {"linearDamping": 0.0, "angularDamping": 0.0, "jointDamping": link.damping}
        if link.mass > 0.0 and link.joint != JointType.FIXED:
            dynamics["localInertiaDiagonal"] = diagonal.tolist()
        self.pb.changeDynamics(body, index, **dynamics, **self.options)
        for shape in link.shapes:
            self._set_surface(body, index, shape)
        if index < 0 or link.joint == JointType.FIXED:
            return
        self.pb.resetJointState(body, index, link.coordinate, **self.options)
        self.pb.changeDynamics(
            body, index, jointLowerLimit=link.limits[0], jointUpperLimit=link.limits[1], **self.options
        )
        self.pb.setJointMotorControl2(body, index, self.pb.VELOCITY_CONTROL, force=0.0, **self.options)

    def _couple(self, scene: Description) -> None:
        for a, b, factor, _ in scene.mimic:
            (body, first), (_, second) = self.where[a], self.where[b]
            axis = scene.links[a].axis.tolist()
            gear = self.pb.createConstraint(
                body, first, body, second, self.pb.JOINT_GEAR, axis, [0, 0, 0], [0, 0, 0], **self.options
            )
            self.pb.changeConstraint(gear, gearRatio=-factor, maxForce=1.0e4, erp=0.2, **self.options)

    def step(self, count: int) -> None:
        for _ in range(count):
            self.pb.stepSimulation(**self.options)

    def aim(self, targets: np.ndarray) -> None:
        moving = [i for i, link in enumerate(self.links) if link.joint not in WITHOUT_AXIS]
        for i, target in zip(moving, targets, strict=True):
            if self.links[i].drive is None:
                continue
            # PyBullet's own position motor, a constraint with a bounded force
            self.pb.setJointMotorControl2(
                *self.where[i],
                self.pb.POSITION_CONTROL,
                targetPosition=float(target),
                force=min(self.links[i].drive[2], 1.0e6),
                **self.options,
            )

    def positions(self) -> np.ndarray:
        found = []
        for i in range(len(self.links)):
            body, index = self.where[i]
            if index < 0:
                found.append(self.pb.getBasePositionAndOrientation(body, **self.options)[0])
            else:
                found.append(self.pb.getLinkState(body, index, **self.options)[0])
        return np.array(found)

    def contacts(self) -> int:
        return len(self.pb.getContactPoints(**self.options))
