"""newtonsim.diff.Rollout against analytic gradients, and what it promises about memory, bits and errors."""

import itertools

import numpy as np
import pytest
import rollout_scenes as scenes
import warp as wp

import newtonsim
from newtonsim import diff
from newtonsim.diff.buffers import Checkpoints, StateLayout
from newtonsim.errors import NewtonsimError, NotDifferentiableError
from newtonsim.solvers import VBDSolver, XPBDSolver

DT = 0.01


def slider_rollout(device, worlds=3, steps=20, stiffness=0.0, wrt=("state.joint_qd",), **options):
    model = scenes.sliders(worlds, stiffness=stiffness).finalize(device, requires_grad=True)
    options.setdefault("loss", scenes.first_coordinate(model))
    solver = newtonsim.FeatherstoneSolver(model)
    return diff.Rollout(model, solver, steps, DT, wrt=wrt, **options)


def start_of(model, q=(0.1, 0.2, 0.3), qd=(1.0, 2.0, 3.0)):
    state = model.state()
    state.joint_q.assign(np.array(q, np.float32))
    state.joint_qd.assign(np.array(qd, np.float32))
    return state


def test_free_mass_has_the_analytic_gradients(device):
    """x = x0 + n h v0 + h²/m Σ (n - i) f_i for symplectic Euler, so all derivatives are known."""
    steps, mass = 20, 2.0
    wrt = ("state.joint_q", "state.joint_qd", "control.joint_f", "model.body_mass", "state.body_f")
    rollout = slider_rollout(device, steps=steps, wrt=wrt)
    forces = np.random.default_rng(0).normal(size=(steps, 3)).astype(np.float32)
    result = rollout(start_of(rollout.model), {"joint_f": forces})
    remaining = steps - np.arange(steps)
    by_force = DT**2 / mass * remaining
    reach = (by_force[:, None] * forces).sum(axis=0)
    wanted = np.array([0.1, 0.2, 0.3]) + steps * DT * np.array([1.0, 2.0, 3.0]) + reach
    g = {name: gradient.numpy() for name, gradient in result.gradients.items()}
    np.testing.assert_allclose(result.losses.numpy(), wanted, rtol=1e-5)
    np.testing.assert_allclose(result.state.joint_q.numpy(), wanted, rtol=1e-5)
    np.testing.assert_allclose(g["state.joint_q"], 1.0, rtol=1e-5)
    np.testing.assert_allclose(g["state.joint_qd"], steps * DT, rtol=1e-5)
    np.testing.assert_allclose(g["control.joint_f"], np.repeat(by_force[:, None], 3, 1), rtol=1e-4)
    np.testing.assert_allclose(g["model.body_mass"], -reach / mass, rtol=1e-3, atol=1e-7)
    np.testing.assert_allclose(g["state.body_f"][:, 3], by_force.sum(), rtol=1e-4)


@pytest.mark.parametrize("sequence", [False, True])
def test_gradients_do_not_depend_on_the_checkpoints(device, sequence):
    model = scenes.pendulums(2).finalize(device, requires_grad=True)
    solver = newtonsim.FeatherstoneSolver(model)
    steps = 23
    wrt = ("state.joint_q", "state.joint_qd", "control.joint_f", "model.body_mass")
    rng = np.random.default_rng(1)
    controls = {"joint_f": rng.normal(size=(steps, 4) if sequence else 4)}

    def running(step, state, control, losses):
        inputs = [step, 2, state.joint_q, losses]
        wp.launch(scenes.add_weighted_square, model.world_count, inputs, device=device)

    found = []
    for checkpoint in ("tape", "sqrt", 1, 4, 30):
        loss = scenes.body_heights(model)
        rollout = diff.Rollout(model, solver, steps, DT, loss, running, wrt, checkpoint)
        for _ in range(2):
            result = rollout(model.state(), controls)
            found.append({"losses": result.losses, **result.gradients})
    for other in found[1:]:
        for name, array in found[0].items():
            assert np.abs(array.numpy()).max() > 0.0
            np.testing.assert_array_equal(array.numpy(), other[name].numpy(), err_msg=name)


