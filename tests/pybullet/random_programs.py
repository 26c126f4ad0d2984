"""Random programs of 50 calls, run in lockstep under the real module and ours, and a count of what differs.

    python tests/pybullet/random_programs.py 0 1000 [--sweeps 1000]

By default PyBullet makes 50 sweeps, which leave the forces of many an arm unsolved; with more of them only
what the engines do differently is left. Each seed is a program: bodies, shapes, motors, forces, constraints,
removal, saved states, queries and bad input, with at most ten steps. Programs run in a process of their own,
since PyBullet ends some.
"""

import argparse
import subprocess
import sys

import numpy as np
import pybullet
import pybullet_data
from random_calls import MORE_OPERATIONS, STRUCTURE_ONLY, MoreCalls

import newtonsim.pybullet_compat as compat
from newtonsim.pybullet_compat.comparison.differences import Tolerances
from newtonsim.pybullet_compat.comparison.lockstep import DifferentCall, Lockstep

CALLS, STEPS = 50, 10
TOLERANCES = Tolerances(absolute=5.0e-3, relative=5.0e-2, structure_only=STRUCTURE_ONLY)
"""Metres, radians, newtons and their rates; forces and speeds of contacts are the roughest of them."""
FILES = ("cube_small.urdf", "sphere_small.urdf", "r2d2.urdf", "kuka_iiwa/model.urdf", "cartpole.urdf")
MODES = (pybullet.POSITION_CONTROL, pybullet.VELOCITY_CONTROL, pybullet.TORQUE_CONTROL)
GONE = 57
"""An id that nothing has."""


GRAZE = 2.0e-3
"""How far beside an edge a ray has to pass [m]: what a ray meets that grazes one is rounding in PyBullet."""
EARLY = 1.5e-3
"""PyBullet's rays end up to 1 mm before a face [m]: which of two links within this one meets is rounding."""
STRAIGHT = 0.99
"""Cosine of the angle between normals of one face, a round one too, at points so near to each other."""


