"""Gradients of XPBDSolver and VBDSolver where particles touch rigid bodies that move, against differences."""

import numpy as np
import particle_scenes as scenes
import pytest
import warp as wp

import newtonsim
from newtonsim import diff
from newtonsim.solvers import VBDSolver, XPBDSolver

DT = 1.0 / 120.0


@wp.kernel
def add_bodies(
    q: wp.array(dtype=wp.transform),
    qd: wp.array(dtype=wp.spatial_vector),
    weight: wp.array(dtype=wp.spatial_vector),
    weight_qd: wp.array(dtype=wp.spatial_vector),
    origin: wp.array(dtype=wp.transform),
    world: wp.array(dtype=int),
    losses: wp.array(dtype=float),
):
    b = wp.tid()
    moved = wp.transform_get_translation(q[b]) - wp.transform_get_translation(origin[b])
    turned = wp.transform_get_rotation(q[b]) * wp.quat_inverse(wp.transform_get_rotation(origin[b]))
    loss = wp.dot(wp.spatial_bottom(weight[b]), moved) + wp.dot(weight_qd[b], qd[b])
    loss += wp.dot(wp.spatial_top(weight[b]), wp.vec3(turned[0], turned[1], turned[2]))
    wp.atomic_add(losses, world[b], loss)


@wp.kernel
def add_first(q: wp.array(dtype=wp.vec3), losses: wp.array(dtype=float)):
    losses[0] = q[0][0]


def weighted(model, seed=0):
    """Loss of particles and bodies: motions, and a tenth of velocities, with random weights."""
    rng, of_particles = np.random.default_rng(seed + 5), scenes.weighted(model, seed)
    weights = [
        wp.array(scale * rng.normal(size=(model.body_count, 6)), dtype=wp.spatial_vector, device=model.device)
        for scale in (0.3, 0.03)
    ]
    origin = wp.clone(model.body_q)

    def loss(state, losses):
        of_particles(state, losses)
        inputs = [state.body_q, state.body_qd, *weights, origin, model.body_world]
        wp.launch(add_bodies, model.body_count, inputs, [losses], device=model.device)

    return loss


def many(scene, *arguments):
    """Three worlds that differ."""
    builder = newtonsim.ModelBuilder(up_vector=scenes.UP, gravity=scene(0, *arguments).gravity)
    for world in range(3):
        builder.add_builder(scene(world, *arguments))
    return builder


def grain_and_ball(world):
    """A grain that flies into a free ball, which turns, in the air."""
    builder = newtonsim.ModelBuilder(up_vector=scenes.UP, gravity=-1.0)
    ball = builder.add_body(origin=wp.transform((0.0, 0.0, 0.5), wp.quat_identity()))
    builder.add_joint_free(ball)
    builder.add_shape_sphere(ball, radius=0.2, density=10.0)
    builder.add_particle(
        (0.12 - 0.02 * world, 0.03, 0.66 + 0.02 * world), (-0.5, 0.2, -1.0), 0.2, radius=0.02
    )
    return builder


def beam_on_box(world):
    """A soft beam that falls onto the end of a free box, in the air."""
    builder = scenes.beam(0.01, held=False, height=0.5 + 0.003 * world, velocity=(0.1, 0.2, -0.6))
    builder.particle_radius[:] = [0.02] * len(builder.particle_radius)
    tilted = wp.quat_from_axis_angle(wp.vec3(0.6, 0.8, 0.0), 0.2)
    box = builder.add_body(origin=wp.transform((0.1, 0.05, 0.44), tilted))
    builder.add_joint_free(box)
    builder.add_shape_box(box, hx=0.2, hy=0.12, hz=0.02, density=200.0)
    return builder


def beam_on_arm(world):
    """A soft beam that falls onto an arm with a spring at its hinge."""
    builder = scenes.beam(0.01, held=False, height=0.5 + 0.003 * world, velocity=(0.1, 0.2, -0.6))
    builder.particle_radius[:] = [0.02] * len(builder.particle_radius)
    link = builder.add_body()
    start = wp.transform((-0.3, 0.05, 0.44), wp.quat_from_axis_angle(wp.vec3(1.0, 0.0, 0.0), 0.2))
    drive = {
        "mode": newtonsim.JointMode.TARGET_POSITION,
        "target_ke": 20.0,
        "target_kd": 0.5,
        "armature": 0.0,
    }
    builder.add_joint_revolute(-1, link, parent_xform=start, axis=(0.0, 1.0, 0.0), **drive)
    builder.add_shape_box(link, pos=(0.35, 0.0, 0.0), hx=0.3, hy=0.12, hz=0.02, density=200.0)
    return builder


