"""What random programs call besides bodies in motion: mathematics, files, pictures, notes, loggers."""

from __future__ import annotations

import tempfile

import numpy as np
import pybullet

STRUCTURE_ONLY = frozenset(["getCameraImage", "getDebugVisualizerCamera"])
"""Functions whose numbers are a matter of taste: light, what a window would show."""
SDF_FILES = ("kiva_shelf/model.sdf",)
MJCF_FILES = ("mjcf/hopper.xml", "mjcf/sphere.xml", "mjcf/capsule.xml")
SPHERICAL = (pybullet.JOINT_SPHERICAL,)
MOVABLE = (pybullet.JOINT_REVOLUTE, pybullet.JOINT_PRISMATIC, pybullet.JOINT_SPHERICAL)
ARM, HAND = "kuka_iiwa/model.urdf", 6


class MoreCalls:
    """Operations of a program; see `random_programs.Program`, of which this is a part."""

    def ask_maths(self) -> None:
        """Functions without a world."""
        a, b = (self.unit_quaternion() for _ in range(2))
        x, y = self.vector(2.0), self.vector(2.0)
        name, args = self.pick(
            (
                ("getQuaternionFromEuler", (x,)),
                ("getEulerFromQuaternion", (a,)),
                ("getMatrixFromQuaternion", (a,)),
                ("multiplyTransforms", (x, a, y, b)),
                ("invertTransform", (x, a)),
                ("getQuaternionSlerp", (a, b, self.number(0.0, 1.0))),
                ("getQuaternionFromAxisAngle", (x, self.number(-3.0, 3.0))),
                ("getAxisAngleFromQuaternion", (a,)),
                ("getDifferenceQuaternion", (a, b)),
                ("getAxisDifferenceQuaternion", (a, b)),
                ("calculateVelocityQuaternion", (a, b, 0.1)),
                ("rotateVector", (a, x)),
                ("computeViewMatrix", (x, y, [0.0, 0.0, 1.0])),
                ("computeViewMatrixFromYawPitchRoll", (x, 2.0, *self.vector(80.0), 2)),
                ("computeProjectionMatrix", (-1.0, 1.0, -0.5, 0.5, 0.1, 5.0)),
                ("computeProjectionMatrixFOV", (self.number(20.0, 90.0), 1.5, 0.1, 9.0)),
            )
        )
        self.call(name, *args)

    def ask_client(self) -> None:
        self.call(
            self.pick(("isConnected", "getConnectionInfo", "getAPIVersion", "isNumpyEnabled", "syncBodyInfo"))
        )

    def set_world(self) -> None:
        name, args = self.pick(
            (
                ("setTimeStep", (self.pick((1 / 240, 1 / 120, 1 / 500)),)),
                ("setDefaultContactERP", (self.number(0.05, 0.3),)),
                ("setRealTimeSimulation", (0,)),
                ("setInternalSimFlags", (0,)),
                ("setTimeOut", (self.number(1.0, 9.0),)),
                ("setGravity", (0.0, 0.0, self.number(-12.0, 0.0))),
            )
        )
        self.call(name, *args)

    def begin_anew(self) -> None:
        self.call("resetSimulation")
        if self.sweeps:
            self.solve_well()
        for known in (self.bodies, self.shapes, self.constraints, self.states, self.notes, self.grounds):
            known.clear()
        self.forgot |= bool(self.analysed)

    # -- what is made ----------------------------------------------------------------------------------------

    def load_many(self) -> None:
        """Files with several bodies; what is heavy is placed apart, grounds stay where they are."""
        is_mjcf = self.rng.random() >= 0.5
        if not is_mjcf:
            made = self.call("loadSDF", self.pick(SDF_FILES))
        else:
            made = self.call("loadMJCF", self.pick(MJCF_FILES))
        for body in made or ():
            self.took_in(body)
            if is_mjcf:
                self.fragile.add(body)
            if self.p.getDynamicsInfo(body, -1, self.client)[0] == 0.0:
                self.grounds.add(body)
                continue
            self.call("resetBasePositionAndOrientation", body, self.place(), [0.0, 0.0, 0.0, 1.0])

    def make_shapes(self) -> None:
        """No body gets them: PyBullet tells foreign memory as id of its second collision shape."""
        kinds = [pybullet.GEOM_SPHERE, pybullet.GEOM_BOX]
        sizes = {"radii": [self.number(0.05, 0.3)] * 2, "halfExtents": [[0.1, 0.2, 0.1]] * 2}
        self.call(self.pick(("createCollisionShapeArray", "createVisualShapeArray")), kinds, **sizes)

    def make_visual(self) -> None:
        colour = [self.number(0.0, 1.0) for _ in range(4)]
        self.call("createVisualShape", pybullet.GEOM_SPHERE, radius=0.2, rgbaColor=colour)

    # -- joints ----------------------------------------------------------------------------------------------

    def sense(self) -> None:
        self.call("enableJointForceTorqueSensor", *self.joint(), int(self.rng.integers(2)))

    def reset_joints(self) -> None:
        body, joint = self.joint(MOVABLE)
        angle, rate = [self.number(-0.5, 0.5)], [self.number(-0.5, 0.5)]
        if self.kind_of(body, joint) in SPHERICAL:
            angle, rate = self.unit_quaternion(), self.vector(0.3)
        if self.rng.random() < 0.5:
            self.call("resetJointStateMultiDof", body, joint, angle, rate)
        else:
            self.call("resetJointStatesMultiDof", body, [joint], [angle], [rate])

    def motor_of_axes(self) -> None:
        body, joint = self.joint()
        control = {"targetPosition": [self.number(-0.3, 0.3)], "force": [self.number(1.0, 20.0)]}
        if self.rng.random() < 0.5:
            self.call("setJointMotorControlMultiDof", body, joint, pybullet.POSITION_CONTROL, **control)
        else:
            arrays = {f"{name}s": [value] for name, value in control.items()}
            self.call("setJointMotorControlMultiDofArray", body, [joint], pybullet.POSITION_CONTROL, **arrays)

    def ask_joints_of_axes(self) -> None:
        body = self.body()
        self.call("getJointStatesMultiDof", body, list(range(len(self.bodies.get(body, ())))))

    def reach(self) -> None:
        """An arm that stands and is straight up to small angles."""
        arm = self.call("loadURDF", ARM, self.place(), useFixedBase=1)
        self.took_in(arm)
        if not isinstance(arm, int) or not self.analyse(arm):
            return
        base = self.call("getBasePositionAndOrientation", arm)[0]
        for joint in range(HAND + 1):
            self.p.resetJointState(arm, joint, self.number(-0.4, 0.4), physicsClientId=self.client)
        target = [float(base[k]) + self.number(*((-0.3, 0.3), (-0.3, 0.3), (0.6, 0.9))[k]) for k in range(3)]
        if self.rng.random() < 0.5:
            self.call("calculateInverseKinematics", arm, HAND, target, maxNumIterations=5)
        else:
            self.call("calculateInverseKinematics2", arm, [HAND], [target], maxNumIterations=5)

    # -- pictures, notes, windows, loggers -------------------------------------------------------------------

    def look(self) -> None:
        name, args = self.pick(
            (
                ("getCameraImage", (12, 8)),
                ("changeVisualShape", (self.there(), -1, -1)),
                ("resetVisualShapeData", (self.there(), -1, -1)),
                ("getVisualShapeData", (self.body(),)),
                ("loadTexture", ("no_such_picture.png",)),
            )
        )
        more = {"rgbaColor": [0.1, 0.2, 0.3, 1.0]} if len(args) == 3 else {}
        self.call(name, *args, **more)

    def note(self) -> None:
        body, key = self.body(), self.pick(("colour", "name", "weight"))
        link = int(self.rng.integers(-1, 2))
        choice = self.rng.integers(6)
        if choice <= 1:
            made = self.call("addUserData", body, key, str(self.number(0.0, 9.0)), link)
            if isinstance(made, int) and made >= 0:
                self.notes.append(made)
        elif choice == 2:
            self.call("getUserData", self.pick(self.notes))
        elif choice == 3:
            self.call("getUserDataId", body, key, link)
        elif choice == 4:
            self.ask_notes(body)
        else:
            self.call("removeUserData", self.pick(self.notes))
            self.call("syncUserData")

    def ask_notes(self, body: int) -> None:
        """PyBullet reads foreign memory where there is no note."""
        count = self.call("getNumUserData", body)
        for place in range(count or 0):
            self.call("getUserDataInfo", body, place)

    def draw(self) -> None:
        """Without a window these are answered and do nothing."""
        a, b = self.vector(1.0), self.vector(1.0)
        name, args = self.pick(
            (
                ("addUserDebugLine", (a, b)),
                ("addUserDebugPoints", ([a, b], [a, b])),
                ("addUserDebugText", ("here", a)),
                ("addUserDebugParameter", ("gain", 0.0, 1.0, 0.5)),
                ("readUserDebugParameter", (0,)),
                ("removeUserDebugItem", (0,)),
                ("removeAllUserDebugItems", ()),
                ("removeAllUserParameters", ()),
                ("setDebugObjectColor", (self.there(), -1, [1.0, 0.0, 0.0])),
                ("configureDebugVisualizer", (pybullet.COV_ENABLE_GUI, 0)),
                ("resetDebugVisualizerCamera", (2.0, 30.0, -20.0, a)),
                ("getDebugVisualizerCamera", ()),
                ("getKeyboardEvents", ()),
                ("getMouseEvents", ()),
                ("getVREvents", ()),
                ("setVRCameraState", (a,)),
            )
        )
        self.call(name, *args)

    def log(self) -> None:
        """Start a logger and end one; the files are compared by test_logging."""
        with tempfile.NamedTemporaryFile(suffix=".log") as file:
            kind = self.pick((pybullet.STATE_LOGGING_GENERIC_ROBOT, pybullet.STATE_LOGGING_CONTACT_POINTS))
            logger = self.call("startStateLogging", kind, file.name)
            self.call("submitProfileTiming", "a program")
            self.call("stopStateLogging", logger if isinstance(logger, int) else 0)

    def plug(self) -> None:
        plugin = self.call("loadPlugin", "no_such_plugin")
        self.call("executePluginCommand", -1, "nothing")
        self.call("unloadPlugin", plugin if isinstance(plugin, int) else -1)

    # -- drawing ---------------------------------------------------------------------------------------------

    def unit_quaternion(self) -> list[float]:
        """A random rotation."""
        q = self.rng.normal(size=4)
        return (q / np.linalg.norm(q)).tolist()

    def kind_of(self, body: int, joint: int) -> int:
        """Type of a joint, -1 where there is none."""
        kinds = self.bodies.get(body, ())
        return kinds[joint] if 0 <= joint < len(kinds) else -1

    def there(self) -> int:
        """A body that is there, if there is one."""
        return self.pick(self.bodies)


MORE_OPERATIONS: dict[str, float] = {
    **dict.fromkeys(("ask_maths", "note", "look", "draw"), 1.5),
    **dict.fromkeys(("reset_joints", "motor_of_axes", "ask_joints_of_axes", "sense", "reach"), 1.0),
    **dict.fromkeys(("ask_client", "set_world", "make_shapes", "make_visual", "load_many"), 0.8),
    **dict.fromkeys(("log", "plug", "begin_anew"), 0.4),
}
"""How often what is drawn."""