class Program(MoreCalls):
    """One program, which is drawn while it runs.

    Args:
        seed: Its seed.
        run: Both modules.
        trace: Whether calls are printed before they are made.
        sweeps: Sweeps in which the forces of a step are solved for, 0 for PyBullet's default.

    Attributes:
        lines: The calls so far, as a script would have them.
    """

    def __init__(self, seed: int, run: Lockstep, trace: bool = False, sweeps: int = 0):
        self.trace, self.sweeps = trace, sweeps
        self.rng, self.run, self.p = np.random.default_rng(seed), run, run.module
        self.lines: list[str] = []
        self.client, self.grounds = 0, set()
        self.steps = self.spawned = 0
        self.bodies: dict[int, list[int]] = {}
        self.shapes: list[int] = []
        self.constraints: list[int] = []
        self.states: list[int] = []
        self.notes: list[int] = []
        self.analysed: set[int] = set()
        self.stale: set[int] = set()
        self.fragile: set[int] = set()  # shapes of a hopper's links end PyBullet's process when asked for
        self.forgot = False  # a body whose dynamics were asked for

    def go(self) -> None:
        """Make all calls."""
        self.client = self.p.connect(self.p.DIRECT)
        try:
            if self.sweeps:
                self.solve_well()
            self.call("setAdditionalSearchPath", pybullet_data.getDataPath())
            if self.rng.random() < 0.8:
                self.call("setGravity", 0.0, 0.0, -9.81)
            if self.rng.random() < 0.7:
                ground = self.call("loadURDF", "plane.urdf")
                self.took_in(ground)
                self.grounds.add(ground)
            names, weights = zip(*OPERATIONS.items())
            chances = np.array(weights) / sum(weights)
            while len(self.lines) < CALLS:
                getattr(self, names[self.rng.choice(len(names), p=chances)])()
        finally:
            self.p.disconnect(self.client)

    def solve_well(self) -> None:
        """Have PyBullet make as many sweeps as are asked for."""
        solve = {"numSolverIterations": self.sweeps, "solverResidualThreshold": 0.0}
        self.p.setPhysicsEngineParameter(**solve, physicsClientId=self.client)

    # -- drawing ---------------------------------------------------------------------------------------------

    def call(self, name: str, *args, **keywords):
        """Call a function in both modules; None if it raises."""
        words = [*map(repr, args), *(f"{key}={value!r}" for key, value in keywords.items())]
        self.lines.append(f"p.{name}({', '.join(words)})")
        if self.trace:
            print(f"\n@   {self.lines[-1]}", flush=True)
        try:
            return getattr(self.p, name)(*args, **keywords, physicsClientId=self.client)
        except Exception:
            return None  # which the lockstep has compared

    def number(self, low: float, high: float) -> float:
        """A number between two, of four digits."""
        return float(f"{self.rng.uniform(low, high):.4g}")

    def vector(self, size: float, count: int = 3) -> list[float]:
        """A vector of numbers up to a size."""
        return [self.number(-size, size) for _ in range(count)]

    def quaternion(self) -> list[float]:
        """No rotation, or a random one."""
        if self.rng.random() < 0.5:
            return [0.0, 0.0, 0.0, 1.0]
        q = self.rng.normal(size=4)
        return (q / np.linalg.norm(q)).tolist()

    def place(self) -> list[float]:
        """A place for a new body, apart from the others."""
        self.spawned += 1
        return [3.0 * self.spawned, self.number(-0.2, 0.2), self.number(0.6, 2.0)]

    def pick(self, items, missing: int = GONE):
        """One of some items; the one that is missing if there are none."""
        items = list(items)
        return items[self.rng.integers(len(items))] if items else missing

    def body(self) -> int:
        """A body; rarely one that is not there."""
        return GONE if self.rng.random() < 0.03 else self.pick(self.bodies)

    def link(self, body: int) -> int:
        """A link of a body, often the base; rarely one that is not there."""
        count = len(self.bodies.get(body, ()))
        if self.rng.random() < 0.03:
            return count + 3
        return int(self.rng.integers(-1, count))

    def link_there(self, body: int) -> int:
        """A link of a body, often the base: PyBullet writes to foreign memory where there is none."""
        return int(self.rng.integers(-1, len(self.bodies.get(body, ()))))

    def joint(self, kinds=(pybullet.JOINT_REVOLUTE, pybullet.JOINT_PRISMATIC)) -> tuple[int, int]:
        """A body and one of its joints of some kinds; -1 as joint if there is none."""
        found = [
            (body, j) for body, types in self.bodies.items() for j, kind in enumerate(types) if kind in kinds
        ]
        return found[self.rng.integers(len(found))] if found else (self.body(), -1)

    def took_in(self, body) -> None:
        """Note a body that was made."""
        if isinstance(body, int) and body >= 0:
            count = self.p.getNumJoints(body, physicsClientId=self.client)
            self.fragile.discard(body)
            infos = [self.p.getJointInfo(body, joint, physicsClientId=self.client) for joint in range(count)]
            self.bodies[body] = [info[2] for info in infos]
            if self.forgot:
                self.stale.add(body)

    # -- what is made and removed ----------------------------------------------------------------------------

    def make_shape(self) -> None:
        kind = self.pick(
            (pybullet.GEOM_SPHERE, pybullet.GEOM_BOX, pybullet.GEOM_CAPSULE, pybullet.GEOM_CYLINDER)
        )
        keywords = {
            pybullet.GEOM_SPHERE: {"radius": self.number(0.05, 0.3)},
            pybullet.GEOM_BOX: {"halfExtents": [self.number(0.05, 0.3) for _ in range(3)]},
        }.get(kind, {"radius": self.number(0.05, 0.2), "height": self.number(0.1, 0.4)})
        if self.rng.random() < 0.2:
            keywords["collisionFramePosition"] = self.vector(0.1)
        shape = self.call("createCollisionShape", kind, **keywords)
        if isinstance(shape, int) and shape >= 0:
            self.shapes.append(shape)

    def make_body(self) -> None:
        mass = self.pick((0.0, 0.5, 1.0, 5.0))
        shape = self.pick((*self.shapes, -1), -1)
        self.took_in(self.call("createMultiBody", mass, shape, -1, self.place(), self.quaternion()))

    def make_chain(self) -> None:
        """Links have shapes: without inertia PyBullet's joints would not turn."""
        if not self.shapes:
            self.make_shape()
        count = int(self.rng.integers(1, 4))
        kinds = [
            self.pick((pybullet.JOINT_REVOLUTE, pybullet.JOINT_PRISMATIC, pybullet.JOINT_FIXED))
            for _ in range(count)
        ]
        axes = np.eye(3)[self.rng.integers(0, 3, count)].tolist()
        self.took_in(
            self.call(
                "createMultiBody",
                self.pick((0.0, 1.0)),
                self.pick(self.shapes, -1),
                -1,
                self.place(),
                linkMasses=[self.number(0.2, 2.0) for _ in range(count)],
                linkCollisionShapeIndices=[self.pick(self.shapes, -1) for _ in range(count)],
                linkVisualShapeIndices=[-1] * count,
                linkPositions=[self.vector(0.5) for _ in range(count)],
                linkOrientations=[[0.0, 0.0, 0.0, 1.0]] * count,
                linkInertialFramePositions=[[0.0, 0.0, 0.0]] * count,
                linkInertialFrameOrientations=[[0.0, 0.0, 0.0, 1.0]] * count,
                linkParentIndices=[int(self.rng.integers(0, i + 1)) for i in range(count)],
                linkJointTypes=kinds,
                linkJointAxis=axes,
            )
        )

    def load(self) -> None:
        fixed = int(self.rng.integers(0, 2))
        self.took_in(self.call("loadURDF", self.pick(FILES), self.place(), useFixedBase=fixed))

    def remove_body(self) -> None:
        body = self.body()
        self.call("removeBody", body)
        self.bodies.pop(body, None)
        self.forgot |= body in self.analysed
        self.grounds.discard(body)

    def constrain(self) -> None:
        parent = self.body()
        child = self.pick((*self.bodies, -1))
        kind = self.pick((pybullet.JOINT_FIXED, pybullet.JOINT_POINT2POINT))
        at = [0.0, 0.0, 0.0]
        if child == -1:
            pose = self.call("getBasePositionAndOrientation", parent)
            at = [float(x) for x in pose[0]] if pose else at
        made = self.call("createConstraint", parent, -1, child, -1, kind, [0, 0, 0], [0.0, 0.0, 0.0], at)
        if isinstance(made, int) and made >= 0:
            self.constraints.append(made)
            self.call("changeConstraint", made, maxForce=self.number(1.0, 50.0))

    def unconstrain(self) -> None:
        gone = self.pick(self.constraints)
        self.call("removeConstraint", gone)
        self.constraints = [one for one in self.constraints if one != gone]

    # -- what moves ------------------------------------------------------------------------------------------

    def step(self) -> None:
        if self.steps < STEPS:
            self.steps += 1
            self.call("stepSimulation")

    def motor(self) -> None:
        body, joint = self.joint()
        mode = self.pick(MODES)
        keywords = {"force": self.number(0.0, 20.0)}
        if mode == pybullet.POSITION_CONTROL:
            keywords |= {"targetPosition": self.number(-0.5, 0.5), "positionGain": self.number(0.0, 0.2)}
        if mode == pybullet.VELOCITY_CONTROL:
            keywords |= {"targetVelocity": self.number(-2.0, 2.0)}
        self.call("setJointMotorControl2", body, joint, mode, **keywords)

    def motors(self) -> None:
        body = self.body()
        count = len(self.bodies.get(body, ()))
        joints = sorted({int(j) for j in self.rng.integers(0, max(count, 1), 3)})
        targets = [self.number(-0.5, 0.5) for _ in joints]
        self.call("setJointMotorControlArray", body, joints, pybullet.POSITION_CONTROL, targets)

    def push(self) -> None:
        body = self.body()
        flags = self.pick((pybullet.WORLD_FRAME, pybullet.LINK_FRAME))
        at = self.vector(0.1)
        if flags == pybullet.WORLD_FRAME and (pose := self.call("getBasePositionAndOrientation", body)):
            at = [float(x) for x in pose[0]]
        self.call("applyExternalForce", body, self.link_there(body), self.vector(20.0), at, flags)

    def twist(self) -> None:
        body = self.body()
        flags = self.pick((pybullet.WORLD_FRAME, pybullet.LINK_FRAME))
        self.call("applyExternalTorque", body, self.link_there(body), self.vector(0.5), flags)

    def reset_base(self) -> None:
        """Not of the grounds, which would be anywhere among the others."""
        others = [body for body in self.bodies if body not in self.grounds]
        self.call("resetBasePositionAndOrientation", self.pick(others), self.place(), self.quaternion())

    def reset_speed(self) -> None:
        free = [body for body in self.bodies if self.p.getDynamicsInfo(body, -1, self.client)[0] > 0.0]
        self.call("resetBaseVelocity", self.pick(free), self.vector(1.0), self.vector(1.0))

    def reset_joint(self) -> None:
        body, joint = self.joint()
        self.call("resetJointState", body, joint, self.number(-0.5, 0.5), self.number(-0.5, 0.5))

    def change(self) -> None:
        body = self.body()
        choices = {
            "mass": self.number(0.3, 4.0),
            "lateralFriction": self.number(0.0, 1.0),
            "restitution": 0.0,
            "linearDamping": self.number(0.0, 0.2),
            "angularDamping": self.number(0.0, 0.2),
            "jointDamping": self.number(0.0, 0.5),
        }
        name = self.pick(choices)
        self.call("changeDynamics", body, self.link(body), **{name: choices[name]})
        if name == "mass" and body in self.analysed:
            self.stale.add(body)

    def filter(self) -> None:
        a, b = self.body(), self.body()
        if self.rng.random() < 0.5:
            self.call("setCollisionFilterPair", a, b, self.link(a), self.link(b), int(self.rng.integers(2)))
        else:
            self.call("setCollisionFilterGroupMask", a, self.link(a), 1, int(self.rng.integers(2)))

    def save(self) -> None:
        state = self.call("saveState")
        if isinstance(state, int) and state >= 0:
            self.states.append(state)

    def restore(self) -> None:
        self.call("restoreState", self.pick(self.states))

    def forget(self) -> None:
        gone = self.pick(self.states)
        self.call("removeState", gone)
        self.states = [one for one in self.states if one != gone]

    # -- what is asked ---------------------------------------------------------------------------------------

    def ask_body(self) -> None:
        body = self.body()
        name = self.pick(
            (
                *("getBasePositionAndOrientation", "getBaseVelocity", "getBodyInfo", "getNumJoints"),
                *("getAABB", "computeDofCount", "getVisualShapeData", "getNumUserData", "getContactPoints"),
            )
        )
        self.call(name, body)

    def ask_link(self) -> None:
        self.bring_up_to_date()
        body = self.body()
        name = self.pick(("getDynamicsInfo", "getAABB", "getCollisionShapeData"))
        link = self.link_there(body)
        if name != "getCollisionShapeData" or body not in self.fragile:
            self.call(name, body, link)

    def ask_link_state(self) -> None:
        body = self.body()
        link = max(self.link(body), 0)
        self.call("getLinkState", body, link, computeLinkVelocity=1, computeForwardKinematics=1)

    def ask_joint(self) -> None:
        body, joint = self.joint(range(8))
        self.call(self.pick(("getJointState", "getJointInfo", "getJointStateMultiDof")), body, joint)

    def ask_joints(self) -> None:
        body = self.body()
        self.call("getJointStates", body, list(range(len(self.bodies.get(body, ())))))

    def ask_world(self) -> None:
        name = self.pick(("getNumBodies", "getNumConstraints", "getPhysicsEngineParameters"))
        self.call(name)

    def ask_serial(self) -> None:
        name = self.pick(("getBodyUniqueId", "getConstraintUniqueId"))
        self.call(name, int(self.rng.integers(0, 4)))

    def ask_constraint(self) -> None:
        self.call(self.pick(("getConstraintInfo", "getConstraintState")), self.pick(self.constraints))

    def ask_closest(self) -> None:
        self.call("getClosestPoints", self.body(), self.body(), self.number(0.0, 2.0))

    def ask_overlaps(self) -> None:
        self.bring_up_to_date()
        corner = self.place()
        self.call("getOverlappingObjects", [x - 3.0 for x in corner], corner)

    def ask_ray(self) -> None:
        """From a gap between bodies to another: what a ray meets that starts in a sphere is rounding."""
        end = self.place()
        end[0] -= 1.5
        self.bring_up_to_date()
        start = [end[0] - 6.0, self.number(-0.1, 0.1), self.number(0.3, 2.0)]
        ways = (start, end), (end, start)
        if any(self.grazes(*way) or self.meets_two(*way) for way in ways):
            return
        if self.rng.random() < 0.5:
            self.call("rayTest", start, end)
        else:
            self.call("rayTestBatch", [start, end], [end, start])

    def grazes(self, start: list[float], end: list[float]) -> bool:
        """Whether a ray passes so near to an edge that rays beside it meet something else."""
        shifts = np.array([[0, 0, 0], [0, 1, 1], [0, 1, -1], [0, -1, 1], [0, -1, -1]]) * GRAZE
        rays = ((np.array(place) + shifts).tolist() for place in (start, end))
        hits = compat.rayTestBatch(*rays, physicsClientId=self.run.ours(self.client))
        link, normal = hits[0][:2], hits[0][4]
        bends = [hit[0] >= 0 and np.dot(hit[4], normal) < STRAIGHT for hit in hits]
        return any(bends) or any(hit[:2] != link for hit in hits)

    def meets_two(self, start: list[float], end: list[float]) -> bool:
        """Whether a second link is no further behind the first one than PyBullet's rays end before a face."""
        client = self.run.ours(self.client)
        (first,) = compat.rayTest(start, end, physicsClientId=client)
        if first[0] < 0:
            return False
        (second,) = compat.rayTestBatch([start], [end], reportHitNumber=1, physicsClientId=client)
        return second[0] >= 0 and np.linalg.norm(np.subtract(second[3], first[3])) < EARLY

    def bring_up_to_date(self) -> None:
        """Let PyBullet put links where they are for rays and boxes: after a step they are where they were."""
        for body, kinds in self.bodies.items():
            if kinds:
                joints = range(len(kinds))
                self.p.getLinkStates(body, joints, computeForwardKinematics=1, physicsClientId=self.client)
        self.p.performCollisionDetection(physicsClientId=self.client)

    def ask_dynamics(self) -> None:
        body = self.body()
        kinds = self.bodies.get(body, [])
        count = sum(kind != pybullet.JOINT_FIXED for kind in kinds)
        numbers = [self.number(-0.5, 0.5) for _ in range(count)]
        if not count or not self.analyse(body):
            return
        choice = self.rng.integers(3)
        if choice == 0:
            self.call("calculateMassMatrix", body, numbers)
        elif choice == 1:
            self.call("calculateInverseDynamics", body, numbers, numbers, numbers)
        else:
            link = max(self.link(body), 0)
            self.call("calculateJacobian", body, link, [0.0, 0.0, 0.0], numbers, numbers, numbers)

    def analyse(self, body: int) -> bool:
        """Whether PyBullet knows the dynamics of a body.

        It finds them by the place of a body in memory, where a body may have been that was removed, and does
        not notice other masses.
        """
        self.analysed.add(body)
        return body not in self.stale

    # -- what is wrong ---------------------------------------------------------------------------------------

    def bad(self) -> None:
        body = self.pick(self.bodies)
        name, args = self.pick(
            (
                ("getBodyInfo", ("a",)),
                ("getBodyInfo", ()),
                ("getBasePositionAndOrientation", (GONE,)),
                ("getLinkState", (body, GONE)),
                ("getJointInfo", (body, GONE)),
                ("getJointState", (body, GONE)),
                ("resetJointState", (body, GONE, 0.0)),
                ("resetBasePositionAndOrientation", (body, [0.0, 0.0], [0.0, 0.0, 0.0, 1.0])),
                ("resetBasePositionAndOrientation", (body, [0.0, 0.0, 1.0], [0.0, 0.0, 1.0])),
                ("resetBaseVelocity", (GONE, [0.0, 0.0, 0.0])),
                ("setJointMotorControl2", (body, GONE, pybullet.POSITION_CONTROL)),
                ("setJointMotorControlArray", (body, [GONE], pybullet.POSITION_CONTROL)),
                ("setJointMotorControlArray", (body, [0, 1, 2], pybullet.POSITION_CONTROL, [0.0])),
                ("applyExternalForce", (GONE, -1, [0.0, 0.0, 1.0], [0.0, 0.0, 0.0], 1)),
                ("applyExternalForce", (body, -1, [0.0, 0.0], [0.0, 0.0, 0.0], 1)),
                ("applyExternalTorque", (body, -1, [0.0, 0.0, 1.0], 7)),
                ("changeDynamics", (GONE, -1)),
                ("createMultiBody", (1.0, GONE)),
                ("createCollisionShape", (GONE,)),
                ("loadURDF", ("no_such_file.urdf",)),
                ("loadURDF", (5,)),
                ("removeConstraint", (GONE,)),
                ("changeConstraint", (GONE,)),
                ("getConstraintInfo", (GONE,)),
                ("restoreState", (GONE,)),
                ("removeState", (GONE,)),
                ("getClosestPoints", (GONE, body, 0.1)),
                ("rayTestBatch", ([[0.0, 0.0, 0.0]], [[1.0, 0.0, 0.0], [2.0, 0.0, 0.0]])),
                ("calculateMassMatrix", (GONE, [])),
                ("calculateInverseDynamics", (body, [0.0] * 40, [0.0], [0.0])),
                ("setGravity", (0.0, 0.0)),
                ("setGravity", (0.0, 0.0, "down")),
                ("getUserData", (GONE,)),
                ("getJointStates", (body, [GONE])),
                ("getAABB", (GONE,)),
                ("getCollisionShapeData", (GONE, -1)),
            )
        )
        self.call(name, *args)


