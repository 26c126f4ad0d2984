"""Trajectories of ten scenes to the last bit, to see whether a change of the code changes any result.

    python benchmarks/trajectories.py write BEFORE.npz [--only SCENE ...] [--steps 1000]
    python benchmarks/trajectories.py compare BEFORE.npz AFTER.npz [--only SCENE ...]

`write` simulates on the CPU and keeps every tenth state and the last one, with contacts, forces and answers
to queries where there are any, and gradients of rollouts. All inputs are seeded. Worlds are stepped by one
thread; the robots by two as well. `compare` goes through the bytes of all arrays, where NaN equals NaN, and
prints a line for each scene: how many arrays differ, which was the first to do so and in which step, and the
largest difference. It exits with 1 if anything differs or is missing.

Write both files on the same machine with the same packages: other processors and other versions of Warp
round differently. The script imports only what packages export, and so runs unchanged before and after
modules have moved. It takes one to three minutes, and some more the first time, when kernels are compiled.
Each scene has several parts, which make all of the steps but for small environments and objects, and for
rollouts with gradients, which make a twentieth or less.

| scene | what is in it |
|---|---|
| robots | quadrupeds and arms on drives in four worlds; servos; all example robots; files written and read |
| heap | 60 bodies of seven shapes and concave meshes; bounces on a height field and a distance field |
| cloth | XPBD cloth, springs, rope, grains; VBD cloths on each other; cloth in a gripper |
| soft_body | blocks of tetrahedra under XPBD, VBD and SemiImplicit; a soft ball in a gripper |
| loops | four-bar linkages under all solvers; mimic joints; every type of joint and constraint |
| compliant | compliant contacts; quadrupeds, piles and an arm with a muscle under SemiImplicit |
| facade | PyBullet's calls: motors, constraints, rays, contacts, kinematics, pictures, soft bodies, objects |
| sleep | piles that fall asleep and wake; bodies with joints, drives and contacts under XPBD and VBD |
| env_rollout | 13 environments under random actions, with resets, random masses, pushes, pictures |
| gradient | rollouts through contact, bounces, loops, gears, cloth and soft bodies; linear models |
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import pathlib
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt
import warp as wp

import newtonsim
import newtonsim.pybullet_compat as p
from newtonsim import diff, dynamics, envs
from newtonsim.bullet_world import BulletWorld, Object
from newtonsim.examples import asset_path, scenes
from newtonsim.importers import parse_mjcf, parse_urdf, parse_usd
from newtonsim.render import Camera, look_at
from newtonsim.solvers import (
    BodyDamping,
    FeatherstoneSolver,
    JointDamping,
    PDForces,
    SemiImplicitSolver,
    ServoMode,
    SolverBase,
    VBDSolver,
    XPBDSolver,
)
from newtonsim.utils import export_mjcf, export_urdf, export_usd

DT = 1.0 / 240.0
"""Time step of scenes that do not say otherwise [s]."""

EVERY = 10
"""Steps from one sample to the next, and from one input to the next."""

STATE = ("joint_q", "joint_qd", "body_q", "body_qd", "particle_q", "particle_qd")

UPRIGHT = (math.sqrt(0.5), 0.0, 0.0, math.sqrt(0.5))
"""Rotation (xyzw) that turns y up to z."""

Arrays = Mapping[str, npt.ArrayLike | wp.array]
Inputs = Callable[[newtonsim.Simulator, int], None]
Make = Callable[[newtonsim.Model], SolverBase]


class Log:
    """Samples of named arrays of the parts of a scene.

    Args:
        steps: Steps that parts of the scene make.

    Attributes:
        arrays: By "part/name", a list of samples; those of "part/step" say after how many steps.
    """

    def __init__(self, steps: int):
        self.steps = steps
        self.arrays: dict[str, list[np.ndarray]] = {}

    def note(self, part: str, step: int, arrays: Arrays) -> None:
        """Keep copies of the arrays of a part; each sample of a part has the same ones."""
        for name, array in {"step": step, **arrays}.items():
            values = array.numpy() if isinstance(array, wp.array) else array
            self.arrays.setdefault(f"{part}/{name}", []).append(np.array(values))

    def run(
        self,
        part: str,
        sim: newtonsim.Simulator,
        act: Inputs = lambda sim, step: None,
        read: Callable[[], Arrays] = dict,
    ) -> None:
        """Step a simulation and keep its states.

        Args:
            part: Name of the part.
            sim: The simulation.
            act: Writes inputs for the steps that follow the given one.
            read: Returns what else is kept.
        """
        for step in range(0, self.steps, EVERY):
            act(sim, step)
            count = min(EVERY, self.steps - step)
            sim.step(count)
            self.note(part, step + count, {**state_arrays(sim.state), **read()})


def state_arrays(state: newtonsim.State) -> dict[str, wp.array]:
    """Return the arrays that a state has."""
    return {name: getattr(state, name) for name in STATE if getattr(state, name) is not None}


def forces_of(solver: FeatherstoneSolver, state: newtonsim.State) -> Callable[[], Arrays]:
    """Return a function that reads contacts, impulses and reactions of the last step."""

    def read() -> Arrays:
        arrays = {
            "contact_count": solver.contacts.world_count,
            "contact_force": solver.contact_forces(),
            "sweeps": solver.constraints.iterations,
            "residual": solver.constraints.residual,
            "joint_reaction": solver.joint_reactions(state),
        }
        if solver.model.constraint_count:
            arrays["constraint_force"] = solver.constraint_forces()
        if solver.sleep is not None:
            arrays["asleep"] = solver.sleep.asleep
        return arrays

    return read


def simulate(
    log: Log,
    part: str,
    builder: newtonsim.ModelBuilder,
    act: Inputs = lambda sim, step: None,
    **options: object,
) -> None:
    """Step what a builder holds by FeatherstoneSolver with hard contacts, and keep its forces too."""
    model = builder.finalize()
    solver = FeatherstoneSolver(model, **options)
    sim = newtonsim.Simulator(model, solver, DT, threads=1)
    log.run(part, sim, act, forces_of(solver, sim.state))


def new_builder(friction: float = 0.5, restitution: float = 0.0) -> newtonsim.ModelBuilder:
    """Return an empty builder, z up."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    builder.default_shape_mu, builder.default_shape_restitution = friction, restitution
    return builder


def pose(
    x: float = 0.0, y: float = 0.0, z: float = 0.0, axis: tuple = (0.0, 0.0, 1.0), angle: float = 0.0
) -> tuple:
    """Return a pose of seven numbers, turned about an axis of length one."""
    sine = math.sin(0.5 * angle)
    return (x, y, z, *(sine * component for component in axis), math.cos(0.5 * angle))


# --- robots ------------------------------------------------------------------------------------------------


def add_quadruped(builder: newtonsim.ModelBuilder) -> None:
    """Add our quadruped to an empty builder, on its feet and held by its drives."""
    parse_mjcf(asset_path("quadruped.xml"), builder, floating=None, ignore_inertial_definitions=False)
    home = builder.keyframes[0]
    builder.joint_q[:], builder.joint_act[:] = list(home["joint_q"]), list(home["joint_act"])


def add_arm(builder: newtonsim.ModelBuilder, x: float = 0.0, **options: float) -> None:
    """Add our arm of seven joints, bent forwards."""
    first = len(builder.joint_q)
    options = {"stiffness": 400.0, "damping": 40.0, "armature": 0.1} | options
    parse_urdf(
        asset_path("arm7.urdf"),
        builder,
        xform=pose(x),
        ignore_inertial_definitions=False,
        enable_self_collisions=False,
        **options,
    )
    builder.joint_q[first:] = [0.0, 0.5, 0.0, 1.2, 0.0, 0.6, 0.0]
    if options["stiffness"]:
        builder.joint_act[-7:] = builder.joint_q[first:]


def copies(world: newtonsim.ModelBuilder, count: int) -> newtonsim.ModelBuilder:
    """Return worlds side by side on one ground."""
    builder = new_builder()
    builder.replicate(world, count, spacing=(3.0, 3.0, 0.0))
    builder.set_ground_plane()
    return builder


def robots(log: Log) -> None:
    """Robots in reduced coordinates: drives, servos, torques, contact; and queries of their last state."""
    world = new_builder()
    add_quadruped(world)
    add_arm(world, 0.75)
    for part, threads in (("one thread", 1), ("two threads", 2)):
        model = copies(world, 4).finalize()
        solver = FeatherstoneSolver(model)
        sim = newtonsim.Simulator(model, solver, DT, threads=threads)
        log.run(part, sim, sway(sim), forces_of(solver, sim.state))
    ask(log, sim)
    servos(log)
    menagerie(log)
    read_again(log)
    if importlib.util.find_spec("mujoco") is not None:
        robot = new_builder()
        add_quadruped(robot)
        model = copies(robot, 2).finalize()
        sim = newtonsim.Simulator(model, newtonsim.MuJoCoSolver(model, use_mujoco=True), DT)
        log.run("mujoco", sim, sway(sim))


