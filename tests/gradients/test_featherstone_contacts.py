"""Gradients through the contacts of FeatherstoneSolver: the tape against differences, and analytic slopes."""

import math

import numpy as np
import pytest
import warp as wp

import newtonsim
from newtonsim import diff
from newtonsim.examples import asset_path
from newtonsim.solvers import FeatherstoneSolver

GRAVITY = 9.81
DT = 1.0 / 240.0
USUAL = ("state.joint_q", "state.joint_qd", "model.body_mass", "model.shape_materials.mu")
RTOL = 1.0e-2


@wp.kernel
def weigh(
    q: wp.array(dtype=float), qd: wp.array(dtype=float), coords: int, dofs: int, losses: wp.array(dtype=float)
):
    w = wp.tid()
    for i in range(coords):
        wp.atomic_add(losses, w, q[w * coords + i] * wp.sin(1.3 * float(i) + 0.7))
    for i in range(dofs):
        wp.atomic_add(losses, w, 0.3 * qd[w * dofs + i] * wp.cos(2.1 * float(i) + 0.3))


def loss(state: newtonsim.State, losses: wp.array) -> None:
    """A sum of all coordinates and velocities in which none cancels another."""
    worlds = len(losses)
    q, qd = state.joint_q, state.joint_qd
    wp.launch(weigh, worlds, [q, qd, len(q) // worlds, len(qd) // worlds, losses], device=losses.device)


def z_up() -> newtonsim.ModelBuilder:
    return newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))


def at(x: float, y: float, z: float, axis=(0.0, 0.0, 1.0), angle: float = 0.0) -> wp.transform:
    return wp.transform((x, y, z), wp.quat_from_axis_angle(wp.vec3(*axis), angle))


def add(builder, kind: str, pose: wp.transform, **material) -> None:
    body = builder.add_body(origin=pose)
    material = {"mu": 0.4, "restitution": 0.0, "density": 400.0} | material
    if kind == "box":
        builder.add_shape_box(body, hx=0.1, hy=0.12, hz=0.1, **material)
    elif kind == "plate":
        builder.add_shape_box(body, hx=0.1, hy=0.1, hz=0.05, **material)
    elif kind == "capsule":
        builder.add_shape_capsule(body, radius=0.1, half_height=0.2, up_axis=0, **material)
    else:
        builder.add_shape_sphere(body, radius=0.1, **material)


def start(model, velocities) -> newtonsim.State:
    state = model.state()
    state.joint_qd.assign(np.array(velocities, np.float32).reshape(-1))
    newtonsim.eval_fk(model, state.joint_q, state.joint_qd, None, state)
    return state