OPERATIONS: dict[str, float] = {
    **dict.fromkeys(("make_shape", "make_body", "load", "step"), 6.0),
    **dict.fromkeys(("make_chain", "motor", "push", "bad"), 4.0),
    **dict.fromkeys(("ask_body", "ask_link", "ask_link_state", "ask_joint", "ask_joints"), 3.0),
    **dict.fromkeys(
        ("motors", "twist", "constrain", "reset_base", "reset_speed", "reset_joint", "change"), 2.0
    ),
    **dict.fromkeys(("ask_constraint", "ask_closest", "ask_ray", "ask_dynamics"), 2.0),
    **dict.fromkeys(("remove_body", "unconstrain", "filter", "save", "restore", "forget"), 1.5),
    **dict.fromkeys(("ask_world", "ask_serial", "ask_overlaps"), 1.0),
    **MORE_OPERATIONS,
}
"""How often what is drawn."""


def run_program(seed: int, trace: bool = False, sweeps: int = 0) -> tuple[Lockstep, list[str]]:
    """Run one program; return the comparison and its calls."""
    run = Lockstep(TOLERANCES)
    program = Program(seed, run, trace, sweeps)
    program.go()
    return run, program.lines


def describe(found: DifferentCall) -> str:
    """A differing call on one line."""
    return f"{found.name} | {found.number} {found.step} | {found.arguments} | {found.difference}"