def test_checkpoints_find_the_warm_starts_of_their_steps(device):
    """A box that slides: what a step computes depends on the impulses of the one before."""
    builder = newtonsim.ModelBuilder(up_vector=scenes.UP)
    body = builder.add_body(origin=wp.transform((0.0, 0.0, 0.1), wp.quat_identity()), key="box")
    builder.add_shape_box(body, hx=0.2, hy=0.15, hz=0.1)
    builder.set_ground_plane()
    model = builder.finalize(device, requires_grad=True)
    state = model.state()
    state.joint_qd.assign(np.array([0.0, 0.0, 0.4, 1.0, 0.3, -0.2], np.float32))
    wrt = ("state.joint_q", "state.joint_qd", "model.shape_materials.mu")
    solver = newtonsim.FeatherstoneSolver(model)
    loss = scenes.first_coordinate(model)
    rollouts = [
        diff.Rollout(model, solver, 12, DT, loss, wrt=wrt, checkpoint=checkpoint)
        for checkpoint in ("tape", 4, 1)
    ]
    found = [rollout(state) for rollout in rollouts]
    # segments computed again depend on their checkpoints, not on what else the solver was used for since
    tumbling = model.state()
    tumbling.joint_q.assign(np.array([0.1, 0.0, 0.12, 0.3, 0.2, 0.1, 0.9], np.float32))
    tumbling.joint_qd.assign(np.array([2.0, -1.0, 0.5, 1.0, 3.0, -2.0], np.float32))
    newtonsim.eval_fk(model, tumbling.joint_q, tumbling.joint_qd, None, tumbling)
    other = model.state()
    for _ in range(3):
        solver.step(model, tumbling, other, None, None, DT)
        tumbling, other = other, tumbling
    again = rollouts[1].backward()
    for name in wrt:
        np.testing.assert_array_equal(again[name].numpy(), found[1].gradients[name].numpy(), err_msg=name)
    rollouts[2](state)
    # the solver is left as ordinary steps leave it, whichever segment was computed last
    impulses = solver.contact_forces().numpy()
    solver.reset()
    a, b = model.state(requires_grad=False), model.state(requires_grad=False)
    a.assign(state)
    for _ in range(12):
        solver.step(model, a, b, None, None, DT)
        a, b = b, a
    np.testing.assert_array_equal(solver.contact_forces().numpy(), impulses)
    for other in found:
        np.testing.assert_array_equal(other.state.joint_q.numpy(), a.joint_q.numpy())
        for name in wrt:
            gradient = found[0].gradients[name].numpy()
            assert np.abs(gradient).max() > 0.0
            np.testing.assert_array_equal(other.gradients[name].numpy(), gradient, err_msg=name)


@pytest.mark.parametrize(
    ("scene", "kind"),
    [
        (scenes.hinged_boxes, newtonsim.FeatherstoneSolver),
        *itertools.product(
            (scenes.hinged_boxes, scenes.resting_cloth),
            (newtonsim.SemiImplicitSolver, XPBDSolver, VBDSolver),
        ),
    ],
)
def test_checkpoints_hold_all_that_steps_depend_on(device, scene, kind):
    """Steps from a checkpoint come out the same whatever the solver was used for in between."""
    model = scene().finalize(device, requires_grad=True)
    solver = kind(model)
    here, away, start, spare = (model.state(requires_grad=False) for _ in range(4))
    for state, speed in ((here, 0.4), (away, -3.0)):
        if model.body_count:
            state.joint_qd.fill_(speed)
            newtonsim.eval_fk(model, state.joint_q, state.joint_qd, None, state)
        else:
            # the other cloth flies, which is another past than that of the one on the ground
            state.particle_q.assign(model.particle_q.numpy() + np.float32([0.0, 0.0, 0.4 - speed]))
            state.particle_qd.fill_(wp.vec3(speed, 0.0, 0.0))

    def advance(state):
        for a, b in 3 * ((state, spare), (spare, state)):
            solver.step(model, a, b, None, None, 0.002)
        arrays = (state.body_q, state.body_qd, state.particle_q, state.particle_qd)
        return np.concatenate([array.numpy().ravel() for array in arrays if array is not None])

    advance(here)
    start.assign(here)
    layout = StateLayout(model)
    _, values = layout.make_state(start)
    checkpoints = Checkpoints(layout, 1, solver)
    checkpoints.save(0, values)
    wanted = advance(here)
    advance(away)
    checkpoints.load(0, values)
    np.testing.assert_array_equal(advance(start), wanted)