def scene(name: str):
    """Builder, start velocities, steps, and what to differentiate with respect to."""
    builder = z_up()
    wrt = USUAL
    ground: dict = {"mu": 0.4, "restitution": 0.0}
    velocities, steps = [[0.0] * 6], 20
    if name == "box slides":
        add(builder, "box", at(0.0, 0.0, 0.1))
        velocities = [[0.0, 0.0, 0.2, 1.5, 0.4, 0.0]]
    elif name == "box slides down a slope":
        add(builder, "box", at(0.0, 0.0, 0.13))
        ground = {"normal": (math.sin(0.5), 0.0, math.cos(0.5)), "mu": 0.3, "restitution": 0.0}
        velocities = [[0.0, 0.0, 0.0, 0.5, 0.2, 0.0]]
    elif name == "box sticks on a slope":
        add(builder, "box", at(0.0, 0.0, 0.125), mu=0.9)
        ground = {"normal": (math.sin(0.3), 0.0, math.cos(0.3)), "mu": 0.9, "restitution": 0.0}
        steps = 25
    elif name == "box lands on an edge":
        add(builder, "box", at(0.0, 0.0, 0.155, axis=(1.0, 0.0, 0.0), angle=0.5))
        velocities = [[0.0, 0.0, 0.0, 0.2, 0.1, -0.5]]
    elif name == "plate lands and tips over":
        add(builder, "plate", at(0.0, 0.0, 0.13, axis=(1.0, 0.0, 0.0), angle=0.3))
        velocities, steps = [[0.5, 0.3, 0.3, 1.0, 0.4, -1.0]], 16
    elif name == "sphere bounces":
        add(builder, "sphere", at(0.0, 0.0, 0.115), restitution=0.8)
        ground["restitution"] = 0.8
        velocities = [[0.5, 1.0, 0.3, 1.5, 0.4, -2.0]]
        wrt = (*USUAL, "model.shape_materials.restitution")
    elif name == "sphere skids and rolls":
        add(builder, "sphere", at(0.0, 0.0, 0.1))
        velocities = [[0.5, 10.0, 0.3, 1.0, 0.4, 0.0]]
    elif name == "sphere with torsional and rolling friction":
        add(builder, "sphere", at(0.0, 0.0, 0.1))
        velocities = [[0.3, 5.0, 3.0, 0.5, 0.1, 0.0]]
        wrt = (*USUAL, "model.shape_mu_torsion", "model.shape_mu_rolling")
    elif name == "box on a box":
        add(builder, "box", at(0.0, 0.0, 0.1))
        add(builder, "plate", at(0.01, 0.0, 0.25, angle=0.2))
        velocities = [[0.0] * 6, [0.0, 0.0, 0.0, 1.0, 0.2, 0.0]]
        steps = 8
        wrt = ("state.joint_qd", "model.shape_materials.mu")
    elif name == "capsule on a capsule":
        add(builder, "capsule", at(0.0, 0.0, 0.1))
        add(builder, "capsule", at(0.03, 0.02, 0.305, angle=1.1))
        velocities = [[0.0] * 6, [0.0, 0.0, 0.1, 0.3, 0.2, -0.5]]
        wrt = ("state.joint_qd", "model.body_mass")
    elif name == "sphere on a sphere":
        add(builder, "sphere", at(0.0, 0.0, 0.1))
        add(builder, "sphere", at(0.05, 0.02, 0.3))
        velocities = [[0.0] * 6, [0.0, 0.0, 0.1, 0.3, 0.2, -0.5]]
    elif name == "spheres rebound from each other":
        add(builder, "sphere", at(0.0, 0.0, 1.0), restitution=0.8)
        add(builder, "sphere", at(0.21, 0.05, 1.02), restitution=0.7)
        velocities = [[0.0, 2.0, 0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, -1.0, 0.2, 0.1]]
        # not by positions: normals are those at the start of the step, and turn until the spheres meet
        wrt = (*USUAL[1:], "model.shape_materials.restitution")
    else:
        raise ValueError(name)
    builder.set_ground_plane(**ground)
    if "rolling friction" in name:
        builder.shape_mu_torsion[:] = [0.02] * len(builder.shape_mu_torsion)
        builder.shape_mu_rolling[:] = [0.01] * len(builder.shape_mu_rolling)
    return builder, velocities, steps, wrt


SCENES = [
    "box slides",
    "box slides down a slope",
    "box sticks on a slope",
    "box lands on an edge",
    "plate lands and tips over",
    "sphere bounces",
    "sphere skids and rolls",
    "sphere with torsional and rolling friction",
    "box on a box",
    "capsule on a capsule",
    "sphere on a sphere",
    "spheres rebound from each other",
]


@pytest.mark.parametrize("name", SCENES)
def test_gradients_through_contact(device: str, name: str):
    builder, velocities, steps, wrt = scene(name)
    model = builder.finalize(device, requires_grad=True)
    report = diff.gradcheck(
        model, FeatherstoneSolver(model), start(model, velocities), steps, DT, loss, wrt, samples=16
    )
    print(name, report)
    assert report.error < RTOL


def test_rebound_of_an_articulated_body(device: str):
    """A ball on two slides, whose coordinates have to move with their velocities."""
    builder = z_up()
    carriage = builder.add_body(mass=1.0, I_m=wp.mat33(0.1 * np.eye(3)))
    ball = builder.add_body()
    builder.add_shape_sphere(ball, radius=0.1, density=400.0, mu=0.2, restitution=0.7)
    builder.add_articulation()
    builder.add_joint_prismatic(-1, carriage, axis=(1.0, 0.0, 0.0))
    builder.add_joint_prismatic(carriage, ball, axis=(0.2, 0.0, 1.0))
    builder.joint_q[:] = [0.0, 0.12]
    builder.set_ground_plane(mu=0.2, restitution=0.7)
    model = builder.finalize(device, requires_grad=True)
    wrt = (*USUAL, "model.shape_materials.restitution")
    report = diff.gradcheck(
        model, FeatherstoneSolver(model), start(model, [1.0, -1.0]), 20, 1.0 / 250.0, loss, wrt
    )
    print(report)
    assert report.error < RTOL