def sway(sim: newtonsim.Simulator) -> Inputs:
    """Return inputs: targets that swing about the first ones, pushes, and a world that starts anew."""
    rng = np.random.default_rng(1)
    middle = sim.control.joint_act.numpy().copy()
    size, phase = rng.uniform(0.1, 0.5, middle.shape), rng.uniform(0.0, 6.0, middle.shape)
    push = rng.normal(size=sim.state.body_f.numpy().shape) * (0.5, 0.5, 0.5, 5.0, 5.0, 5.0)
    again = np.arange(sim.model.world_count) == 1

    def act(sim: newtonsim.Simulator, step: int) -> None:
        sim.control.joint_act.assign(middle + size * np.sin(0.03 * step + phase))
        sim.state.body_f.assign(push * (300 <= step < 350))
        if step == 600:
            sim.reset(again)

    return act


def ask(log: Log, sim: newtonsim.Simulator) -> None:
    """Keep what functions of the state say: dynamics, kinematics, rays, distances, boxes, a picture."""
    model, state = sim.model, sim.state
    rng = np.random.default_rng(2)
    forces = wp.array(rng.normal(size=model.joint_dof_count), dtype=float)
    found = {
        "mass_matrix": dynamics.mass_matrix(model, state),
        "inverse_dynamics": dynamics.inverse_dynamics(model, state, forces),
        "forward_dynamics": dynamics.forward_dynamics(model, state, forces),
        "jacobian": dynamics.jacobian(model, state),
        "center_of_mass": dynamics.center_of_mass(model, state),
        "kinetic_energy": dynamics.kinetic_energy(model, state),
        "potential_energy": dynamics.potential_energy(model, state),
    }
    twin = state.clone()
    newtonsim.eval_ik(model, state, twin.joint_q, twin.joint_qd)
    newtonsim.eval_fk(model, twin.joint_q, twin.joint_qd, None, twin)
    found |= {f"read_{name}": array for name, array in state_arrays(twin).items()}
    query = newtonsim.SceneQuery(model).update(state)
    origins = rng.uniform((-4.0, -4.0, 1.0), (4.0, 4.0, 9.0), (model.world_count, 200, 3))
    ways = rng.uniform((-2.0, -2.0, -7.0), (2.0, 2.0, -3.0), origins.shape)
    hits = query.rays(origins, ways, max_hits=2)
    found |= {f"ray_{name}": getattr(hits, name) for name in ("distance", "shape", "point", "normal")}
    near = query.closest(query.bodies([0, 3]), query.bodies([20, 21]))
    found |= {f"near_{name}": getattr(near, name) for name in ("distance", "normal", "point_a", "point_b")}
    lower = rng.uniform(-2.0, 2.0, (model.world_count, 20, 3))
    found["boxes"] = query.shapes_in_boxes(lower, lower + 1.0).shape
    found["contacts"] = sim.solver.contacts.rigid_contact_count
    view = look_at((2.5, -2.0, 1.5), (0.0, 0.0, 0.2))
    camera = Camera(model, 48, 36, pose=view, outputs=("rgb", "depth", "normal", "body"), threads=1)
    found |= {f"picture_{name}": array for name, array in camera.render(state).items()}
    log.note("queries", log.steps, found)


def servos(log: Log) -> None:
    """Motors as constraints, damping before each step, bounded speeds, Coriolis forces at the start."""
    world = new_builder()
    parse_mjcf(asset_path("humanoid.xml"), world, floating=None, ignore_inertial_definitions=False)
    add_arm(world, 1.5, stiffness=0.0, damping=0.0)
    model = copies(world, 2).finalize()
    solver = FeatherstoneSolver(model, servos=True, speed_limit=8.0, coriolis="start")
    drag, friction, springs = BodyDamping(model), JointDamping(model), PDForces(model)
    drag.linear.fill_(0.2)
    friction.damping.fill_(0.05)
    dofs = model.joint_dof_count // 2
    springs.kp.assign(np.tile(np.arange(dofs) >= dofs - 7, 2) * 5.0)
    springs.max_force.fill_(20.0)
    solver.before_step = (drag, friction, springs)
    modes = np.full((2, dofs), int(ServoMode.OFF))
    modes[:, 6:-7], modes[:, -7:] = int(ServoMode.PD), int(ServoMode.VELOCITY)
    gains, forces = np.zeros((2, dofs)), np.full((2, dofs), 100.0)
    gains[:, 6:-7], gains[:, -7:] = 20.0, 0.1
    motors = solver.servos
    motors.mode.assign(modes.reshape(-1))
    motors.kp.assign(gains.reshape(-1))
    motors.max_force.assign(forces.reshape(-1))
    middle = model.joint_q.numpy().copy()

    def act(sim: newtonsim.Simulator, step: int) -> None:
        motors.target_q.assign(middle + 0.4 * np.sin(0.02 * step + np.arange(len(middle))))

    sim = newtonsim.Simulator(model, solver, DT, substeps=2, threads=1)
    forces_now = forces_of(solver, sim.state)
    log.run("servos", sim, act, lambda: {**forces_now(), "applied": motors.applied})


def menagerie(log: Log) -> None:
    """All other robots that come with the examples, on one ground, under random forces."""
    builder = new_builder(0.8)
    names = ["ant", "half_cheetah", "hopper", "humanoid", "walker", "racecar", "reacher"]
    for number, name in enumerate([*names, "inverted_double_pendulum", "double_pendulum"]):
        place = pose(0.0, 3.0 * number)
        path, options = asset_path(f"{name}.xml"), {"floating": None, "ignore_inertial_definitions": False}
        parse_mjcf(path, builder, xform=place, **options)
    parse_urdf(asset_path("cartpole.urdf"), builder, xform=pose(0.0, -3.0, 1.0), stiffness=0.0, damping=0.0)
    builder.set_ground_plane()
    rng = np.random.default_rng(3)

    def act(sim: newtonsim.Simulator, step: int) -> None:
        sim.control.joint_f.assign(0.3 * rng.normal(size=sim.model.joint_dof_count))

    simulate(log, "menagerie", builder, act)