def test_what_was_refused_in_the_last_segment_is_not_forgotten(device):
    """Particles that touch in the last two steps: segments before them run backward from checkpoints."""
    builder = newtonsim.ModelBuilder(up_vector=scenes.UP, gravity=0.0)
    for x, speed in ((0.0, 1.0), (0.29, -1.0)):
        builder.add_particle((x, 0.0, 0.0), (speed, 0.0, 0.0), 1.0, radius=0.1)
    model = builder.finalize(device, requires_grad=True)

    def loss(state, losses):
        wp.launch(scenes.add_squared_distance, 2, [state.particle_q, losses], device=device)

    for checkpoint in ("tape", 2):
        solver = XPBDSolver(model)
        wrt = ("state.particle_qd",)
        rollout = diff.Rollout(model, solver, 6, DT, loss, wrt=wrt, checkpoint=checkpoint, warn=False)
        with pytest.raises(NotDifferentiableError, match="touch each other"):
            rollout(model.state())


def test_captured_gradients_equal_those_of_python(device):
    wrt = ("state.joint_q", "model.body_mass", "control.joint_act")
    model = scenes.pendulums(2).finalize(device, requires_grad=True)
    solver = newtonsim.FeatherstoneSolver(model)
    loss = scenes.body_heights(model)
    found = [
        diff.Rollout(model, solver, 9, DT, loss, wrt=wrt, capture=capture, warn=False)(model.state())
        for capture in (True, False)
    ]
    for name in wrt:
        captured, eager = (result.gradients[name].numpy() for result in found)
        np.testing.assert_array_equal(captured, eager, err_msg=name)


def test_result_is_that_of_ordinary_steps(device):
    model = scenes.pendulums(2).finalize(device, requires_grad=True)
    solver = newtonsim.FeatherstoneSolver(model)
    rollout = diff.Rollout(model, solver, 15, DT, scenes.body_heights(model), wrt=("state.joint_q",))
    ends = rollout(model.state()).state, rollout.evaluate(model.state()).state
    a, b = model.state(requires_grad=False), model.state(requires_grad=False)
    plain = newtonsim.FeatherstoneSolver(model)
    for _ in range(15):
        plain.step(model, a, b, None, None, DT)
        a, b = b, a
    for name in ("joint_q", "joint_qd", "body_q", "body_qd"):
        for end in ends:
            np.testing.assert_array_equal(getattr(end, name).numpy(), getattr(a, name).numpy(), err_msg=name)


def test_seeds_weigh_worlds_and_states(device):
    """The gradient of Σ s_w L_w + Σ c·x(end) is linear in s and c; a second way back gives the same."""
    steps = 7
    rollout = slider_rollout(device, steps=steps, wrt=("state.joint_qd", "model.gravity_vec"), warn=False)
    seeds = wp.array([2.0, 0.0, -1.0], dtype=float, device=device)
    ends = {"state.joint_qd": wp.array([0.0, 5.0, 0.0], dtype=float, device=device)}
    wanted = steps * DT * np.array([2.0, 0.0, -1.0]) + np.array([0.0, 5.0, 0.0])
    result = rollout(start_of(rollout.model), seeds=seeds, state_seeds=ends)
    np.testing.assert_allclose(result.gradients["state.joint_qd"].numpy(), wanted, rtol=1e-5)
    # a rail along x: gravity along x moves every world by h² n (n + 1) / 2
    by_gravity = seeds.numpy() * DT**2 * steps * (steps + 1) / 2 + np.array([0.0, 5.0, 0.0]) * DT * steps
    np.testing.assert_allclose(result.gradients["model.gravity_vec"].numpy()[:, 0], by_gravity, rtol=1e-4)
    ones = rollout.backward()
    np.testing.assert_allclose(ones["state.joint_qd"].numpy(), steps * DT, rtol=1e-5)
    again = rollout.backward(seeds, ends)
    for name, gradient in result.gradients.items():
        np.testing.assert_array_equal(again[name].numpy(), gradient.numpy())
    rollout.evaluate(start_of(rollout.model))
    with pytest.raises(NewtonsimError, match="backward"):
        rollout.backward()