def quadruped(device: str, height: float):
    """The robot on bent legs, which drives hold, and its target angles."""
    builder = z_up()
    newtonsim.utils.parse_mjcf(str(asset_path("quadruped.xml")), builder, floating=True)
    builder.set_ground_plane()
    axes = len(builder.joint_act)
    builder.joint_target_ke[:] = [60.0] * axes
    builder.joint_target_kd[:] = [3.0] * axes
    builder.joint_axis_mode[:] = [int(newtonsim.JOINT_MODE_TARGET_POSITION)] * axes
    stance = [0.0, 0.8, -1.6] * (axes // 3)
    builder.joint_q[:] = [0.0, 0.0, height, 0.0, 0.0, 0.0, 1.0, *stance]
    builder.joint_act[:] = stance
    return builder.finalize(device, requires_grad=True)


@pytest.mark.slow
@pytest.mark.parametrize("before", [0, 180])
def test_quadruped_that_lands_and_stands(device: str, before: int):
    """A robot with sixteen contacts and drives: it lands within 30 steps, and stands after 180."""
    model = quadruped(device, 0.26)
    solver, other = (FeatherstoneSolver(model, iterations=200, tolerance=1.0e-7) for _ in range(2))
    state, spare, control = (
        start(model, [0.2, 0.1, 0.0, 0.1, 0.3, -0.5] + [0.0] * 12),
        model.state(),
        model.control(),
    )
    for _ in range(before):
        other.step(model, state, spare, control, None, DT)
        state, spare = spare, state
    wrt = ("state.joint_qd", "control.joint_act", "model.joint_target_ke")
    report = diff.gradcheck(model, solver, state, 30, DT, loss, wrt, controls=control, samples=12)
    print(solver.contacts.rigid_contact_count.numpy(), report)
    assert report.error < RTOL


def test_material_contact_has_gradients_by_stiffness_and_damping(device: str):
    builder = z_up()
    add(builder, "sphere", at(0.0, 0.0, 0.103), ke=2.0e3, kd=20.0)
    builder.set_ground_plane(mu=0.4, ke=2.0e3, kd=20.0)
    model = builder.finalize(device, requires_grad=True)
    solver = FeatherstoneSolver(model, contact_softness="material")
    state = start(model, [0.0, 1.0, 0.0, 1.0, 0.2, -1.0])
    wrt = (*USUAL, "model.shape_materials.ke", "model.shape_materials.kd")
    report = diff.gradcheck(model, solver, state, 20, DT, loss, wrt)
    print(report)
    for name in wrt:
        assert report[name].error < RTOL, name


@pytest.mark.parametrize("kind", ["box", "capsule"])
def test_compliant_contact_with_normals_that_turn(device: str, kind: str):
    builder = z_up()
    material = {"ke": 2.0e4, "kd": 50.0, "kf": 100.0}
    add(builder, kind, at(0.0, 0.0, 0.0999), **material)
    add(builder, "capsule", at(0.02, 0.01, 0.299, angle=1.1), **material)
    builder.set_ground_plane(mu=0.4, **material)
    model = builder.finalize(device, requires_grad=True)
    solver = FeatherstoneSolver(model, contact_mode="compliant")
    state = start(model, [[0.0] * 6, [0.0, 0.0, 0.1, 0.3, 0.2, -0.5]])
    wrt = (*USUAL, "model.shape_materials.ke", "model.shape_materials.kd")
    report = diff.gradcheck(model, solver, state, 20, 1.0e-3, loss, wrt, samples=16)
    print(report)
    assert report.error < RTOL


def test_spin_after_a_bounce_does_not_depend_on_where_in_a_step_it_falls(device: str):
    """A spinning ball with friction, dropped from heights a millimetre apart: the same spin, to rounding."""
    builder, velocities, steps, _ = scene("sphere bounces")
    model = builder.finalize(device)
    spins = []
    for lift in (-0.008, -0.004, 0.0, 0.004, 0.008):
        state, spare, solver = start(model, velocities), model.state(), FeatherstoneSolver(model)
        q = state.joint_q.numpy().copy()
        q[2] += lift
        state.joint_q.assign(q)
        for _ in range(steps):
            solver.step(model, state, spare, None, None, DT)
            state, spare = spare, state
        spins.append(state.joint_qd.numpy()[:3].copy())
    np.testing.assert_allclose(spins, np.tile(spins[0], (5, 1)), rtol=0.0, atol=1.0e-4)
    assert np.abs(spins[0] - velocities[0][:3]).max() > 1.0, "friction has to have turned it"


def bouncing(device: str, drop: float, restitution: float):
    builder = z_up()
    add(builder, "sphere", at(0.0, 0.0, 0.1 + drop), restitution=restitution)
    builder.set_ground_plane(restitution=restitution)
    return builder.finalize(device, requires_grad=True)


@wp.kernel
def add_height(body_q: wp.array(dtype=wp.transform), losses: wp.array(dtype=float)):
    w = wp.tid()
    wp.atomic_add(losses, w, wp.transform_get_translation(body_q[w])[2])


def height(state: newtonsim.State, losses: wp.array) -> None:
    wp.launch(add_height, len(losses), [state.body_q, losses], device=losses.device)


@pytest.mark.parametrize(("drop", "restitution"), [(0.4, 1.0), (0.37, 1.0), (0.4, 0.5), (0.33, 0.8)])
@pytest.mark.parametrize("rate", [240, 960, 3840])
def test_slope_through_a_bounce(device: str, rate: int, drop: float, restitution: float):
    """The height at 0.5 s by the initial vertical velocity is -(e v - g s)/g, s after an impact at v.

    Of -e v and g s, which nearly cancel, the time of impact carries an error of half a step at the start.
    """
    steps = rate // 2
    model = bouncing(device, drop, restitution)
    solver = FeatherstoneSolver(model)
    result = diff.rollout(
        model, solver, start(model, [0.0] * 6), None, steps, 1.0 / rate, height, ("state.joint_qd",)
    )
    slope = result.gradients["state.joint_qd"].numpy()[5]
    speed = math.sqrt(2.0 * GRAVITY * drop)
    after = 0.5 - speed / GRAVITY
    exact = -(restitution * speed - GRAVITY * after) / GRAVITY
    print(f"1/{rate} s, drop {drop}, e {restitution}: {slope:.5f}, exact {exact:.5f}")
    tolerance = 0.05 * abs(exact) if (drop, restitution) == (0.4, 1.0) else 0.75 / rate
    assert abs(slope - exact) < tolerance


@pytest.mark.parametrize("rate", [240, 960])
def test_slope_through_a_rebound_of_an_articulated_body(device: str, rate: int):
    """A ball on two slides: the slope with respect to the initial vertical velocity is that of a free one."""
    drop, restitution = 0.4, 0.8
    builder = z_up()
    carriage = builder.add_body(mass=1.0, I_m=wp.mat33(0.1 * np.eye(3)))
    ball = builder.add_body()
    builder.add_shape_sphere(ball, radius=0.1, density=400.0, mu=0.0, restitution=restitution)
    builder.add_articulation()
    builder.add_joint_prismatic(-1, carriage, axis=(1.0, 0.0, 0.0), armature=0.0)
    builder.add_joint_prismatic(carriage, ball, axis=(0.0, 0.0, 1.0), armature=0.0)
    builder.joint_q[:] = [0.0, 0.1 + drop]
    builder.set_ground_plane(mu=0.0, restitution=restitution)
    model = builder.finalize(device, requires_grad=True)

    def rise(state: newtonsim.State, losses: wp.array) -> None:
        wp.launch(add_height, 1, [state.body_q[1:], losses], device=losses.device)

    solver, state, duration = FeatherstoneSolver(model), start(model, [0.0, 0.0]), 0.45
    steps, wrt = round(rate * duration), ("state.joint_qd",)
    result = diff.rollout(model, solver, state, None, steps, 1.0 / rate, rise, wrt)
    speed = math.sqrt(2.0 * GRAVITY * drop)
    after = duration - speed / GRAVITY
    height = 0.1 + restitution * speed * after - 0.5 * GRAVITY * after * after
    slope = -(restitution * speed - GRAVITY * after) / GRAVITY
    found = float(result.gradients["state.joint_qd"].numpy()[1])
    print(f"1/{rate} s: {found:.5f}, exact {slope:.5f}")
    assert float(result.losses.numpy()[0]) == pytest.approx(height, abs=0.5 / rate)
    # -e v and g s nearly cancel in it, and the time of impact carries an error of half a step at the start
    assert abs(found - slope) < 0.75 / rate


@wp.kernel
def add_way(body_q: wp.array(dtype=wp.transform), losses: wp.array(dtype=float)):
    w = wp.tid()
    wp.atomic_add(losses, w, wp.transform_get_translation(body_q[w])[0])


def way(state: newtonsim.State, losses: wp.array) -> None:
    wp.launch(add_way, len(losses), [state.body_q, losses], device=losses.device)


def test_slope_of_the_way_that_a_landing_body_slides(device: str):
    """What lands without rebound loses μ times the normal impulse: the way by v_z has the slope μ T.

    Whatever the moment of the impact, x = v_x T - μ (v_z T + ...), at any step.
    """
    mu, duration = 0.4, 0.2
    for rate in (120, 480, 1920):
        builder = z_up()
        add(builder, "plate", at(0.0, 0.0, 0.07), mu=mu)
        builder.set_ground_plane(mu=mu, restitution=0.0)
        model = builder.finalize(device, requires_grad=True)
        solver, state = FeatherstoneSolver(model), start(model, [0.0, 0.0, 0.0, 2.0, 0.0, -0.5])
        steps = round(rate * duration)
        result = diff.rollout(model, solver, state, None, steps, 1.0 / rate, way, ("state.joint_qd",))
        slope = result.gradients["state.joint_qd"].numpy()[5]
        print(f"1/{rate} s: {slope:.5f}, exact {mu * duration:.5f}")
        assert slope == pytest.approx(mu * duration, rel=1.0e-3)


def turning_hand(device: str) -> tuple[newtonsim.Model, newtonsim.State]:
    """A cube between two fingers on an arm of 0.5 m that turns about z at 1.5 rad/s and y at 0.7 rad/s."""
    builder, half = z_up(), 0.02
    inertia = wp.mat33(0.02 * np.eye(3))
    shoulder, arm = (builder.add_body(mass=1.0, I_m=inertia) for _ in range(2))
    fingers = [builder.add_body(mass=0.05, I_m=wp.mat33(1.0e-4 * np.eye(3))) for _ in range(2)]
    cube = builder.add_body(origin=at(0.5, 0.0, 0.0))
    builder.add_articulation()
    builder.add_joint_revolute(-1, shoulder, axis=(0.0, 0.0, 1.0))
    builder.add_joint_revolute(shoulder, arm, axis=(0.0, 1.0, 0.0))
    for side, finger in zip((1.0, -1.0), fingers):
        place = (0.5, side * (half + 0.005), 0.0)
        builder.add_shape_box(finger, pos=place, hx=0.03, hy=0.005, hz=0.02, mu=0.8, density=0.0)
        drive = {"target_ke": 1.0e4, "target_kd": 100.0, "mode": newtonsim.JOINT_MODE_TARGET_POSITION}
        builder.add_joint_prismatic(arm, finger, axis=(0.0, side, 0.0), target=-1.0e-3, **drive)
    builder.add_articulation()
    builder.add_joint_free(cube)
    builder.add_shape_box(cube, hx=half, hy=half, hz=half, mu=0.8, density=3000.0)
    model = builder.finalize(device, requires_grad=True)
    spin = np.array([0.0, 0.7, 1.5])
    return model, start(model, [1.5, 0.7, 0.0, 0.0, *spin, *np.cross(spin, [0.5, 0.0, 0.0])])


def test_cube_that_a_turning_hand_holds(device: str):
    """What the rows want depends on bias accelerations, and these on velocities."""
    model, state = turning_hand(device)
    solver = FeatherstoneSolver(model, iterations=400, tolerance=1.0e-7)
    report = diff.gradcheck(model, solver, state, 10, DT, loss, ("state.joint_qd",))
    print(solver.contacts.rigid_contact_count.numpy(), report)
    assert report.error < 1.0e-3