def read_again(log: Log) -> None:
    """Robots written as MJCF, URDF and USD, and read from there."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("quadruped", "half_cheetah", "double_pendulum"):
            source = new_builder()
            parse_mjcf(asset_path(f"{name}.xml"), source, floating=None, ignore_inertial_definitions=False)
            model = source.finalize()
            for kind, export, parse in (
                ("mjcf", export_mjcf, parse_mjcf),
                ("urdf", export_urdf, parse_urdf),
                ("usda", export_usd, parse_usd),
            ):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", newtonsim.UnsupportedElementWarning)
                    ending = "xml" if kind == "mjcf" else kind
                    report = export(model, pathlib.Path(folder, f"{name}.{ending}"))
                    builder = new_builder()
                    parse(report.path, builder, **report.read_with)
                builder.set_ground_plane()
                simulate(log, f"{name}, {kind}", builder)


# --- heap --------------------------------------------------------------------------------------------------


def heap(log: Log) -> None:
    """Piles: spheres, boxes, capsules, cylinders, cones, ellipsoids, hulls and concave meshes."""
    builder = scenes.ball_pit(50, seed=4)
    for number in range(10):
        place = pose(0.25 * (number % 5) - 0.5, 0.5 * (number // 5) - 0.2, 0.5, (0.6, 0.0, 0.8), number)
        builder.add_shape_mesh(builder.add_body(origin=place), mesh=bracket(), convex=number % 2 == 0)
    simulate(log, "pit", builder)
    simulate(log, "hills", bounces(), cone="pyramidal", friction_combine="product")
    simulate(log, "cards", scenes.card_house(), direct_cost=0.0)
    simulate(log, "bolt", scenes.bolt_in_box(convex=False))


def bracket(size: float = 0.06) -> newtonsim.Mesh:
    """Return an L of square section as a closed concave mesh."""
    outline = size * np.array([(-1, -1), (1, -1), (1, -0.4), (-0.4, -0.4), (-0.4, 1), (-1, 1)])
    n = len(outline)
    vertices = np.concatenate([np.column_stack([outline, np.full(n, z)]) for z in (-0.3 * size, 0.3 * size)])
    faces = np.array([[0, 1, 2], [0, 2, 3], [0, 3, 4], [0, 4, 5]])
    here, there = np.arange(n), np.roll(np.arange(n), -1)
    sides = [np.column_stack([here, there, there + n]), np.column_stack([here, there + n, here + n])]
    return newtonsim.Mesh(vertices, np.concatenate([faces[:, ::-1], faces + n, *sides]))


def bounces() -> newtonsim.ModelBuilder:
    """Return bodies that bounce, roll and spin on a height field and on a distance field."""
    builder = new_builder(0.8, 0.5)
    x = np.linspace(0.0, 6.0, 25)
    hills = newtonsim.Heightfield(0.1 * np.sin(x)[:, None] * np.cos(x)[None, :], (3.0, 3.0))
    builder.add_shape_heightfield(-1, rot=UPRIGHT, heightfield=hills)
    builder.add_shape_sdf(-1, pos=(0.5, 0.5, 0.1), sdf=newtonsim.SDF.from_mesh(bracket(0.2), resolution=24))
    for number in range(12):
        x, y, z = 0.3 * (number % 4) - 0.2, 0.3 * (number // 4), 0.7 + 0.05 * number
        body = builder.add_body(origin=pose(x, y, z, (1.0, 0.0, 0.0), number))
        if number % 3 == 0:
            builder.add_shape_sphere(body, radius=0.07)
        elif number % 3 == 1:
            builder.add_shape_box(body, hx=0.08, hy=0.06, hz=0.05)
        else:
            builder.add_shape_capsule(body, radius=0.05, half_height=0.06)
    builder.shape_mu_torsion[:] = [0.01] * builder.shape_count
    builder.shape_mu_rolling[:] = [0.005] * builder.shape_count
    return builder


# --- cloth and soft bodies ---------------------------------------------------------------------------------


def add_cloth(
    builder: newtonsim.ModelBuilder, cells: int, corner: tuple, angle: float = 0.0, **options: object
) -> None:
    """Add a cloth of 0.8 m x 0.8 m and 0.2 kg."""
    cell = 0.8 / cells
    material = {"tri_ke": 100.0, "tri_ka": 100.0, "tri_kd": 0.01, "tri_drag": 0.02, "tri_lift": 0.02}
    material |= {"edge_ke": 1.0e-4, "edge_kd": 1.0e-6, "particle_radius": 0.2 * cell}
    builder.add_cloth_grid(
        corner,
        pose(angle=angle)[3:],
        (0.0, 0.0, 0.0),
        cells,
        cells,
        cell,
        cell,
        0.2 / (cells + 1) ** 2,
        **material | options,
    )


def soft_contact(model: newtonsim.Model, radius: float, ke: float = 200.0, kd: float = 1.0e-3) -> None:
    """Set how particles of a model touch."""
    model.soft_contact_radius, model.soft_contact_margin = radius, 1.75 * radius
    model.soft_contact_ke, model.soft_contact_kd, model.soft_contact_mu = ke, kd, 0.3


def particles(log: Log, part: str, builder: newtonsim.ModelBuilder, make: Make, dt: float = DT) -> None:
    """Step particles, and bodies if there are any, by the solver that `make` returns for the model."""
    model = builder.finalize()
    soft_contact(model, 0.01)

    def act(sim: newtonsim.Simulator, step: int) -> None:
        if step == 500:
            sim.reset(np.arange(model.world_count) == 1)

    log.run(part, newtonsim.Simulator(model, make(model), dt, threads=1), act)


def cloth(log: Log) -> None:
    """Cloth on a sphere, ropes and grains under XPBD; cloth on cloth under VBD; cloth in a gripper."""
    builder = new_builder()
    builder.add_shape_sphere(-1, pos=(0.0, 0.0, 0.5), radius=0.2)
    builder.set_ground_plane()
    add_cloth(builder, 16, (-0.35, -0.4, 0.8))
    particles(log, "xpbd", builder, lambda model: XPBDSolver(model, iterations=6, particle_contact=False))

    world = new_builder()
    add_cloth(world, 6, (-0.4, -0.4, 0.4), 0.4, add_springs=True, spring_ke=20.0, spring_kd=0.01)
    builder = copies(world, 3)
    builder.add_shape_box(-1, hx=4.0, hy=0.1, hz=0.2)
    options = {"iterations": 2, "substeps": 2, "warm_start": 0.7, "enable_restitution": True}
    particles(log, "springs", builder, lambda model: XPBDSolver(model, **options))
    particles(log, "springs, vbd", builder, VBDSolver)
    particles(log, "springs, semi-implicit", builder, SemiImplicitSolver, 5.0e-4)

    builder = new_builder()
    builder.set_ground_plane()
    box = builder.add_body(origin=pose(0.3, 0.0, 0.15))
    builder.add_shape_box(box, hx=0.1, hy=0.1, hz=0.1, density=200.0)
    line = np.linspace((-0.2, 0.0, 0.6), (0.6, 0.0, 0.6), 13)
    builder.add_rope(line, (0.0, 0.0, 0.0), 0.2, 100.0, 0.1, particle_radius=0.02)
    grains = {"mass": 0.01, "jitter": 0.005, "radius_mean": 0.02}
    sizes = (4, 4, 4, 0.05, 0.05, 0.05)
    builder.add_particle_grid((0.1, -0.1, 0.3), pose()[3:], (0.0, 0.0, 0.0), *sizes, **grains)
    particles(log, "grains", builder, lambda model: XPBDSolver(model, iterations=4, substeps=2))

    builder = new_builder()
    builder.add_shape_sphere(-1, pos=(0.0, 0.0, 0.4), radius=0.15)
    builder.set_ground_plane()
    for number in range(2):
        add_cloth(builder, 9, (-0.3 - 0.1 * number, -0.4, 0.6 + 0.05 * number), 0.1 * number)
    builder.color(include_bending=True)
    model = builder.finalize()
    soft_contact(model, 0.2 * 0.8 / 9)
    solver = VBDSolver(model, iterations=5, handle_self_contact=True)
    log.run("vbd", newtonsim.Simulator(model, solver, 1.0 / 120.0, threads=1))

    grip(log, "gripper", scenes.gripper_and_cloth(12), scenes.CLOTH_SCRIPT, lambda model: VBDSolver(model))


def grip(
    log: Log, part: str, builder: newtonsim.ModelBuilder, script: scenes.GripperScript, make: Make
) -> None:
    """Let the gripper lift something that a solver of particles moves."""
    model = builder.finalize()
    solver = FeatherstoneSolver(model, deformables=make(model))
    sim = newtonsim.Simulator(model, solver, DT, threads=1)

    def act(sim: newtonsim.Simulator, step: int) -> None:
        sim.control.joint_act.assign(script.targets(step * DT))

    log.run(part, sim, act)


def soft_block(builder: newtonsim.ModelBuilder, cells: int, stiffness: float, height: float = 0.3) -> None:
    """Add a block of tetrahedra, tilted, and the ground."""
    builder.set_ground_plane()
    builder.add_soft_grid(
        (0.0, 0.0, height),
        pose(axis=(0.6, 0.8, 0.0), angle=0.3)[3:],
        (0.3, 0.0, 0.0),
        cells,
        cells,
        cells,
        *[0.3 / cells] * 3,
        density=300.0,
        k_mu=stiffness,
        k_lambda=stiffness,
        k_damp=2.0e-3,
        tri_ke=0.0,
        tri_ka=0.0,
        tri_kd=0.0,
    )
    builder.particle_radius[:] = [0.01] * builder.particle_count


def soft_body(log: Log) -> None:
    """A block that falls and slides under each solver; XPBD's lands on a box that can move."""
    builder = new_builder()
    box = builder.add_body(origin=pose(0.1, 0.1, 0.1))
    builder.add_shape_box(box, hx=0.2, hy=0.2, hz=0.1, density=500.0)
    soft_block(builder, 4, 2.0e4, 0.4)
    options = {"iterations": 2, "substeps": 4, "warm_start": 0.5}
    particles(log, "xpbd", builder, lambda model: XPBDSolver(model, **options))

    builder = new_builder()
    soft_block(builder, 3, 2.0e4)
    particles(log, "vbd", builder, lambda model: VBDSolver(model, iterations=8))

    builder = new_builder()
    soft_block(builder, 3, 2.0e4, 0.05)
    model = builder.finalize()
    soft_contact(model, 0.01, 2.0e3, 5.0)
    model.soft_contact_kf = 10.0
    log.run("semi-implicit", newtonsim.Simulator(model, SemiImplicitSolver(model), 5.0e-4, threads=1))

    ball = scenes.gripper_and_soft_ball(4)
    grip(log, "gripper", ball, scenes.GripperScript(), lambda model: XPBDSolver(model, 4, substeps=5))