def run_here(seeds: range, trace: bool, sweeps: int) -> None:
    """Run programs in this process; PyBullet writes to the output as well, so that lines have a mark."""
    for seed in seeds:
        print(f"\n@ seed {seed}", flush=True)
        run, _ = run_program(seed, trace, sweeps)
        if run.first is not None:
            print(f"\n@ first {describe(run.first)}", flush=True)
        for kind in run.kinds.values():
            if kind.worst is not None:
                print(f"\n@ worst {describe(kind.worst)}", flush=True)


def main() -> None:
    """Run the programs of a range of seeds, in a process that is replaced when PyBullet ends it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("first", type=int)
    parser.add_argument("end", type=int)
    parser.add_argument("--here", action="store_true", help="in this process")
    parser.add_argument("--trace", action="store_true", help="print calls before they are made")
    parser.add_argument("--sweeps", type=int, default=0, help="sweeps of PyBullet's solver (default: its 50)")
    options = parser.parse_args()
    if options.here:
        run_here(range(options.first, options.end), options.trace, options.sweeps)
        return
    seed, last, differing, ended = options.first, options.first, set(), 0
    while seed < options.end:
        command = [
            sys.executable,
            __file__,
            str(seed),
            str(options.end),
            "--here",
            *["--trace"] * options.trace,
            f"--sweeps={options.sweeps}",
        ]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, errors="replace"
        ) as process:
            for line in process.stdout:
                if line.startswith("@ seed "):
                    last = int(line.split()[2])
                elif line.startswith("@ first "):
                    differing.add(last)
                if line.startswith("@"):
                    print(f"{last}: {line[2:]}", end="", flush=True)
        if process.returncode:
            ended += 1
            print(f"{last}: the process ended with {process.returncode}", flush=True)
        seed = last + 1
    count = options.end - options.first
    print(f"{count} programs, {len(differing)} differ, {ended} end the process")


if __name__ == "__main__":
    main()
