"""One robot in PyBullet: a world of a model, written as URDF and loaded by it."""

from __future__ import annotations

import math
import os
import tempfile
import warnings
from typing import Any
from xml.etree import ElementTree

import numpy as np
from scipy.spatial.transform import Rotation

from newtonsim.dynamics import mass_matrix
from newtonsim.errors import ModelError, UnsupportedElementWarning
from newtonsim.geometry.transforms import transform_inverse, transform_multiply
from newtonsim.importers.writers.records import JointRecord
from newtonsim.importers.writers.scene import read_scene
from newtonsim.importers.writers.urdf.frames import roll_pitch_yaw
from newtonsim.scene.enums import ConstraintType, GeoType, JointMode, JointType
from newtonsim.scene.joint_types import least_effort
from newtonsim.scene.model import Model
from newtonsim.utils import export_urdf

_AXIS = (JointType.REVOLUTE, JointType.PRISMATIC)
_LITTLE = 1.0e-12
_ENTRIES = (("ixx", 0, 0), ("ixy", 0, 1), ("ixz", 0, 2), ("iyy", 1, 1), ("iyz", 1, 2), ("izz", 2, 2))
_NUMBERS = ("target_ke", "target_kd", "stiffness", "spring_ref", "damping", "effort_limit", "effort_lower")


def import_pybullet() -> Any:
    """Import and return PyBullet.

    Raises:
        ImportError: It is not installed.
    """
    try:
        import pybullet
    except ImportError as error:
        raise ImportError("pybullet is not installed: pip install pybullet") from error
    return pybullet