# --- joints and constraints --------------------------------------------------------------------------------


def loops(log: Log) -> None:
    """Closed loops under all solvers, mimic joints, and every type of joint and constraint together."""
    simulate(log, "four-bar", scenes.four_bar())
    simulate(log, "swinging four-bar", scenes.four_bar(None))
    for part, speed, make, dt in (
        ("four-bar xpbd", 5.0, lambda m: XPBDSolver(m, iterations=8, substeps=2), DT),
        ("four-bar vbd", 5.0, lambda m: VBDSolver(m, iterations=8), DT),
        ("four-bar semi-implicit", None, lambda m: SemiImplicitSolver(m, joint_attach_kd=5.0), 2.0e-4),
    ):
        model = scenes.four_bar(speed).finalize()
        log.run(part, newtonsim.Simulator(model, make(model), dt, threads=1))
    script = scenes.GripperScript()

    def act(sim: newtonsim.Simulator, step: int) -> None:
        sim.control.joint_act.assign(script.targets(step * DT))

    for grasped in scenes.GRASPED:
        simulate(log, f"gripper, {grasped}", scenes.gripper(grasped), act)
    simulate(log, "constraints", chains(), wriggle)
    simulate(log, "constraints, 4 worlds", copies(chains(), 4), wriggle)


def wriggle(sim: newtonsim.Simulator, step: int) -> None:
    """Torques that change with time."""
    dofs = np.arange(sim.model.joint_dof_count)
    sim.control.joint_f.assign(0.2 * np.sin(0.05 * step + 1.3 * dofs))


def chains() -> newtonsim.ModelBuilder:
    """Return chains of every joint type with limits, drives, springs and friction, tied to each other."""
    builder = new_builder()
    ends = [add_chain(builder, number) for number in range(2)]
    builder.joint_damping[:] = [0.01] * len(builder.joint_damping)
    builder.joint_friction[:] = [0.02] * len(builder.joint_friction)
    builder.joint_stiffness[:] = [0.1] * len(builder.joint_stiffness)
    plate = builder.add_body(origin=pose(1.2, 0.25, 1.0))
    builder.add_shape_box(plate, hx=0.1, hy=0.1, hz=0.05)
    builder.add_constraint_distance(ends[0], plate, pose(0.3), pose(-0.1), max_distance=0.4)
    options = {"linear_compliance": 1.0e-4}
    builder.add_constraint_connect(ends[1], plate, (0.3, 0.0, 0.0), (0.0, 0.1, 0.0), **options)
    ball = builder.add_body(origin=pose(1.2, 0.25, 1.2))
    builder.add_shape_sphere(ball, radius=0.05)
    builder.add_constraint_weld(plate, ball, max_force=200.0, recovery_time=0.05)
    builder.add_builder(wheels())
    return builder


def wheels() -> newtonsim.ModelBuilder:
    """Return three wheels on hinges: two geared to each other, and a third that follows by a polynomial."""
    builder = new_builder()
    joints = []
    for number in range(3):
        wheel = builder.add_body()
        builder.add_shape_cylinder(wheel, radius=0.1, half_height=0.02)
        builder.add_articulation()
        place = pose(-0.5, 0.3 * number, 0.8)
        joints.append(builder.add_joint_revolute(-1, wheel, place, axis=(0.0, 1.0, 0.0), armature=0.0))
    builder.joint_qd[0] = 3.0
    builder.add_constraint_gear(joints[1], joints[0], -2.0)
    builder.add_constraint_coupling(joints[2], joints[0], (0.1, 0.2, 0.05), max_force=5.0)
    return builder


def add_chain(builder: newtonsim.ModelBuilder, number: int) -> int:
    """Add a chain of rods on four joints of different types, and return the last rod."""
    x, y, z = np.eye(3).tolist()
    drive = {"target": 0.3, "target_ke": 5.0, "target_kd": 0.5, "limit_lower": -0.5, "limit_upper": 1.0}
    ball = {"swing_limit": 0.6, "twist_lower": -0.3, "twist_upper": 0.3}
    axes = {"linear_axes": [newtonsim.JointAxis(x, -0.1, 0.1)], "angular_axes": [newtonsim.JointAxis(y)]}
    slide = {"axis": x, "limit_lower": -0.1, "limit_upper": 0.1}
    kinds = (
        (
            (builder.add_joint_revolute, {"axis": y, **drive}),
            (builder.add_joint_ball, ball),
            (builder.add_joint_universal, {"axis_0": y, "axis_1": z}),
            (builder.add_joint_prismatic, slide),
        ),
        (
            (builder.add_joint_compound, {"axis_0": x, "axis_1": y, "axis_2": z}),
            (builder.add_joint_d6, axes),
            (builder.add_joint_fixed, {}),
            (builder.add_joint_distance, {"max_distance": 0.05}),
        ),
    )
    builder.add_articulation()
    parent, frame = -1, pose(0.0, 0.5 * number, 1.2)
    for add, options in kinds[number]:
        body = builder.add_body()
        rod = {"radius": 0.02, "half_height": 0.11, "up_axis": 0, "density": 2000.0}
        builder.add_shape_capsule(body, pos=(0.15, 0.0, 0.0), **rod)
        add(parent, body, parent_xform=frame, **options)
        parent, frame = body, pose(0.3)
    return parent


# --- compliant contact and penalty forces ------------------------------------------------------------------