def test_running_loss_is_told_the_step(device):
    """L = Σ i x_i² with x_i = x0 + i h v0, whatever the segments."""
    steps = 11
    model = scenes.sliders(2).finalize(device, requires_grad=True)
    solver = newtonsim.FeatherstoneSolver(model)

    def running(step, state, control, losses):
        inputs = [step, 1, state.joint_q, losses]
        wp.launch(scenes.add_weighted_square, model.world_count, inputs, device=device)

    wrt = ("state.joint_q", "state.joint_qd")
    rollout = diff.Rollout(model, solver, steps, DT, running=running, wrt=wrt, checkpoint=4)
    x0, v0 = np.array([0.5, -1.0]), np.array([1.0, 2.0])
    result = rollout(start_of(model, x0, v0))
    i = np.arange(1, steps + 1)[:, None]
    x = x0 + i * DT * v0
    np.testing.assert_allclose(result.losses.numpy(), (i * x**2).sum(axis=0), rtol=1e-5)
    g = result.gradients
    np.testing.assert_allclose(g["state.joint_q"].numpy(), (2 * i * x).sum(axis=0), rtol=1e-5)
    np.testing.assert_allclose(g["state.joint_qd"].numpy(), (2 * i * x * i * DT).sum(axis=0), rtol=1e-4)


def test_oscillator_and_its_spring(device):
    """Semi-implicit Euler on a spring, against the derivative of the same recursion in float64."""
    steps, stiffness, mass = 30, 5.0, 2.0
    wrt = ("state.joint_q", "model.joint_stiffness", "model.body_mass")
    rollout = slider_rollout(device, steps=steps, stiffness=stiffness, wrt=wrt)

    def end(x, v, k, m):
        for _ in range(steps):
            # the solver takes springs at the end of the step
            v = (v - DT * k / m * x) / (1.0 + DT**2 * k / m)
            x = x + DT * v
        return x

    x0, v0 = np.array([0.1, 0.2, 0.3]), np.array([1.0, 2.0, 3.0])
    result = rollout(start_of(rollout.model))
    np.testing.assert_allclose(result.losses.numpy(), end(x0, v0, stiffness, mass), rtol=1e-4)
    e = 1e-5
    by = {
        "state.joint_q": end(x0 + e, v0, stiffness, mass) - end(x0 - e, v0, stiffness, mass),
        "model.joint_stiffness": end(x0, v0, stiffness + e, mass) - end(x0, v0, stiffness - e, mass),
        "model.body_mass": end(x0, v0, stiffness, mass + e) - end(x0, v0, stiffness, mass - e),
    }
    for name, change in by.items():
        np.testing.assert_allclose(result.gradients[name].numpy(), change / (2 * e), rtol=1e-3, err_msg=name)


def test_clip_shortens_long_gradients_of_worlds(device):
    wrt = ("state.joint_q", "state.joint_qd")
    free = slider_rollout(device, wrt=wrt, steps=10)
    clipped = slider_rollout(device, wrt=wrt, steps=10, clip=0.5)
    seeds = wp.array([1.0, 0.1, -3.0], dtype=float, device=device)
    state = start_of(free.model)
    long, short = free(state, seeds=seeds).gradients, clipped(start_of(clipped.model), seeds=seeds).gradients
    both = np.array([long[name].numpy() for name in wrt])
    length = np.linalg.norm(both, axis=0)
    assert (length > 0.5).tolist() == [True, False, True]
    wanted = both * np.minimum(1.0, 0.5 / length)
    np.testing.assert_allclose(np.array([short[name].numpy() for name in wrt]), wanted, rtol=1e-5)


def test_nonfinite_gradients_name_world_and_state(device):
    model = scenes.sliders(3).finalize(device, requires_grad=True)
    solver = newtonsim.FeatherstoneSolver(model)
    wrt = ("state.joint_q", "state.joint_qd", "control.joint_f")
    loss = scenes.by_world(model, scenes.add_square_root, of="joint_qd")
    rollout = diff.Rollout(model, solver, 6, DT, loss, wrt=wrt)
    with pytest.warns(RuntimeWarning, match=r"world 1 at state 6 .* 6 steps"):
        result = rollout(start_of(model, qd=(1.0, -1.0, 4.0)))
    assert result.nonfinite.tolist() == [-1, 6, -1]
    slopes = result.gradients["state.joint_qd"].numpy()
    np.testing.assert_allclose(slopes[[0, 2]], [0.5, 0.25], rtol=1e-4)
    assert np.isnan(slopes[1])