def grain_and_plate(world):
    """A grain that flies into a thin plate, which whirls: its inertia turns a long way within a step."""
    builder = newtonsim.ModelBuilder(up_vector=scenes.UP, gravity=-1.0)
    tilted = wp.quat_from_axis_angle(wp.vec3(0.6, 0.8, 0.0), 0.2)
    plate = builder.add_body(origin=wp.transform((0.0, 0.0, 0.5), tilted))
    builder.add_joint_free(plate)
    builder.add_shape_box(plate, hx=0.3, hy=0.1, hz=0.02, density=20.0)
    builder.add_particle((0.2, 0.04, 0.55 + 0.003 * world), (0.1, 0.2, -1.5), 0.2, radius=0.02)
    return builder


SCENES = {
    "grain slides": (grain_and_ball, 0.1),
    "grain sticks": (grain_and_ball, 3.0),
    "grain on plate": (grain_and_plate, 0.3),
    "beam on box": (beam_on_box, 0.3),
    "beam on arm": (beam_on_arm, 0.3),
}


def solver_of(name, model, sweeps=60, substeps=1):
    if name == "xpbd":
        return XPBDSolver(model, sweeps, soft_body_relaxation=1.0, substeps=substeps, warm_start=0.0)
    return VBDSolver(model, iterations=sweeps, substeps=substeps)


def moving(model, seed=2):
    """Joints at their coordinates; free bodies turn."""
    state, rng = model.state(), np.random.default_rng(seed)
    newtonsim.eval_fk(model, state.joint_q, state.joint_qd, None, state)
    qd, free = state.body_qd.numpy(), model.joint_type.numpy() == newtonsim.JointType.FREE
    free = model.joint_child.numpy()[free]
    qd[free, :3] += rng.normal(size=(len(free), 3))
    state.body_qd.assign(qd)
    return state


def model_of(device, scene):
    build, mu = SCENES[scene]
    model = many(build).finalize(device, requires_grad=True)
    model.shape_materials.mu.fill_(mu)
    model.soft_contact_mu = mu
    return model


def slope_errors(model, rollout, state, name, seed=0):
    """Errors of each world's slopes along its gradient and along a random direction, over its gradient.

    Against central differences over two spans. Where these differ from each other by more than 0.5 %, or
    slopes on both sides by more than 3 %, a contact begins or ends elsewhere: such directions are left out
    (NaN).
    """
    array, rng, worlds = name.split(".")[1], np.random.default_rng(seed), model.world_count
    gradient = rollout(state).gradients[name].numpy().astype(np.float64)
    base = getattr(state, array).numpy().copy()
    if array == "body_q":
        gradient[:, 3:] = 0.0
    gradient = gradient.reshape(worlds, -1)
    here = rollout.evaluate(state).losses.numpy().astype(np.float64)
    scale, errors = 10.0 if array.endswith("_f") else 1.0, []
    for direction in (gradient, np.where(gradient != 0.0, rng.normal(size=gradient.shape), 0.0)):
        direction = scale * direction / np.linalg.norm(direction, axis=1, keepdims=True)
        found = []
        for span in (1e-3, 4e-4):
            ends = []
            for sign in (1.0, -1.0):
                moved = state.clone()
                values = base + sign * span * direction.reshape(base.shape)
                getattr(moved, array).assign(values.astype(np.float32))
                ends.append(rollout.evaluate(moved).losses.numpy().astype(np.float64))
            found.append((ends[0] - ends[1]) / (2.0 * span))
        told = (gradient * direction).sum(axis=1)
        size = scale * np.linalg.norm(gradient, axis=1)
        kink = np.abs(ends[0] + ends[1] - 2.0 * here) / span > 0.03 * size
        kink |= np.abs(found[0] - found[1]) > 0.005 * size
        errors.append(np.where(kink, np.nan, np.abs(found[0] - told) / size))
    return np.array(errors)


@pytest.mark.parametrize("name", ["xpbd", "vbd"])
@pytest.mark.parametrize(
    ("scene", "most"),
    [("grain slides", 4e-3), ("grain sticks", 4e-3), ("beam on box", 1e-2), ("beam on arm", 1e-2)],
)
def test_contacts_with_bodies_that_move(device, name, scene, most):
    """Slopes by states and forces of particles and bodies, in three worlds that differ."""
    model = model_of(device, scene)
    wrt = [
        f"state.{array}"
        for array in ("particle_q", "particle_qd", "particle_f", "body_q", "body_qd", "body_f")
    ]
    solver, state = solver_of(name, model, 100 if "arm" in scene else 60), moving(model)
    rollout = diff.Rollout(
        model, solver, 8 if "beam" in scene else 12, DT, weighted(model), wrt=wrt, warn=False
    )
    errors = np.array([slope_errors(model, rollout, state, array) for array in wrt])
    assert np.isfinite(errors).mean() > 0.33
    assert np.nanmax(errors) < most, str(errors)


