"""Scenes on which the gradients of every solver are checked: builders, initial states, parameters, a loss."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import warp as wp

import newtonsim
from newtonsim.examples import asset_path
from newtonsim.importers import parse_mjcf
from newtonsim.testing import random_coordinates, random_model

STEPS = 50
"""Steps of every rollout of the table."""

GRAVITY = 9.81
"""Of all scenes, downwards along z [m/s^2]."""

SMOOTH, CONTACT = 1.0e-3, 1.0e-2
"""Largest accepted relative error of a gradient vector, without contact and with it."""


@dataclass(frozen=True)
class Setting:
    """What a scene asks about the solver that it is built for.

    Attributes:
        dt: Time step [s].
        penalty: Contacts are springs and dampers by the materials' ke, kd, kf.
        restitution: The solver reads the materials' restitution.
        explicit: Drives and damping of joints are explicit, so that light links bear little of it.
        steps: Steps of the rollout.
    """

    dt: float
    penalty: bool = False
    restitution: bool = True
    explicit: bool = False
    steps: int = STEPS

    @property
    def time(self) -> float:
        """Length of the rollout [s]."""
        return self.steps * self.dt


@dataclass
class Start:
    """Initial values that are not those of the builder, by name of the array."""

    state: dict[str, np.ndarray] = field(default_factory=dict)
    control: dict[str, np.ndarray] = field(default_factory=dict)


@dataclass(frozen=True)
class Scene:
    """One row of the table.

    Attributes:
        name: Name in the table.
        build: Returns the builder, z-up.
        contact: Whether anything touches or hits a limit, which decides the tolerance.
        parameters: Arrays of the model that matter in it, as `newtonsim.diff` names them.
        controls: Arrays of `Control` that matter in it.
        start: Returns initial values.
        settle: Time of simulation before the rollout [s], in which the scene comes to rest.
        particles: Whether it consists of particles.
    """

    name: str
    build: Callable[[Setting], newtonsim.ModelBuilder]
    contact: bool
    parameters: tuple[str, ...]
    controls: tuple[str, ...] = ()
    start: Callable[[newtonsim.Model, Setting], Start] = lambda model, setting: Start()
    settle: float = 0.0
    particles: bool = False


def _new_builder() -> newtonsim.ModelBuilder:
    return newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0), gravity=-GRAVITY)


def _material(setting: Setting, mass: float, points: int, swing: int, **values: float) -> dict[str, float]:
    """Contact material; as springs it lets `mass` on so many points swing that many steps long."""
    if setting.penalty:
        omega = 2.0 * math.pi / (swing * setting.dt)
        m = mass / points
        values |= {"ke": m * omega**2, "kd": m * omega, "kf": m / (2.0 * setting.dt)}
    return values


def _rod_inertia(mass: float, length: float) -> wp.mat33:
    """Inertia of a rod along x, with some thickness."""
    across = mass * length**2 / 12.0
    return wp.mat33(0.1 * across, 0.0, 0.0, 0.0, across, 0.0, 0.0, 0.0, across)


def _body_wrenches(model: newtonsim.Model, size: float) -> np.ndarray:
    """Random wrenches that accelerate bodies by up to `size` [m/s^2], with levers of some centimetres."""
    wrenches = size * np.random.default_rng(1).uniform(-1.0, 1.0, (model.body_count, 6))
    wrenches *= model.body_mass.numpy()[:, None]
    wrenches[:, :3] *= 0.02
    return wrenches


# --- bodies and joints without contact ---------------------------------------------------------------------


def free_body(setting: Setting) -> newtonsim.ModelBuilder:
    """A lopsided body that tumbles."""
    builder = _new_builder()
    inertia = wp.mat33(0.02, 0.002, 0.001, 0.002, 0.05, 0.003, 0.001, 0.003, 0.06)
    body = builder.add_body(com=(0.05, -0.02, 0.1), I_m=inertia, mass=1.5, key="potato")
    builder.add_articulation()
    builder.add_joint_free(body)
    builder.joint_q[:] = [0.1, 0.2, 0.0, 0.1043, 0.5216, -0.2086, 0.8207]
    builder.joint_qd[:] = [4.0, -6.0, 2.0, 0.5, 0.3, 2.0]
    return builder


def every_joint(setting: Setting) -> newtonsim.ModelBuilder:
    """A random tree of ten bodies with joints of every type, springs and damping."""
    builder = random_model(3, body_count=10, up_vector=(0.0, 0.0, 1.0))
    rng = np.random.default_rng(4)
    axes, dofs = builder.joint_axis_count, builder.joint_dof_count
    builder.joint_stiffness[:] = rng.uniform(1.0, 3.0, axes).tolist()
    builder.joint_spring_ref[:] = rng.uniform(-0.3, 0.3, axes).tolist()
    builder.joint_damping[:] = rng.uniform(0.05, 0.2, dofs).tolist()
    return builder


def _every_joint_start(model: newtonsim.Model, setting: Setting) -> Start:
    joint_q, joint_qd = random_coordinates(model, 5, angle=0.4, speed=0.5)
    return Start(
        {"joint_q": joint_q, "joint_qd": joint_qd, "body_f": _body_wrenches(model, 1.0)},
        {"joint_f": np.random.default_rng(2).uniform(-0.5, 0.5, model.joint_dof_count)},
    )


def arm2(setting: Setting, driven: bool) -> newtonsim.ModelBuilder:
    """Two rods on hinges, with dry friction; moved by torques or held by drives."""
    builder = _new_builder()
    builder.add_articulation()
    parent, anchor = -1, None
    for mass, length, axis in ((1.0, 0.5, (0.0, 1.0, 0.0)), (0.8, 0.4, (0.28, 0.96, 0.0))):
        com = (0.5 * length, 0.0, 0.01)
        body = builder.add_body(com=com, I_m=_rod_inertia(mass, length), mass=mass)
        drive = {"target": 0.4, "target_ke": 20.0, "target_kd": 1.0} if driven else {}
        builder.add_joint_revolute(parent, body, parent_xform=anchor, axis=axis, armature=0.02, **drive)
        parent, anchor = body, wp.transform((length, 0.0, 0.0), wp.quat_identity())
    builder.joint_q[:] = [-0.3, 0.9]
    builder.joint_qd[:] = [0.5, -1.5]
    builder.joint_damping[:] = [0.05, 0.02]
    return builder


def arm7(setting: Setting, driven: bool) -> newtonsim.ModelBuilder:
    """Our arm of seven joints, moved by torques or held by drives."""
    builder = _new_builder()
    newtonsim.utils.parse_urdf(
        str(asset_path("arm7.urdf")), builder, ignore_inertial_definitions=False, enable_self_collisions=False
    )
    builder.collapse_fixed_joints()
    builder.joint_velocity_limit[:] = [math.inf] * 7
    builder.joint_effort_limit[:] = [math.inf] * 7
    builder.joint_armature[:] = [0.02] * 7
    builder.joint_damping[:] = [0.5, 0.5, 0.3, 0.3, 0.05, 0.05, 2.0e-3]
    builder.joint_q[:] = [0.3, 0.4, -0.2, -1.2, 0.3, 0.9, 0.2]
    builder.joint_qd[:] = [0.2, -0.3, 0.5, 0.1, -0.6, 0.4, 0.3]
    mode = newtonsim.JOINT_MODE_TARGET_POSITION if driven else newtonsim.JOINT_MODE_FORCE
    builder.joint_axis_mode[:] = [int(mode)] * 7
    if driven:
        builder.joint_target_ke[:] = [150.0, 150.0, 80.0, 80.0, 20.0, 20.0, 2.0]
        builder.joint_target_kd[:] = [8.0, 8.0, 3.0, 3.0, 0.5, 0.5, 0.02]
        builder.joint_act[:] = [0.35, 0.45, -0.25, -1.15, 0.25, 0.95, 0.25]
    return builder


def _torques(model: newtonsim.Model, setting: Setting) -> Start:
    sizes = [0.3, 0.2] if model.joint_dof_count == 2 else [3.0, 3.0, 2.0, 2.0, 0.3, 0.3, 0.01]
    torques = np.random.default_rng(2).uniform(-1.0, 1.0, model.joint_dof_count) * sizes
    return Start({"body_f": _body_wrenches(model, 1.0)}, {"joint_f": torques})


def limit_hit(setting: Setting) -> newtonsim.ModelBuilder:
    """A rod that runs into the limit of its hinge half-way, and drags another along."""
    builder = _new_builder()
    builder.add_articulation()
    parent, anchor = -1, None
    speed, gap = 3.0, 3.0 * 0.5 * setting.time
    for mass, upper in ((1.0, gap), (0.5, 2.0)):
        body = builder.add_body(com=(0.2, 0.0, 0.0), I_m=_rod_inertia(mass, 0.4), mass=mass)
        # as a penalty the limit swings 20 steps long
        omega = 2.0 * math.pi / (20.0 * setting.dt)
        limit_ke = 0.1 * omega**2
        builder.add_joint_revolute(
            parent, body, parent_xform=anchor, axis=(0.0, 1.0, 0.0), armature=0.0, limit_lower=-2.0,
            limit_upper=upper, limit_ke=limit_ke, limit_kd=0.5 * limit_ke / omega,
        )  # fmt: skip
        parent, anchor = body, wp.transform((0.4, 0.0, 0.0), wp.quat_identity())
    builder.joint_q[:] = [0.0, -0.4]
    builder.joint_qd[:] = [speed, 0.5]
    return builder


# crank, coupler, rocker and ground of the four-bar linkage [m]; Grashof holds, so the crank can turn round
CRANK, COUPLER, ROCKER, GROUND = 0.2, 0.5, 0.4, 0.5


def _linkage_angles(crank: float) -> np.ndarray:
    """Angles of the three hinges (3,) at which the linkage is closed."""
    a = CRANK * np.array([math.cos(crank), math.sin(crank)])
    d = np.array([GROUND, 0.0])
    along = d - a
    distance = float(np.linalg.norm(along))
    x = (COUPLER**2 - ROCKER**2 + distance**2) / (2.0 * distance)
    y = math.sqrt(COUPLER**2 - x * x)
    unit = along / distance
    b = a + x * unit + y * np.array([-unit[1], unit[0]])
    coupler, rocker = math.atan2(*(b - a)[::-1]), math.atan2(*(b - d)[::-1])
    return np.array([crank, coupler - crank, rocker])


def four_bar(setting: Setting) -> newtonsim.ModelBuilder:
    """A four-bar linkage in the x-z plane, closed by a loop joint.

    Three of the hinges would do out of the plane: the fourth one yields, or else no motion satisfies all of
    them when frames are varied.
    """
    builder = _new_builder()
    builder.add_articulation()
    axis = (0.0, -1.0, 0.0)
    bodies = []
    for mass, length in ((0.5, CRANK), (1.0, COUPLER), (0.8, ROCKER)):
        com, inertia = (0.5 * length, 0.0, 0.0), _rod_inertia(mass, length)
        bodies.append(builder.add_body(com=com, I_m=inertia, mass=mass))
    end = wp.transform((CRANK, 0.0, 0.0), wp.quat_identity())
    ground = wp.transform((GROUND, 0.0, 0.0), wp.quat_identity())
    for parent, body, anchor in ((-1, 0, None), (bodies[0], 1, end), (-1, 2, ground)):
        builder.add_joint_revolute(parent, bodies[body], parent_xform=anchor, axis=axis, armature=0.0)
    builder.add_loop_joint(
        newtonsim.JOINT_REVOLUTE, bodies[1], bodies[2], angular_axes=[axis],
        parent_xform=wp.transform((COUPLER, 0.0, 0.0), wp.quat_identity()),
        child_xform=wp.transform((ROCKER, 0.0, 0.0), wp.quat_identity()),
        linear_compliance=1.0e-5, angular_compliance=1.0e-3,
    )  # fmt: skip
    builder.joint_q[:] = _linkage_angles(1.0).tolist()
    rate = (_linkage_angles(1.0 + 1.0e-5) - _linkage_angles(1.0 - 1.0e-5)) / 2.0e-5
    builder.joint_qd[:] = (4.0 * rate).tolist()
    return builder


def _linkage_start(model: newtonsim.Model, setting: Setting) -> Start:
    return Start({"body_f": _body_wrenches(model, 0.5)}, {"joint_f": np.array([0.4, 0.0, 0.1])})


# --- bodies in contact -------------------------------------------------------------------------------------


def quadruped(setting: Setting, gap: float | None, speed: float = 0.0) -> newtonsim.ModelBuilder:
    """Our quadruped, its feet at a gap over the ground [m] and moving down; None for no ground."""
    builder = _new_builder()
    path = asset_path("quadruped.xml")
    parse_mjcf(path, builder, floating=None, ignore_inertial_definitions=False)
    home = builder.keyframes[0]
    builder.joint_q[:] = home["joint_q"]
    builder.joint_act[:] = home["joint_act"]
    builder.joint_qd[5] = -speed
    if setting.explicit:
        for values in (builder.joint_target_kd, builder.joint_damping):
            values[:] = [0.2 * value for value in values]
    material = _material(setting, 0.6, 4, 50, mu=0.8, restitution=0.0)
    for name, value in material.items():
        if name != "mu":
            values = getattr(builder, f"shape_material_{name}")
            values[:] = [value] * len(values)
    if gap is not None:
        builder.joint_q[2] += gap
        if speed > 0.0:
            # tilted, so that the feet land one after the other
            builder.joint_q[3:7] = list(wp.quat_from_axis_angle(wp.normalize(wp.vec3(1.0, 0.6, 0.0)), 0.12))
        builder.set_ground_plane(**material)
    return builder


def _fall(speed: float, time: float) -> tuple[float, float]:
    """Gap [m] that is closed in a time [s], and the speed at the start [m/s]."""
    return speed * time + 0.5 * GRAVITY * time**2, speed


def _quadruped_start(model: newtonsim.Model, setting: Setting) -> Start:
    rng = np.random.default_rng(3)
    return Start({"body_f": _body_wrenches(model, 0.5)}, {"joint_f": rng.uniform(-0.2, 0.2, 18)})


def _quadruped_flight_start(model: newtonsim.Model, setting: Setting) -> Start:
    start = _quadruped_start(model, setting)
    qd = model.joint_qd.numpy().copy()
    qd[:] = np.random.default_rng(6).uniform(-1.0, 1.0, qd.shape)
    start.state["joint_qd"] = qd
    return start


def box(setting: Setting, speed: float) -> newtonsim.ModelBuilder:
    """A box of 2.4 kg that slides on the ground, and that friction holds in the end if it is slow."""
    builder = _new_builder()
    material = _material(setting, 2.4, 4, 50, mu=0.4, restitution=0.0)
    # penetration at rest; rigid contacts leave some of it alone, and switch at its ends
    sinks = 2.4 / 4.0 * GRAVITY / material["ke"] if setting.penalty else 5.0e-5
    pose = wp.transform((0.0, 0.0, 0.1 - sinks), wp.quat_identity())
    body = builder.add_body(origin=pose, key="box")
    builder.add_shape_box(body, hx=0.2, hy=0.15, hz=0.1, density=100.0, thickness=0.0, **material)
    builder.set_ground_plane(**material)
    builder.add_articulation()
    builder.add_joint_free(body)
    builder.joint_q[:] = [*pose.p, *pose.q]
    builder.joint_qd[:] = [0.0, 0.0, 0.2 * speed, speed, 0.3 * speed, 0.0]
    return builder


def _box_start(model: newtonsim.Model, setting: Setting) -> Start:
    force = np.zeros((1, 6))
    force[0] = [0.02, 0.05, 0.01, 2.0, 1.0, 0.5]
    return Start({"body_f": force})


def sphere_bounce(setting: Setting) -> newtonsim.ModelBuilder:
    """A ball of 1 kg that turns, hits the ground and leaves it again."""
    builder = _new_builder()
    speed, early = 1.0 if setting.penalty else 2.0, (0.25 if setting.penalty else 0.5) * setting.time
    gap = speed * early + 0.5 * GRAVITY * early**2
    material = _material(setting, 1.0, 1, 48, mu=0.1)
    if setting.penalty:
        # rebound of a spring with a linear dashpot: -ln e = π ζ / √(1 - ζ²), ζ = kd / (2 √(ke m))
        log = -math.log(0.7)
        material["kd"] = 2.0 * math.sqrt(material["ke"]) * log / math.hypot(math.pi, log)
    if setting.restitution:
        material["restitution"] = 0.7
    add_ball(builder, gap, material)
    builder.joint_qd[:] = [1.0, 2.0, 0.5, 3.0, 0.3, -speed]
    return builder


def add_ball(builder: newtonsim.ModelBuilder, gap: float, material: dict[str, float]) -> None:
    """Add a ball of 1 kg and 0.1 m at a height [m] over the ground, and that ground, of one material."""
    pose = wp.transform((0.0, 0.0, 0.1 + gap), wp.quat_identity())
    body = builder.add_body(origin=pose, key="ball")
    density = 1.0 / (4.0 / 3.0 * math.pi * 1.0e-3)
    builder.add_shape_sphere(body, radius=0.1, density=density, thickness=0.0, **material)
    builder.set_ground_plane(**material)
    builder.add_articulation()
    builder.add_joint_free(body)
    builder.joint_q[:] = [*pose.p, *pose.q]


# --- particles ---------------------------------------------------------------------------------------------


def cloth(setting: Setting) -> newtonsim.ModelBuilder:
    """A cloth that hangs from one side and swings."""
    builder = _new_builder()
    builder.add_cloth_grid(
        pos=(0.0, 0.0, 0.0), rot=wp.quat_identity(), vel=(0.2, -0.3, 0.5), dim_x=4, dim_y=3, cell_x=0.1,
        cell_y=0.1, mass=0.02, fix_left=True, tri_ke=30.0, tri_ka=30.0, tri_kd=0.1, edge_ke=0.01,
        edge_kd=1.0e-4,
    )  # fmt: skip
    builder.particle_radius[:] = [0.0] * builder.particle_count
    return builder


def _cloth_start(model: newtonsim.Model, setting: Setting) -> Start:
    rng = np.random.default_rng(2)
    x = model.particle_q.numpy()
    held = model.particle_mass.numpy()[:, None] == 0.0
    moved = x + np.where(held, 0.0, rng.uniform(-0.004, 0.004, x.shape))
    force = np.where(held, 0.0, rng.uniform(-0.05, 0.05, x.shape))
    activation = rng.uniform(-0.05, 0.05, model.tri_count)
    return Start({"particle_q": moved, "particle_f": force}, {"tri_activations": activation})


def soft_body(setting: Setting) -> newtonsim.ModelBuilder:
    """A soft block that falls onto the ground at a slant, and slides."""
    builder = _new_builder()
    turn = wp.quat_from_axis_angle(wp.vec3(0.28, 0.96, 0.0), 0.2)
    speed = 0.3 if setting.penalty else 1.0
    builder.add_soft_grid(
        pos=(0.0, 0.0, 0.0), rot=turn, vel=(0.6, 0.2, -speed), dim_x=2, dim_y=2, dim_z=2, cell_x=0.1,
        cell_y=0.1, cell_z=0.1, density=1.0e3, k_mu=2.0e4, k_lambda=3.0e4, k_damp=2.0e-3,
    )  # fmt: skip
    builder.particle_radius[:] = [0.0] * builder.particle_count
    lowest = min(q[2] for q in builder.particle_q)
    gap = 0.3 * setting.time * speed
    builder.particle_q[:] = [wp.vec3(q[0], q[1], q[2] - lowest + gap) for q in builder.particle_q]
    builder.set_ground_plane(mu=0.4)
    return builder


def _soft_body_start(model: newtonsim.Model, setting: Setting) -> Start:
    rng = np.random.default_rng(2)
    force = rng.uniform(-0.2, 0.2, (model.particle_count, 3))
    return Start({"particle_f": force}, {"tet_activations": rng.uniform(-0.02, 0.02, model.tet_count)})


_INERTIAL = ("model.body_mass", "model.body_com", "model.body_inertia", "model.gravity_vec")
_FRAMES = ("model.joint_X_p", "model.joint_X_c")
_DRIVES = ("model.joint_target_ke", "model.joint_target_kd")
_MU = "model.shape_materials.mu"

SCENES: dict[str, Scene] = {
    scene.name: scene
    for scene in (
        Scene(
            "free body", free_body, False, _INERTIAL,
            start=lambda m, s: Start({"body_f": _body_wrenches(m, 1.0)}),
        ),
        Scene(
            "every joint type",
            every_joint,
            False,
            (*_INERTIAL, *_FRAMES, "model.joint_armature", "model.joint_damping", "model.joint_stiffness",
             "model.joint_spring_ref"),
            ("joint_f",),
            _every_joint_start,
        ),
        Scene(
            "2-link arm, torques", lambda s: arm2(s, False), False,
            (*_INERTIAL, *_FRAMES, "model.joint_armature", "model.joint_damping"), ("joint_f",), _torques,
        ),
        Scene(
            "2-link arm, drives", lambda s: arm2(s, True), False,
            (*_INERTIAL, *_FRAMES, *_DRIVES, "model.joint_armature"), ("joint_act", "joint_f"), _torques,
        ),
        Scene(
            "7-link arm, torques", lambda s: arm7(s, False), False,
            (*_INERTIAL, *_FRAMES, "model.joint_armature", "model.joint_damping"), ("joint_f",), _torques,
        ),
        Scene(
            "7-link arm, drives", lambda s: arm7(s, True), False,
            (*_INERTIAL, *_FRAMES, *_DRIVES, "model.joint_armature"), ("joint_act", "joint_f"), _torques,
        ),
        Scene(
            "quadruped in flight", lambda s: quadruped(s, None), False,
            (*_INERTIAL, *_DRIVES, "model.joint_armature"), ("joint_act", "joint_f"), _quadruped_flight_start,
        ),
        Scene(
            "quadruped standing", lambda s: quadruped(s, 0.0), True,
            (*_INERTIAL, *_DRIVES, _MU), ("joint_act", "joint_f"), _quadruped_start, settle=0.5,
        ),
        Scene(
            "quadruped landing", lambda s: quadruped(s, *_fall(0.5, 0.6 * s.time)), True,
            (*_INERTIAL, *_DRIVES, _MU), ("joint_act", "joint_f"), _quadruped_start,
        ),
        Scene(
            "box sliding", lambda s: box(s, 1.5), True,
            ("model.body_mass", "model.gravity_vec", _MU), start=_box_start,
        ),
        Scene(
            "box sticking", lambda s: box(s, 0.3), True,
            ("model.body_mass", "model.gravity_vec", _MU), start=_box_start,
        ),
        Scene(
            "sphere bounce", sphere_bounce, True,
            ("model.body_mass", "model.gravity_vec", _MU, "model.shape_materials.restitution"),
        ),
        Scene(
            "limit hit", limit_hit, True,
            ("model.body_mass", "model.body_inertia", "model.joint_limit_upper", "model.gravity_vec"),
            ("joint_f",), lambda m, s: Start({}, {"joint_f": np.array([0.3, -0.2])}),
        ),
        Scene(
            "loop closure", four_bar, False,
            (*_INERTIAL, *_FRAMES, "model.constraint_X_p", "model.constraint_X_c"), ("joint_f",),
            _linkage_start,
        ),
        Scene(
            "cloth", cloth, False,
            ("model.particle_mass", "model.tri_materials", "model.tri_poses", "model.tri_areas",
             "model.edge_bending_properties", "model.edge_rest_angle", "model.gravity_vec"),
            ("tri_activations",), _cloth_start, particles=True,
        ),
        Scene(
            "soft body", soft_body, True,
            ("model.particle_mass", "model.tet_materials", "model.tet_poses", "model.gravity_vec", _MU),
            ("tet_activations",), _soft_body_start, particles=True,
        ),
    )
}  # fmt: skip
"""All rows of the table, by name."""