class RobotFile:
    """A world of a model as a URDF file for PyBullet.

    URDF has no rotor inertia: the armature of a revolute joint is added to the inertia of its link about the
    axis.

    Args:
        model: The model, whose worlds are copies of one robot, free or fixed at the origin, on a
            level ground.

    Attributes:
        scene: The world as records.
        joints: The joints with one axis, in the model's order.
        floats: Whether the base floats.
        names: Their names in the file, by index.
        links: Names of the links, by index of the body.
        moments: Principal moments of inertia by link, in the frames of the file's inertias [kg m²].

    Raises:
        ModelError: The world contains something else.
    """

    def __init__(self, model: Model):
        if tuple(model.up_vector) != (0.0, 0.0, 1.0):
            raise ModelError(f"PyBullet: expected a model whose up_vector is z, got {tuple(model.up_vector)}")
        self.model, self.scene = model, read_scene(model, 0)
        self.root = self._check()
        self.floats = self.root.kind == JointType.FREE
        self.joints = [joint for joint in self.scene.joints if joint.kind in _AXIS]
        self._folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self._folder.name, "robot.urdf")
        with warnings.catch_warnings():
            # drives, armature and materials are set from here
            warnings.simplefilter("ignore", UnsupportedElementWarning)
            report = export_urdf(model, self.path, world=0)
        self.names = {joint.index: report.joints[joint.index][0] for joint in self.joints}
        self.links = report.bodies
        self.moments = self._write_inertias()

    def _check(self) -> JointRecord:
        """Return the joint of the root, unless PyBullet cannot hold the world."""
        scene = self.scene
        roots = scene.below(-1)
        if len(roots) != 1 or any(body.joint is None for body in scene.bodies):
            raise ModelError(f"PyBullet: expected one robot in each world, got {max(len(roots), 1)} trees")
        if roots[0].kind not in (JointType.FREE, JointType.FIXED):
            raise ModelError(
                f"PyBullet: joint {roots[0].key!r}: expected a root that is free or fixed, "
                f"got {roots[0].kind.name}"
            )
        for joint in scene.joints:
            if joint is not roots[0] and joint.kind not in (*_AXIS, JointType.FIXED):
                raise ModelError(f"PyBullet: joint {joint.key!r}: type {joint.kind.name} is not supported")
        self._check_others()
        return roots[0]

    def _check_others(self) -> None:
        """Raise an error if the world has more than a tree on the ground."""
        scene = self.scene
        if scene.tendons or scene.tendon_equalities:
            raise ModelError("PyBullet: tendons are not supported")
        for constraint in scene.constraints:
            offset, _, *curve = constraint.coefficients
            if (
                constraint.kind != ConstraintType.COUPLING
                or None in constraint.coupled
                or offset
                or any(curve)
            ):
                raise ModelError(
                    f"PyBullet: constraint {constraint.key!r}: expected joints coupled by a factor"
                )
        for shape in scene.shapes:
            if shape.body < 0 and not (shape.is_ground and shape.kind == GeoType.PLANE):
                raise ModelError(f"PyBullet: shape {shape.key!r}: the world may contain only a level ground")

    def _write_inertias(self) -> dict[str, np.ndarray]:
        """Turn the frames of inertias to their principal axes; return the principal moments by link.

        They include armatures. PyBullet refuses moments that no rigid body has, as those of a light link on a
        geared motor: the file has equal ones instead.
        """
        tree = ElementTree.parse(self.path)
        armature = self._armatures(tree.getroot())
        moments: dict[str, np.ndarray] = {}
        for link in tree.iter("link"):
            inertial = link.find("inertial")
            if inertial is None:
                continue
            inertia, origin = inertial.find("inertia"), inertial.find("origin")
            assert inertia is not None
            matrix = armature.get(link.attrib["name"], np.zeros((3, 3))).copy()
            for name, i, k in _ENTRIES:
                own = float(inertia.attrib[name])
                matrix[i, k] += own
                matrix[k, i] += own if i != k else 0.0
            values, axes = np.linalg.eigh(matrix)
            axes[:, 2] *= np.sign(np.linalg.det(axes))
            if origin is None:
                origin = ElementTree.SubElement(inertial, "origin", xyz="0 0 0")
            angles = roll_pitch_yaw(Rotation.from_matrix(axes).as_quat())
            origin.attrib["rpy"] = " ".join(map(repr, angles.tolist()))
            inertia.attrib |= {name: repr(float(values.mean()) if i == k else 0.0) for name, i, k in _ENTRIES}
            moments[link.attrib["name"]] = values
        tree.write(self.path)
        return moments

    def _armatures(self, root: ElementTree.Element) -> dict[str, np.ndarray]:
        """Return what rotor inertia adds to the inertias of links (3, 3), by name."""
        of_name = {name: self.scene.joints[index] for index, name in self.names.items()}
        found = {}
        for element in root.iter("joint"):
            joint = of_name.get(element.attrib["name"])
            child, axis = element.find("child"), element.find("axis")
            if joint is None or joint.kind != JointType.REVOLUTE or child is None or axis is None:
                continue
            a = np.array([float(number) for number in axis.attrib["xyz"].split()])
            found[child.attrib["link"]] = joint.axes[0].armature * np.outer(a, a) / (a @ a)
        return found

    def longest_step(self) -> float:
        """Return the longest step in which explicit drives, springs and damping are far from unstable [s]."""
        if not self.joints:
            return math.inf
        mass = mass_matrix(self.model, self.model.state(), armature=False).numpy()[0].astype(float)
        for joint in self.joints:
            mass[joint.dof, joint.dof] += joint.axes[0].armature if joint.kind == JointType.REVOLUTE else 0.0
        # what a joint accelerates if all others are free
        inertias = 1.0 / np.diag(np.linalg.inv(mass))
        longest = math.inf
        for joint in self.joints:
            axis, inertia = joint.axes[0], float(inertias[joint.dof])
            damping = axis.damping + (0.0 if axis.mode == JointMode.FORCE else axis.target_kd)
            damping += axis.target_ke if axis.mode == JointMode.TARGET_VELOCITY else 0.0
            stiffness = axis.stiffness + (axis.target_ke if axis.mode == JointMode.TARGET_POSITION else 0.0)
            longest = min(
                longest, inertia / max(damping, _LITTLE), math.sqrt(inertia / max(stiffness, _LITTLE))
            )
        return longest

    def friction_of(self, body: int) -> float:
        """Return the friction between the shapes of a body and the ground; both coefficients' mean."""
        own = [shape.material["mu"] for shape in self.scene.shapes_of(body)]
        ground = [shape.material["mu"] for shape in self.scene.shapes if shape.is_ground]
        return 0.5 * (max(own) + ground[0]) if own and ground else 0.0

    def load(self, bullet: Any, client: int) -> BulletRobot:
        """Load the robot into an empty client of PyBullet, with the ground and gravity."""
        return BulletRobot(self, bullet, client)