def compliant(log: Log) -> None:
    """Contacts as springs and dampers, in reduced coordinates, and joints as such as well."""
    robot = new_builder()
    add_quadruped(robot)
    soften(robot, 4.0e3, 60.0)
    robot.joint_q[2] += 0.02
    model = copies(robot, 3).finalize()
    solver = FeatherstoneSolver(model, contact_mode="compliant")
    sim = newtonsim.Simulator(model, solver, 1.0e-3, threads=1)
    log.run("quadrupeds", sim, sway(sim), lambda: {"contact_count": solver.contacts.world_count})

    builder = new_builder()
    for number in range(12):
        x, y = 0.25 * (number % 4), 0.25 * (number // 4)
        body = builder.add_body(origin=pose(x, y, 0.2, (1.0, 0.0, 0.0), number))
        if number % 2:
            builder.add_shape_box(body, hx=0.1, hy=0.08, hz=0.06)
        else:
            builder.add_shape_capsule(body, radius=0.07, half_height=0.06)
    soften(builder, 1.0e4, 50.0)
    builder.set_ground_plane(ke=1.0e4, kd=50.0, kf=100.0)
    for part, make in (
        ("pile", lambda model: FeatherstoneSolver(model, "compliant", slip_speed=2.0e-3)),
        ("pile, semi-implicit", lambda model: SemiImplicitSolver(model, friction_smoothing=2.0)),
    ):
        model = builder.finalize()
        log.run(part, newtonsim.Simulator(model, make(model), 5.0e-4, threads=1))

    robot.joint_target_kd[:] = [0.2 * value for value in robot.joint_target_kd]
    robot.joint_damping[:] = [0.2 * value for value in robot.joint_damping]
    robot.joint_q[2] -= 0.018
    model = copies(robot, 2).finalize()
    solver = SemiImplicitSolver(model, joint_attach_ke=1.0e4, joint_attach_kd=40.0)
    log.run("robots, semi-implicit", newtonsim.Simulator(model, solver, 2.0e-4, threads=1))

    builder = new_builder()
    add_arm(builder, stiffness=20.0, damping=0.5)
    links = [builder.body_key.index(f"link_{number}") for number in (2, 4)]
    muscle = {"f0": 200.0, "lm": 0.35, "lt": 0.1, "lmax": 0.3, "pen": 0.1}
    builder.add_muscle([-1, *links], [(0.2, 0.0, 0.3), (0.08, 0.0, 0.1), (0.08, 0.0, 0.1)], **muscle)
    model = builder.finalize()
    solver = SemiImplicitSolver(model, joint_attach_ke=1.0e4, joint_attach_kd=40.0)

    def act(sim: newtonsim.Simulator, step: int) -> None:
        sim.control.muscle_activations.fill_(0.5 + 0.5 * math.sin(0.01 * step))

    log.run("muscle", newtonsim.Simulator(model, solver, 2.0e-4, threads=1), act)


def soften(builder: newtonsim.ModelBuilder, ke: float, kd: float) -> None:
    """Give all shapes of a builder the same springs and dampers."""
    for values, value in (
        (builder.shape_material_ke, ke),
        (builder.shape_material_kd, kd),
        (builder.shape_material_kf, 2.0 * kd),
    ):
        values[:] = [value] * len(values)


# --- PyBullet's calls --------------------------------------------------------------------------------------

FLOOR = """<robot name="floor"><link name="floor"><inertial><mass value="0"/><inertia ixx="0" ixy="0" ixz="0"
iyy="0" iyz="0" izz="0"/></inertial><collision><geometry><plane normal="0 0 1"/></geometry></collision>
</link></robot>"""

CRATE = """<robot name="crate"><link name="crate"><contact><lateral_friction value="0.6"/></contact><inertial>
<mass value="0.5"/><inertia ixx="0.001" ixy="0" ixz="0" iyy="0.001" iyz="0" izz="0.001"/></inertial><visual>
<geometry><box size="0.1 0.1 0.1"/></geometry></visual><collision><geometry><box size="0.1 0.1 0.1"/>
</geometry></collision></link></robot>"""

WALKER = """<mujoco model="walker"><worldbody><body name="trunk" pos="0 0 0.35"><freejoint/>
<geom type="box" size="0.15 0.1 0.04" mass="2"/><body name="left" pos="0 0.12 0">
<joint name="left_hip" type="hinge" axis="0 1 0" range="-60 60" damping="0.1"/>
<geom type="capsule" size="0.03" fromto="0 0 0 0.05 0 -0.3" mass="0.3"/></body>
<body name="right" pos="0 -0.12 0"><joint name="right_hip" type="hinge" axis="0 1 0" range="-60 60"/>
<geom type="capsule" size="0.03" fromto="0 0 0 -0.05 0 -0.3" mass="0.3"/></body></body></worldbody>
</mujoco>"""

JOINTS = list(range(1, 8))
"""Of our arm, without the fixed one."""

ROOM = 60
"""Most contact points that are kept of a sample."""


def facade(log: Log) -> None:
    """A script with a robot, one with soft bodies, one with three worlds, and a world of objects."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "floor.urdf").write_text(FLOOR)
        (folder / "crate.urdf").write_text(CRATE)
        (folder / "walker.xml").write_text(WALKER)
        write_meshes(folder)
        for script, options in ((arm_at_work, ""), (soft_things, ""), (three_worlds, "--num_worlds=3")):
            p.connect(p.DIRECT, options=options)
            p.setAdditionalSearchPath(str(folder))
            try:
                script(log)
            finally:
                p.disconnect()
        objects(log, folder)


def write_meshes(folder: pathlib.Path) -> None:
    """Write a wedge and a cloth as OBJ, and a block of tetrahedra as VTK."""
    corners = [(x, y, z) for x in (0, 1) for y in (0, 1) for z in (0, 1) if (x, z) != (1, 1)]
    faces = ((1, 2, 4), (1, 4, 3), (1, 5, 2), (3, 4, 6), (2, 5, 6), (2, 6, 4), (1, 3, 6), (1, 6, 5))
    lines = [f"v {0.1 * x} {0.1 * y} {0.1 * z}" for x, y, z in corners]
    lines += [f"f {a} {b} {c}" for a, b, c in faces]
    (folder / "wedge.obj").write_text("\n".join(lines) + "\n")
    n = 8
    lines = [f"v {x / n - 0.5} {y / n - 0.5} 0" for y in range(n + 1) for x in range(n + 1)]
    for a in (x + (n + 1) * y + 1 for y in range(n) for x in range(n)):
        lines += [f"f {a} {a + 1} {a + n + 2}", f"f {a} {a + n + 2} {a + n + 1}"]
    (folder / "cloth.obj").write_text("\n".join(lines) + "\n")
    at = [(x, y, z) for z in range(3) for y in range(3) for x in range(3)]
    lines = ["# vtk DataFile Version 2.0", "block", "ASCII", "DATASET UNSTRUCTURED_GRID", "POINTS 27 double"]
    lines += [f"{0.1 * x - 0.1} {0.1 * y - 0.1} {0.1 * z - 0.1}" for x, y, z in at]
    # six around the diagonal of each cube
    ways = ((1, 4, 13), (1, 10, 13), (3, 4, 13), (3, 12, 13), (9, 10, 13), (9, 12, 13))
    cubes = [x + 3 * y + 9 * z for x, y, z in at if 2 not in (x, y, z)]
    lines += [f"CELLS {6 * len(cubes)} {30 * len(cubes)}"]
    for cube in cubes:
        for number, (a, b, c) in enumerate(ways):
            first, second = (a, b) if number in (0, 3, 4) else (b, a)
            lines.append(f"4 {cube} {cube + first} {cube + second} {cube + c}")
    lines += [f"CELL_TYPES {6 * len(cubes)}", *["10"] * (6 * len(cubes))]
    (folder / "block.vtk").write_text("\n".join(lines) + "\n")


def arm_at_work(log: Log) -> None:
    """An arm follows a circle among crates, holds one for a while, and everything is asked."""
    p.setGravity(0, 0, -9.81)
    p.loadURDF("floor.urdf")
    arm = p.loadURDF(str(asset_path("arm7.urdf")), useFixedBase=True)
    (walker,) = p.loadMJCF("walker.xml")
    p.resetBasePositionAndOrientation(walker, [-1.0, 0.0, 0.5], [0, 0, 0, 1])
    crates = [p.loadURDF("crate.urdf", [0.55, 0.0, 0.05 + 0.1 * k]) for k in range(4)]
    wedge = p.createCollisionShape(p.GEOM_MESH, fileName="wedge.obj")
    ball = p.createCollisionShape(p.GEOM_SPHERE, radius=0.06)
    places = ([0.3, 0.5, 0.2], [0.3, 0.5, 0.4])
    things = [p.createMultiBody(0.3, s, basePosition=x) for s, x in zip((wedge, ball), places)]
    p.changeDynamics(things[1], -1, restitution=0.7, rollingFriction=0.001, linearDamping=0.1)
    p.changeDynamics(0, -1, restitution=0.5, lateralFriction=0.8)
    hand = p.getNumJoints(arm) - 1
    p.enableJointForceTorqueSensor(arm, hand)
    for joint, angle in zip(JOINTS, (0.0, 0.5, 0.0, 1.2, 0.0, 0.6, 0.0)):
        p.resetJointState(arm, joint, angle)
    kinds = [p.getJointInfo(walker, joint)[2] for joint in range(p.getNumJoints(walker))]
    legs = [joint for joint, kind in enumerate(kinds) if kind == p.JOINT_REVOLUTE]
    held = saved = None
    for step in range(log.steps):
        if step % EVERY == 0:
            turn = 0.01 * step
            goal = [0.55 + 0.1 * math.cos(turn), 0.3 * math.sin(turn), 0.35 + 0.1 * math.sin(2.0 * turn)]
            angles = p.calculateInverseKinematics(arm, hand, goal, [1, 0, 0, 0], maxNumIterations=50)
            p.setJointMotorControlArray(arm, JOINTS, p.POSITION_CONTROL, angles, forces=[150.0] * 7)
            torques = [2.0 * math.sin(turn + leg) for leg in legs]
            p.setJointMotorControlArray(walker, legs, p.TORQUE_CONTROL, forces=torques)
        if step == 200:
            zero, below = [0, 0, 0], [0, 0, 0.1]
            held = p.createConstraint(arm, hand, crates[3], -1, p.JOINT_FIXED, zero, below, zero)
            p.changeConstraint(held, maxForce=200.0)
        elif step == 500:
            p.removeConstraint(held)
            saved = p.saveState()
        elif step == 700:
            p.restoreState(saved)
        elif step == 800:
            p.removeBody(things[0])
        p.applyExternalForce(things[1], -1, [0.3, 0.0, 0.0], [0, 0, 0], p.LINK_FRAME)
        p.stepSimulation()
        if is_noted(log, step):
            log.note("arm", step + 1, arm_answers(arm, hand, [walker, *crates, things[1]]))
    log.note("arm, at the end", log.steps, last_answers(arm, hand, crates[0]))


def is_noted(log: Log, step: int) -> bool:
    """Return whether what follows the given step is kept."""
    return step % EVERY == EVERY - 1 or step == log.steps - 1


def arm_answers(arm: int, hand: int, bodies: list[int]) -> Arrays:
    """Return joints, links, poses, velocities, contact points and rays."""
    states = p.getJointStates(arm, JOINTS)
    link = p.getLinkState(arm, hand, computeLinkVelocity=1)
    angles = np.arange(40) * (2.0 * math.pi / 40.0)
    ends = [[2.0 * math.cos(angle), 2.0 * math.sin(angle), 0.0] for angle in angles.tolist()]
    hits = p.rayTestBatch([[0.2, 0.1, 1.5]] * 40, ends)
    poses = [p.getBasePositionAndOrientation(body) for body in bodies]
    return {
        "joint": [(angle, speed, torque) for angle, speed, _, torque in states],
        "reaction": p.getJointState(arm, hand)[2],
        "link": np.concatenate(link),
        "pose": [np.concatenate(found) for found in poses],
        "velocity": [np.concatenate(p.getBaseVelocity(body)) for body in bodies],
        "contact": padded([flat(point) for point in p.getContactPoints()]),
        "ray": [flat(hit) for hit in hits],
    }


def flat(values: tuple) -> list[float]:
    """Return the numbers in a tuple of numbers and tuples."""
    return np.concatenate([np.atleast_1d(value) for value in values]).tolist()


def padded(rows: list[list[float]]) -> np.ndarray:
    """Return rows as an array of always the same size, with their number in one more row."""
    found = np.zeros((ROOM + 1, 24))
    found[0] = len(rows)
    for number, row in enumerate(rows[:ROOM], start=1):
        found[number, : len(row)] = row
    return found


def last_answers(arm: int, hand: int, crate: int) -> Arrays:
    """Return what is asked once: dynamics, boxes, distances, overlaps, a picture."""
    angles = [state[0] for state in p.getJointStates(arm, JOINTS)]
    speeds = [state[1] for state in p.getJointStates(arm, JOINTS)]
    near = [flat(point) for point in p.getClosestPoints(arm, crate, 5.0)]
    view = p.computeViewMatrix([1.5, 1.2, 1.0], [0.3, 0.0, 0.3], [0, 0, 1])
    lens = p.computeProjectionMatrixFOV(60.0, 4.0 / 3.0, 0.1, 10.0)
    _, _, colours, depth, labels = p.getCameraImage(64, 48, view, lens, renderer=p.ER_TINY_RENDERER)
    return {
        "mass_matrix": p.calculateMassMatrix(arm, angles),
        "inverse_dynamics": p.calculateInverseDynamics(arm, angles, speeds, [1.0] * 7),
        "jacobian": p.calculateJacobian(arm, hand, [0, 0, 0.05], angles, speeds, [0.0] * 7),
        "box": [p.getAABB(arm, link) for link in range(-1, hand + 1)],
        "near": padded(near),
        "overlaps": padded([list(pair) for pair in p.getOverlappingObjects([0, -1, 0], [1, 1, 1])]),
        "colours": colours,
        "depth": depth,
        "labels": labels,
    }


def soft_things(log: Log) -> None:
    """A cloth and a block of tetrahedra fall on a crate; the cloth hangs from an anchor."""
    p.resetSimulation(p.RESET_USE_DEFORMABLE_WORLD)
    p.setGravity(0, 0, -9.81)
    p.loadURDF("floor.urdf")
    crate = p.loadURDF("crate.urdf", [0.0, 0.0, 0.05])
    springs = {"useMassSpring": 1, "useBendingSprings": 1, "springElasticStiffness": 40.0}
    springs |= {"springDampingStiffness": 0.1, "springDampingAllDirections": 1, "frictionCoeff": 0.5}
    sheet = p.loadSoftBody("cloth.obj", [0.0, 0.0, 0.4], scale=0.8, mass=0.2, collisionMargin=0.01, **springs)
    p.createSoftBodyAnchor(sheet, 0, -1, -1)
    p.createSoftBodyAnchor(sheet, 8, crate, -1, [0.0, 0.0, 0.1])
    solid = {
        "useNeoHookean": 1,
        "NeoHookeanMu": 4000.0,
        "NeoHookeanLambda": 6000.0,
        "NeoHookeanDamping": 0.01,
    }
    block = p.loadSoftBody("block.vtk", [0.1, 0.0, 0.25], mass=0.5, collisionMargin=0.005, **solid)
    for step in range(log.steps):
        p.stepSimulation()
        if is_noted(log, step):
            found = {
                name: p.getMeshData(body, flags=p.MESH_DATA_SIMULATION_MESH)[1]
                for name, body in (("cloth", sheet), ("block", block))
            }
            log.note("soft", step + 1, {**found, "crate": flat(p.getBasePositionAndOrientation(crate))})


def three_worlds(log: Log) -> None:
    """An arm in three worlds, each with targets of its own, and a crate that falls from other heights."""
    p.setGravity(0, 0, -9.81)
    p.loadURDF("floor.urdf")
    arm = p.loadURDF(str(asset_path("arm7.urdf")), useFixedBase=True)
    crate = p.loadURDF("crate.urdf", [[0.5, 0.0, 0.1], [0.5, 0.1, 0.2], [0.5, 0.2, 0.3]])
    for step in range(log.steps):
        for joint in JOINTS:
            targets = 0.5 * np.sin(0.02 * step + joint + np.arange(3))
            p.setJointMotorControl2(arm, joint, p.POSITION_CONTROL, targetPosition=targets, force=100.0)
        p.stepSimulation()
        if is_noted(log, step):
            position, turn = p.getBasePositionAndOrientation(crate)
            angles = [p.getJointState(arm, joint)[0] for joint in JOINTS]
            found = {"position": position, "orientation": turn, "angles": angles}
            log.note("three worlds", step + 1, {**found, "contacts": [len(c) for c in p.getContactPoints()]})


def objects(log: Log, folder: pathlib.Path) -> None:
    """A robot carries an object that is attached to its hand, in the world and in three copies of it."""
    with BulletWorld("DIRECT") as world:
        robot = Object("robot", "robot", str(asset_path("arm7.urdf")), fixed_base=True)
        cup = Object("cup", "cup", str(folder / "crate.urdf"), [0.5, 0.0, 0.3])
        other = Object("other", "cup", str(folder / "crate.urdf"), [0.5, 0.3, 0.05])
        robot.attach(cup, link="link_7")
        for step in range(10):
            robot.set_joint_state("joint_1", 0.1 * step)
            world.simulate(10 * DT)
            found = {item.name: flat(item.get_position_and_orientation()) for item in (robot, cup, other)}
            log.note("objects", 10 * (step + 1), {**found, "box": cup.get_AABB()})
        robot.detach(cup)
        world.simulate(0.5)
        log.note("objects, let go", 220, {"cup": flat(cup.get_position_and_orientation())})
        with world.shadows(3) as several:
            several.place(other, [([x, 0.3, 0.2], [0.2, 0, 0, 0.98]) for x in (0.4, 0.5, 0.6)])
            several.simulate(0.5)
            log.note("objects, copies", 120, {"frames": several.frames(other), "cup": several.frames(cup)})


# --- sleep -------------------------------------------------------------------------------------------------


def sleep(log: Log) -> None:
    """Piles and jointed boxes that fall asleep, wake by a ball, a push and a call; the same under XPBD."""
    builder = new_builder()
    builder.replicate(piles(), 3, spacing=(4.0, 4.0, 0.0))
    builder.set_ground_plane()

    def act(sim: newtonsim.Simulator, step: int) -> None:
        push = np.zeros((sim.model.body_count, 6))
        push[1, 3] = 60.0 * (700 <= step < 720)
        sim.state.body_f.assign(push)
        if step == 850:
            sim.solver.wake(wp.array([True, False, True], dtype=bool))

    simulate(log, "islands", builder, act, sleep=True)
    simulate(log, "light sleep", builder, act, sleep=True, sleep_speed=0.05, sleep_time=0.1)
    for part, make in (
        ("xpbd", lambda model: XPBDSolver(model, iterations=6, substeps=2, enable_restitution=True)),
        ("vbd", lambda model: VBDSolver(model, iterations=6)),
    ):
        builder = piles()
        add_arm(builder, -1.0)
        world = new_builder()
        world.replicate(builder, 2, spacing=(4.0, 4.0, 0.0))
        world.set_ground_plane()
        model = world.finalize()
        sim = newtonsim.Simulator(model, make(model), DT, threads=1)
        log.run(part, sim, sway(sim))


def piles() -> newtonsim.ModelBuilder:
    """Return two boxes on each other, one alone, a hinged pair, a chain, and a ball high above the boxes."""
    builder = new_builder()
    for x, z in ((0.0, 0.1), (0.0, 0.3), (0.6, 0.1)):
        builder.add_shape_box(builder.add_body(origin=pose(x, 0.0, z)), hx=0.1, hy=0.1, hz=0.1)
    ball = builder.add_body(origin=pose(0.05, 0.0, 6.0))
    builder.add_shape_sphere(ball, radius=0.1, density=2000.0, restitution=0.3)
    lower, upper = (builder.add_body(origin=pose(0.0, 0.8, z)) for z in (0.1, 0.31))
    for body in (lower, upper):
        builder.add_shape_box(body, hx=0.19, hy=0.15, hz=0.1)
    builder.add_articulation()
    builder.add_joint_free(lower)
    frames = {"parent_xform": pose(0.0, 0.0, 0.1), "child_xform": pose(0.0, 0.0, -0.11)}
    builder.add_joint_revolute(lower, upper, axis=(0.0, 1.0, 0.0), armature=0.0, **frames)
    builder.add_articulation()
    parent = -1
    for number in range(3):
        link = builder.add_body()
        builder.add_shape_capsule(link, pos=(0.0, 0.0, -0.15), radius=0.03, half_height=0.1, up_axis=2)
        frame = pose(0.8, 0.5, 0.95) if number == 0 else pose(0.0, 0.0, -0.3)
        builder.add_joint_ball(parent, link, parent_xform=frame, armature=0.0)
        parent = link
    builder.joint_damping[:] = [0.02] * len(builder.joint_damping)
    return builder


# --- environments ------------------------------------------------------------------------------------------


def env_rollout(log: Log) -> None:
    """Tasks under random actions; episodes are short, and some worlds are reset now and then."""
    ranges = {"mass": (0.8, 1.2), "friction": (0.5, 1.25), "strength": (0.9, 1.1), "gains": (0.8, 1.2)}
    pushed = {"randomise": {**ranges, "push_seconds": 1.0, "push_force": 5.0}}
    terrain = {"levels": 3, "kinds": ["rough", "stairs_up"]}
    for name, worlds, share, options in (
        ("Ant", 6, 1.0, pushed),
        ("HalfCheetah", 6, 1.0, {}),
        ("Humanoid", 2, 0.3, {}),
        ("Hopper", 2, 0.3, {}),
        ("InvertedDoublePendulum", 2, 0.3, {}),
        ("CartPoleSwingUp", 2, 0.3, {}),
        ("Reacher", 2, 0.3, {}),
        ("Quadruped", 2, 0.3, pushed),
        ("QuadrupedTerrain", 3, 0.3, terrain),
        ("ArmReach", 2, 0.3, {}),
        ("ArmPick", 2, 0.3, {}),
        ("Racecar", 2, 0.3, {}),
        ("CartPoleVision", 3, 0.1, {}),
    ):
        env = envs.make(name, worlds, device="cpu", threads=1, max_episode_steps=130, **options)
        env.action_space.seed(5)
        seen, _ = env.reset(seed=3)
        returns, ends = np.zeros(worlds), np.zeros(worlds, dtype=int)
        steps = max(1, round(share * log.steps))
        for step in range(1, steps + 1):
            seen, reward, terminated, truncated, _ = env.step(env.action_space.sample())
            returns += reward
            ends += terminated | truncated
            if step % 250 == 0:
                seen, _ = env.reset(options={"reset_mask": np.arange(worlds) == step // 250 % worlds})
            if step % EVERY == 0 or step == steps:
                found = {"observation": seen, "reward": reward, "returns": returns, "ends": ends}
                log.note(name, step, {**found, **state_arrays(env.sim.state)})
        env.close()


# --- gradients ---------------------------------------------------------------------------------------------


@wp.kernel
def add_bodies(
    world: wp.array(dtype=int),
    body_q: wp.array(dtype=wp.transform),
    body_qd: wp.array(dtype=wp.spatial_vector),
    losses: wp.array(dtype=float),
):
    """One thread per body: squares of a point of it, and of its velocity, go to the loss of its world."""
    i = wp.tid()
    point = wp.transform_point(body_q[i], wp.vec3(0.1, 0.2, 0.3))
    wp.atomic_add(losses, world[i], wp.dot(point, point) + 0.1 * wp.dot(body_qd[i], body_qd[i]))


@wp.kernel
def add_particles(
    world: wp.array(dtype=int),
    particle_q: wp.array(dtype=wp.vec3),
    particle_qd: wp.array(dtype=wp.vec3),
    losses: wp.array(dtype=float),
):
    """One thread per particle, as in `add_bodies`."""
    i = wp.tid()
    speed = wp.dot(particle_qd[i], particle_qd[i])
    wp.atomic_add(losses, world[i], wp.dot(particle_q[i], particle_q[i]) + 0.1 * speed)


def gradient(log: Log) -> None:
    """Gradients of rollouts with respect to states, inputs and parameters, and linear models of steps."""
    of_joints = ("state.joint_q", "state.joint_qd", "state.body_f", "control.joint_f")
    of_bodies = ("state.body_q", "state.body_qd", "state.body_f", "model.body_mass", "model.gravity_vec")
    of_particles = ("state.particle_q", "state.particle_qd", "state.particle_f", "model.particle_mass")
    inertial = ("model.body_mass", "model.body_inertia", "model.gravity_vec")
    materials = ("model.shape_materials.mu", "model.shape_materials.restitution")

    robot = new_builder()
    add_quadruped(robot)
    robot.shape_material_restitution[:] = [0.0] * robot.shape_count
    drives = ("control.joint_act", "model.joint_target_ke", "model.joint_target_kd")
    world = copies(robot, 2)
    differentiate(log, "robots", world, hard, (*of_joints, *inertial, *drives))
    soften(robot, 4.0e3, 60.0)
    smooth = (*of_joints, "model.shape_materials.ke", "model.shape_materials.kd")
    differentiate(log, "compliant", copies(robot, 2), soft, smooth, 1.0e-3)
    rest = {"checkpoint": "sqrt", "clip": 100.0}
    differentiate(log, "bounces", balls(), hard, (*of_joints, *inertial, *materials), **rest)
    frames = ("model.joint_X_p", "model.constraint_X_p")
    differentiate(log, "four-bar", scenes.four_bar(), hard, (*of_joints, *inertial, *frames))

    bodies = (*of_bodies, *materials)
    coupled = ("state.joint_q", "state.joint_qd", "model.body_inertia", "control.joint_f")
    differentiate(log, "gears", wheels(), hard, coupled)
    differentiate(log, "xpbd gears", wheels(), xpbd, (*of_bodies, "control.joint_f"), share=0.02)
    differentiate(log, "semi-implicit gears", wheels(), semi_implicit, of_bodies, 5.0e-4)
    differentiate(log, "xpbd bodies", balls(), xpbd, bodies, share=0.02)
    joints = (*of_bodies, "control.joint_act", "model.joint_target_ke", "model.joint_X_p")
    differentiate(log, "xpbd arm", driven_arm(), xpbd, joints, share=0.02)
    differentiate(log, "vbd bodies", balls(), vbd, of_bodies, share=0.02)
    differentiate(log, "semi-implicit arm", driven_arm(), semi_implicit, joints, 5.0e-4)

    sheet = (*of_particles, "model.tri_materials", "model.edge_bending_properties")
    for part, make, dt in (("xpbd", xpbd, DT), ("vbd", vbd, DT), ("semi-implicit", semi_implicit, 1.0e-3)):
        builder = new_builder()
        add_cloth(builder, 5, (0.0, 0.0, 0.8), fix_left=True, particle_radius=0.01)
        differentiate(log, f"{part} cloth", builder, make, sheet, dt, share=0.03)
        builder = new_builder()
        soft_block(builder, 2, 2.0e4, 0.02)
        solid = (*of_particles, "model.tet_materials")
        differentiate(log, f"{part} soft body", builder, make, solid, dt, share=0.03)
        builder = new_builder()
        line = np.linspace((0.0, 0.0, 1.0), (0.5, 0.0, 1.0), 6)
        builder.add_rope(line, (0.0, 0.2, 0.0), 0.5, 20.0, 0.1, fix_start=True, particle_radius=0.01)
        springs = (*of_particles, "model.spring_stiffness", "model.spring_rest_length")
        differentiate(log, f"{part} rope", builder, make, springs, dt, share=0.03)
    linear_models(log)


def hard(model: newtonsim.Model) -> SolverBase:
    return FeatherstoneSolver(model, iterations=64, tolerance=1.0e-7)


def soft(model: newtonsim.Model) -> SolverBase:
    return FeatherstoneSolver(model, contact_mode="compliant")


def xpbd(model: newtonsim.Model) -> SolverBase:
    return sweeping(XPBDSolver(model, iterations=60, soft_body_relaxation=1.5, enable_restitution=True))


def vbd(model: newtonsim.Model) -> SolverBase:
    return sweeping(VBDSolver(model, iterations=60))


def sweeping(solver: XPBDSolver | VBDSolver) -> SolverBase:
    """Return a solver that sweeps over the velocities of its bodies often enough for gradients."""
    if solver.constraints is not None:
        solver.constraints.restitution = True
        solver.constraints.velocity_sweeps = 60
    return solver


def semi_implicit(model: newtonsim.Model) -> SolverBase:
    return SemiImplicitSolver(model, 0.0, 100.0, joint_attach_ke=1.0e4, joint_attach_kd=40.0, fade_depth=0.01)


def differentiate(
    log: Log,
    part: str,
    builder: newtonsim.ModelBuilder,
    make: Make,
    wrt: tuple[str, ...],
    dt: float = DT,
    share: float = 0.05,
    **options: object,
) -> None:
    """Keep losses, gradients and the last state of a rollout."""
    model = builder.finalize(requires_grad=True)
    soft_contact(model, 0.01, 2.0e3, 5.0)

    def loss(state: newtonsim.State, losses: wp.array) -> None:
        if model.body_count:
            wp.launch(add_bodies, model.body_count, [model.body_world, state.body_q, state.body_qd, losses])
        if model.particle_count:
            inputs = [model.particle_world, state.particle_q, state.particle_qd, losses]
            wp.launch(add_particles, model.particle_count, inputs)

    def running(step: wp.array, state: newtonsim.State, control: newtonsim.Control, losses: wp.array) -> None:
        loss(state, losses)

    steps = max(1, round(share * log.steps))
    rollout = diff.Rollout(model, make(model), steps, dt, loss, running, wrt, **options)
    rng = np.random.default_rng(6)
    dofs, worlds = model.joint_dof_count, model.world_count
    controls = {"joint_f": 0.1 * rng.normal(size=(steps, dofs))} if dofs else None
    result = rollout(model.state(), controls, seeds=rng.uniform(0.5, 1.5, worlds))
    log.note(part, steps, {"losses": result.losses, **result.gradients, **state_arrays(result.state)})


def balls() -> newtonsim.ModelBuilder:
    """Return a world with a ball that bounces with spin, and one with a box that slides on the ground."""
    builder = new_builder()
    for shape, height, velocity in (
        ("ball", 0.13, (1.0, 2.0, 0.5, 0.3, 0.1, -1.0)),
        ("box", 0.1, (0.0, 0.0, 0.3, 0.8, 0.2, 0.0)),
    ):
        world = new_builder(0.2)
        body = world.add_body(origin=pose(z=height), key=shape)
        if shape == "ball":
            world.add_shape_sphere(body, radius=0.1, restitution=1.0)
        else:
            world.add_shape_box(body, hx=0.1, hy=0.12, hz=0.1)
        world.add_articulation()
        world.add_joint_free(body)
        world.joint_qd[:] = world.body_qd[body] = velocity
        builder.replicate(world, 1)
    builder.set_ground_plane(mu=0.3, restitution=0.0)
    return builder


def driven_arm() -> newtonsim.ModelBuilder:
    """Return three rods on driven hinges about three directions."""
    builder = new_builder()
    builder.add_articulation()
    parent = -1
    for number, axis in enumerate(np.eye(3)[[1, 2, 0]].tolist()):
        inertia = np.diag([0.02, 0.05, 0.05])
        link = builder.add_body(mass=1.0 - 0.1 * number, com=(0.2, 0.01, 0.0), I_m=inertia)
        drive = {"target": 0.2, "target_ke": 20.0, "target_kd": 1.0, "armature": 0.0}
        frame = pose(0.4 if number else 0.0)
        builder.add_joint_revolute(parent, link, parent_xform=frame, axis=axis, **drive)
        parent = link
    builder.joint_qd[:] = [0.5, -0.3, 0.4]
    return builder


def linear_models(log: Log) -> None:
    """Keep A and B of steps of the quadruped on its feet, and of an arm by differences."""
    robot = new_builder()
    add_quadruped(robot)
    for method, builder in (("adjoint", copies(robot, 1)), ("difference", driven_arm())):
        model = builder.finalize(requires_grad=True)
        options = {"steps": 4, "inputs": "joint_act", "method": method}
        A, B = diff.linearize(model, hard(model), model.state(), None, DT, **options)
        log.note(f"linear model by {method}", 4, {"A": A, "B": B})


SCENES: dict[str, Callable[[Log], None]] = {
    "robots": robots,
    "heap": heap,
    "cloth": cloth,
    "soft_body": soft_body,
    "loops": loops,
    "compliant": compliant,
    "facade": facade,
    "sleep": sleep,
    "env_rollout": env_rollout,
    "gradient": gradient,
}


# --- files -------------------------------------------------------------------------------------------------


def write(path: str, names: list[str], steps: int) -> None:
    """Simulate scenes and write their arrays, named "scene/part/name", the samples along the first axis."""
    wp.config.log_level = wp.LOG_ERROR
    wp.set_device("cpu")
    found: dict[str, np.ndarray] = {}
    for name in names:
        start, log = time.perf_counter(), Log(steps)
        SCENES[name](log)
        arrays = {key: np.stack(samples) for key, samples in log.arrays.items()}
        found |= {f"{name}/{key}": array for key, array in arrays.items()}
        size = 1.0e-6 * sum(array.nbytes for array in arrays.values())
        seconds = time.perf_counter() - start
        print(f"{name:12} {seconds:6.1f} s  {len(arrays):4} arrays  {size:6.1f} MB", flush=True)
        wild = [key for key, array in arrays.items() if not np.all(np.isfinite(array))]
        if wild:
            print(f"{'':12} not finite: {', '.join(wild)}")
    with open(path, "wb") as file:
        np.savez_compressed(file, **found)


def compare(paths: list[str], names: list[str] | None) -> bool:
    """Print what differs between two files scene by scene, and return whether nothing does.

    Args:
        paths: Both files.
        names: Scenes; None for those of the files.
    """
    with np.load(paths[0]) as first, np.load(paths[1]) as second:
        if names is None:
            there = {key.split("/")[0] for key in (*first, *second)}
            names = [name for name in SCENES if name in there]
        lines = {name: differences(name, first, second) for name in names}
    for name, line in lines.items():
        print(f"{name:12} {line}")
    return bool(lines) and all(line.startswith("identical") for line in lines.values())


def differences(scene: str, first: Mapping[str, np.ndarray], second: Mapping[str, np.ndarray]) -> str:
    """Return a line about the arrays of a scene in two files."""
    mine, theirs = ([key for key in file if key.startswith(f"{scene}/")] for file in (first, second))
    if not mine and not theirs:
        return "in neither file"
    lone = sorted(set(mine) ^ set(theirs))
    if lone:
        return f"differs: {len(lone)} arrays are in one of the files only, such as {lone[0]}"
    found: list[tuple[int, float, str]] = []
    for key in mine:
        a, b = first[key], second[key]
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"differs: {key} is {a.dtype} {a.shape} and {b.dtype} {b.shape}"
        changed = np.any(bytes_of(a) != bytes_of(b), axis=-1)
        if a.dtype.kind == "f":
            changed &= ~(np.isnan(a) & np.isnan(b))
        if changed.any():
            samples = changed.reshape(len(a), -1).any(axis=1)
            steps = first[key.rsplit("/", 1)[0] + "/step"]
            with np.errstate(invalid="ignore", over="ignore"):
                apart = np.abs(a[changed].astype(float) - b[changed].astype(float))
            largest = math.inf if np.isnan(apart).any() else float(apart.max())
            found.append((int(steps[np.argmax(samples)]), largest, key))
    if not found:
        return f"identical, {len(mine)} arrays"
    step, _, earliest = min(found, key=lambda entry: entry[0])
    _, largest, furthest = max(found, key=lambda entry: entry[1])
    return (
        f"differs: {len(found)} of {len(mine)} arrays, the first in step {step}: {earliest}; "
        f"largest difference {largest:.3g}: {furthest}"
    )


def bytes_of(array: np.ndarray) -> np.ndarray:
    """Return the bytes of an array, those of each entry along one more axis."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).reshape(*array.shape, array.itemsize)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    writing = commands.add_parser("write", help="simulate, and write a file")
    writing.add_argument("file", help="file to write, .npz")
    writing.add_argument("--steps", type=int, default=1000, help="steps of a scene (default: 1000)")
    comparing = commands.add_parser("compare", help="compare two files, and exit with 1 if they differ")
    comparing.add_argument("files", nargs=2, help="files to compare, .npz")
    for command in (writing, comparing):
        command.add_argument(
            "--only", nargs="+", choices=list(SCENES), metavar="SCENE", help="these scenes alone"
        )
    options = parser.parse_args()
    if options.command == "write":
        write(options.file, options.only or list(SCENES), options.steps)
    elif not compare(options.files, options.only):
        sys.exit(1)


if __name__ == "__main__":
    main()