def test_nonfinite_gradient_that_begins_on_the_way(device):
    """A loss of every step that is bad at the third one only: the states after it are fine."""
    model = scenes.sliders(2).finalize(device, requires_grad=True)
    solver = newtonsim.FeatherstoneSolver(model)

    def running(step, state, control, losses):
        inputs = [1, state.joint_qd, losses]
        wp.launch(scenes.add_square_root, model.world_count, inputs, device=device)

    # speeds of the second world: 0.5, 0.3, 0.1, -0.1 ... then pushed back above zero
    forces = np.zeros((6, 2), np.float32)
    forces[:, 1] = np.array([-1.0, -1.0, -1.0, 3.0, 1.0, 1.0]) * 0.2 * 2.0 / DT
    rollout = diff.Rollout(model, solver, 6, DT, running=running, wrt=("state.joint_qd",), checkpoint=2)
    with pytest.warns(RuntimeWarning, match="world 1 at state 2"):
        result = rollout(start_of(model, (0.0, 0.0), (1.0, 0.5)), {"joint_f": forces})
    assert result.nonfinite.tolist() == [-1, 2]
    assert np.isfinite(result.gradients["state.joint_qd"].numpy()[0])


def test_memory_grows_with_the_root_of_the_steps(device):
    model = scenes.pendulums(64).finalize(device, requires_grad=True)
    solver = newtonsim.FeatherstoneSolver(model)
    sizes = {}
    for checkpoint in ("tape", "sqrt"):
        for steps in (100, 400):
            loss = scenes.body_heights(model)
            rollout = diff.Rollout(
                model, solver, steps, DT, loss, wrt=("state.joint_q",), checkpoint=checkpoint
            )
            rollout(model.state())
            sizes[checkpoint, steps] = rollout.memory
    tape, sqrt = (sizes[checkpoint, 400] - sizes[checkpoint, 100] for checkpoint in ("tape", "sqrt"))
    arrays = vars(model.state(requires_grad=False)).values()
    state = sum(array.capacity for array in arrays if isinstance(array, wp.array))
    assert 0.7 < tape / (300 * state) < 2.0
    # twice the root of the steps: 10 more rows and 10 more checkpoints, with what the solver remembers there
    assert 0.7 < sqrt / (20 * state) < 4.0
    # what the solver has for backward passes alone counts, whatever the number of steps
    report = newtonsim.memory_report(model=model, solver=solver).arrays
    adjoint = sum(size for path, size in report.items() if path.startswith("solver.adjoint."))
    assert sizes["sqrt", 100] > adjoint + 20 * 0.7 * state > 30 * state


def test_checkpoints_are_chosen_by_the_memory_of_the_states(device):
    """Two joints and two bodies in each of 64 worlds: 7.7 kB, and as much again at most for impulses."""
    model = scenes.pendulums(64).finalize(device, requires_grad=True)
    solver = newtonsim.FeatherstoneSolver(model)
    lengths = {steps: diff.Rollout(model, solver, steps, DT).segment for steps in (10, 8_000, 20_000)}
    assert lengths == {10: 10, 8_000: 8_000, 20_000: 142}


def test_options_and_arrays_that_change_are_seen(device):
    rollout = slider_rollout(device, wrt=("state.joint_q",), stiffness=5.0)
    model = rollout.model
    before = rollout(start_of(model)).gradients["state.joint_q"].numpy()
    model.joint_stiffness.fill_(0.0)
    np.testing.assert_allclose(rollout(start_of(model)).gradients["state.joint_q"].numpy(), 1.0, rtol=1e-6)
    model.joint_stiffness = wp.full(3, 5.0, dtype=float, device=device, requires_grad=True)
    after = rollout(start_of(model)).gradients["state.joint_q"].numpy()
    assert before[0] < 0.99
    np.testing.assert_array_equal(after, before)


def test_zero_gradient_is_not_silent(device):
    rollout = slider_rollout(device, wrt=("state.joint_qd", "model.joint_stiffness"))
    state = rollout.model.state()
    with pytest.warns(UserWarning, match=r"zero in all entries of model\.joint_stiffness"):
        rollout(state)