class BulletRobot:
    """A robot in a client of PyBullet.

    Drives are forces, computed anew in each of its steps: those of the model, within their efforts.

    Args:
        file: The robot's file.
        bullet: PyBullet.
        client: Its client.
    """

    def __init__(self, file: RobotFile, bullet: Any, client: int):
        self._file, self._bullet, self._client = file, bullet, {"physicsClientId": client}
        self._load()
        self._set_materials()
        self._couple()
        joints = file.joints
        self._coords, self._dofs = (np.array([getattr(j, n) for j in joints], int) for n in ("coord", "dof"))
        self._axes = np.array([joint.axes[0].index for joint in joints], int)
        self._numbers = {
            name: np.array([getattr(joint.axes[0], name) for joint in joints], float) for name in _NUMBERS
        }
        modes = np.array([joint.axes[0].mode for joint in joints], int)
        self._positions, self._velocities = (
            modes == JointMode.TARGET_POSITION,
            modes == JointMode.TARGET_VELOCITY,
        )
        self._last: tuple[np.ndarray, np.ndarray] | None = None

    def _load(self) -> None:
        bullet, client, file = self._bullet, self._client, self._file
        bullet.setGravity(*file.scene.gravity.tolist(), **client)
        flags = bullet.URDF_USE_INERTIA_FROM_FILE
        if file.model.shape_contact_pair_count:
            flags |= bullet.URDF_USE_SELF_COLLISION | bullet.URDF_USE_SELF_COLLISION_EXCLUDE_PARENT
        self._id = bullet.loadURDF(file.path, useFixedBase=not file.floats, flags=flags, **client)
        count = bullet.getNumJoints(self._id, **client)
        infos = [bullet.getJointInfo(self._id, k, **client) for k in range(count)]
        number = {info[1].decode(): info[0] for info in infos}
        places = {info[12].decode(): info[0] for info in infos}
        self._joints = [number[file.names[joint.index]] for joint in file.joints]
        # the root of the file has no joint there
        self._link_of = {body: places.get(name, -1) for body, name in file.links.items()}
        for joint in file.joints:
            axis, k = joint.axes[0], number[file.names[joint.index]]
            # the motor that PyBullet gives each joint holds it; with the force of dry friction it is that
            bullet.setJointMotorControl2(
                self._id, k, bullet.VELOCITY_CONTROL, targetVelocity=0.0, force=axis.friction, **client
            )

    def _set_materials(self) -> None:
        bullet, client, file = self._bullet, self._client, self._file
        still = {"linearDamping": 0.0, "angularDamping": 0.0, "jointDamping": 0.0}
        for body, link in self._link_of.items():
            more = {"lateralFriction": file.friction_of(body), **still}
            moments = file.moments.get(file.links[body])
            if moments is not None:
                more["localInertiaDiagonal"] = moments.tolist()
            bullet.changeDynamics(self._id, link, **more, **client)
        if file.model.ground:
            *normal, d = np.asarray(file.model.ground_plane, float).tolist()
            plane = bullet.createCollisionShape(bullet.GEOM_PLANE, planeNormal=normal, **client)
            ground = bullet.createMultiBody(0.0, plane, basePosition=[-d * n for n in normal], **client)
            bullet.changeDynamics(ground, -1, lateralFriction=1.0, **client)

    def _couple(self) -> None:
        """Add gears for coupled joints."""
        bullet, file = self._bullet, self._file
        number = {joint.index: k for joint, k in zip(file.joints, self._joints)}
        for constraint in file.scene.constraints:
            (driven, _), (driver, _) = constraint.coupled  # pyright: ignore[reportGeneralTypeIssues]
            ends = self._id, number[driver], self._id, number[driven]
            gear = bullet.createConstraint(
                *ends, bullet.JOINT_GEAR, [1, 0, 0], [0, 0, 0], [0, 0, 0], **self._client
            )
            # PyBullet: velocity of the first plus ratio times that of the second is zero
            ratio = -1.0 / constraint.coefficients[1]
            bullet.changeConstraint(gear, gearRatio=ratio, erp=0.1, maxForce=1.0e4, **self._client)

    def place(self, q: np.ndarray, qd: np.ndarray) -> None:
        """Put the robot somewhere, unless it is there after its last step.

        Args:
            q: Coordinates of the model's joints in this world.
            qd: Their velocities.
        """
        if self._last is not None and all(np.array_equal(a, b) for a, b in zip(self._last, (q, qd))):
            return
        bullet, client = self._bullet, self._client
        for joint, coord, dof in zip(self._joints, self._coords, self._dofs):
            bullet.resetJointState(self._id, joint, float(q[coord]), float(qd[dof]), **client)
        if self._file.floats:
            root = self._file.root
            body = root.X_p.row(), q[root.coord : root.coord + 7], root.X_c.inverse().row()
            pose = transform_multiply(transform_multiply(body[0], body[1].astype(float)), body[2])
            pose = transform_multiply(pose, self._centre())
            bullet.resetBasePositionAndOrientation(self._id, pose[:3].tolist(), pose[3:].tolist(), **client)
            speed = qd[root.dof : root.dof + 6].tolist()
            bullet.resetBaseVelocity(self._id, speed[3:], speed[:3], **client)

    def _centre(self) -> np.ndarray:
        """Return the frame of the base's inertia in its link (7,), which is what PyBullet calls its pose."""
        info = self._bullet.getDynamicsInfo(self._id, -1, **self._client)
        return np.array([*info[3], *info[4]])

    def step(
        self, inputs: np.ndarray, efforts: np.ndarray, wrenches: np.ndarray, dt: float, parts: int
    ) -> None:
        """Make steps of the engine under constant inputs.

        Args:
            inputs: `joint_act` of the model's axes in this world.
            efforts: `joint_f` of its degrees of freedom.
            wrenches: (τ, f) at the centres of mass of its bodies, world axes, (bodies, 6).
            dt: Time of all steps [s].
            parts: Number of steps.
        """
        bullet, client = self._bullet, self._client
        bullet.setPhysicsEngineParameter(fixedTimeStep=dt / parts, numSubSteps=0, **client)
        pushed = np.flatnonzero(wrenches.any(axis=1))
        for _ in range(parts):
            if self._joints:
                forces = self._forces(inputs, efforts)
                mode = bullet.TORQUE_CONTROL
                bullet.setJointMotorControlArray(self._id, self._joints, mode, forces=forces, **client)
            for body in pushed:
                self._push(int(body), wrenches[body])
            bullet.stepSimulation(**client)

    def _forces(self, inputs: np.ndarray, efforts: np.ndarray) -> list[float]:
        """Return the forces of drives, springs, damping and inputs at the current state."""
        states = self._bullet.getJointStates(self._id, self._joints, **self._client)
        q, qd = (np.array([state[k] for state in states]) for k in (0, 1))
        n, act = self._numbers, inputs[self._axes]
        positions, velocities = self._positions, self._velocities
        drive = np.where(positions, n["target_ke"] * (act - q) - n["target_kd"] * qd, act)
        drive = np.where(velocities, n["target_ke"] * (act - qd), drive)
        drive = np.clip(drive, least_effort(n["effort_lower"], n["effort_limit"]), n["effort_limit"])
        passive = n["stiffness"] * (n["spring_ref"] - q) - n["damping"] * qd
        return (drive + passive + efforts[self._dofs]).tolist()

    def _push(self, body: int, wrench: np.ndarray) -> None:
        """Apply a torque and a force at the centre of mass of a body for the next step."""
        bullet, client, link = self._bullet, self._client, self._link_of[body]
        base = bullet.getBasePositionAndOrientation(self._id, **client)
        place = base[0] if link < 0 else bullet.getLinkState(self._id, link, **client)[0]
        torque, force = wrench[:3].tolist(), wrench[3:].tolist()
        bullet.applyExternalForce(self._id, link, force, place, bullet.WORLD_FRAME, **client)
        bullet.applyExternalTorque(self._id, link, torque, bullet.WORLD_FRAME, **client)

    def read(self, q: np.ndarray, qd: np.ndarray) -> None:
        """Write the coordinates and velocities after the last step into rows of the model's arrays."""
        bullet, client = self._bullet, self._client
        if self._joints:
            states = bullet.getJointStates(self._id, self._joints, **client)
            q[self._coords] = [state[0] for state in states]
            qd[self._dofs] = [state[1] for state in states]
        if self._file.floats:
            root = self._file.root
            pose = np.concatenate(bullet.getBasePositionAndOrientation(self._id, **client))
            pose = transform_multiply(pose, transform_inverse(self._centre()))
            own = transform_multiply(transform_inverse(root.X_p.row()), pose)
            q[root.coord : root.coord + 7] = transform_multiply(own, root.X_c.row())
            velocity, spin = bullet.getBaseVelocity(self._id, **client)
            qd[root.dof : root.dof + 6] = [*spin, *velocity]
        self._last = q.copy(), qd.copy()