@pytest.mark.parametrize("name", ["xpbd", "vbd"])
def test_masses_and_friction(device, name):
    """Of a grain that slides over a ball, with substeps."""
    model = model_of(device, "grain slides")
    wrt = (
        "model.particle_mass",
        "model.body_mass",
        "model.body_com",
        "model.gravity_vec",
        "model.shape_materials.mu",
    )
    given = (solver_of(name, model, substeps=2), moving(model), 6, DT, weighted(model), wrt)
    report = diff.gradcheck(model, *given, samples=3, tolerance=2e-2)
    assert report.error < 2e-2, str(report)


@pytest.mark.parametrize("name", ["xpbd", "vbd"])
def test_inertia_that_turns(device, name):
    """Angular impulses of a grain count by the inertia of a whirling plate, which depends on its motion."""
    model = model_of(device, "grain on plate")
    state = moving(model)
    qd = state.body_qd.numpy()
    qd[:, :3] = (3.0, -20.0, 8.0)
    state.body_qd.assign(qd)
    wrt = ("model.body_inertia", "state.body_qd")
    given = (solver_of(name, model), state, 6, DT, weighted(model), wrt)
    report = diff.gradcheck(model, *given, samples=4, tolerance=2e-2)
    assert report.error < 2e-2, str(report)


@pytest.mark.parametrize("name", ["xpbd", "vbd"])
def test_a_driven_body_pushes(device, name):
    """A body without mass keeps its velocity and pushes a grain, whose motion follows that of the body."""
    builder = newtonsim.ModelBuilder(up_vector=scenes.UP, gravity=0.0)
    body = builder.add_body(origin=wp.transform((0.0, 0.0, 0.0), wp.quat_identity()))
    builder.add_shape_box(body, hx=0.1, hy=0.1, hz=0.1, density=0.0)
    builder.add_particle((0.121, 0.02, 0.03), (0.0, 0.0, 0.0), 0.1, radius=0.02)
    model = builder.finalize(device, requires_grad=True)
    state, steps = model.state(), 6
    qd = np.zeros((1, 6), np.float32)
    qd[0, 3] = 1.0
    state.body_qd.assign(qd)

    def loss(end, losses):
        wp.launch(add_first, 1, [end.particle_q], [losses], device=device)

    rollout = diff.Rollout(
        model, solver_of(name, model), steps, DT, loss, wrt=["state.body_q", "state.body_qd"]
    )
    gradients = rollout(state).gradients
    by_place, by_speed = (gradients[f"state.{n}"].numpy()[0] for n in ("body_q", "body_qd"))
    errors = slope_errors(model, rollout, state, "state.body_qd")
    assert np.nanmax(errors) < 2e-3
    # where the face is when it has gone a distance v t
    assert by_speed[3] == pytest.approx(steps * DT, rel=0.5)
    assert by_place[0] > 0.0


def test_uncoupled_particles_are_as_alone(device):
    """Far from all bodies, both have the gradients that they have without each other."""
    gradients = []
    for with_grain, with_ball in ((1, 1), (1, 0), (0, 1)):
        builder = newtonsim.ModelBuilder(up_vector=scenes.UP)
        if with_ball:
            ball = builder.add_body(origin=wp.transform((5.0, 0.0, 0.5), wp.quat_identity()))
            builder.add_joint_free(ball)
            builder.add_shape_sphere(ball, radius=0.2)
        if with_grain:
            builder.add_particle((0.0, 0.0, 0.021), (1.0, 0.0, -0.5), 0.1, radius=0.02)
        builder.set_ground_plane()
        model = builder.finalize(device, requires_grad=True)
        states = [model.state(requires_grad=True) for _ in range(2)]
        with wp.Tape() as tape:
            XPBDSolver(model, 30).step(model, *states, None, None, DT)
        names = ["particle_q"] * with_grain + ["body_qd"] * with_ball
        for array in names:
            getattr(states[1], array).grad.fill_(1.0)
        tape.backward()
        gradients.append({array: getattr(states[0], array).grad.numpy() for array in names})
    np.testing.assert_allclose(gradients[0]["particle_q"], gradients[1]["particle_q"], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(gradients[0]["body_qd"], gradients[2]["body_qd"], rtol=1e-5, atol=1e-6)
