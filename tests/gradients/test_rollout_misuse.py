"""What newtonsim.diff.Rollout says to wrong arguments, by name and before anything is changed."""

import functools

import numpy as np
import pytest
import rollout_scenes as scenes
import warp as wp

import newtonsim
from newtonsim import diff
from newtonsim.actuators import ActuatedSolver, Actuators
from newtonsim.errors import ModelError, NewtonsimError, NotDifferentiableError
from newtonsim.solvers import VBDSolver, XPBDSolver

STEPS, DT = 5, 0.01


@functools.cache
def parts(device):
    model = scenes.sliders(2).finalize(device, requires_grad=True)
    return model, newtonsim.FeatherstoneSolver(model), scenes.first_coordinate(model)


def make(device, **changed):
    model, solver, loss = parts(device)
    options = {"model": model, "solver": solver, "steps": STEPS, "dt": DT, "loss": loss}
    return diff.Rollout(**(options | {"wrt": ("state.joint_qd",)} | changed))


@wp.kernel
def add_one(losses: wp.array(dtype=float)):
    wp.atomic_add(losses, wp.tid(), 1.0)


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"steps": 0}, "steps"),
        ({"steps": 5.0}, "steps"),
        ({"dt": -1.0}, "dt"),
        ({"dt": "small"}, "dt: expected a positive number, got 'small'"),
        ({"checkpoint": "all"}, "checkpoint"),
        ({"clip": 0.0}, "clip"),
        ({"clip": "short"}, "clip"),
        ({"solver": None}, "solver: expected one such as .*got NoneType"),
        ({"wrt": ("joint_qd",)}, "start with .*; did you mean 'state.joint_qd'"),
        ({"wrt": ("states.joint_q",)}, "start with .*; did you mean 'state.joint_q'"),
        ({"wrt": ("state.q",)}, "there is no array 'state.q'; there are state.particle_q"),
        ({"wrt": ("state.joint_gd",)}, "did you mean 'state.joint_qd'"),
        ({"wrt": ("model.body_masses",)}, "did you mean 'model.body_mass'"),
        ({"wrt": ("model.shape_material.mu",)}, "did you mean 'model.shape_materials.mu'"),
        ({"wrt": ("model.gravity",)}, "did you mean 'model.gravity_vec'"),
        ({"wrt": ("control.joint_acts",)}, "did you mean 'control.joint_act'"),
        ({"wrt": ("state.particle_q",)}, "model has none"),
        ({"wrt": ("state.joint_q", "state.joint_q")}, "'state.joint_q' is listed twice"),
        ({"wrt": "state.joint_q"}, "string"),
        ({"wrt": None}, "wrt: expected a sequence of names, got NoneType"),
        ({"wrt": (3,)}, "wrt: .*got 3"),
        (
            {"loss": lambda state: None},
            r"loss: expected a function of \(state, losses\), got one of \(state\)",
        ),
        ({"loss": 1.0}, "loss: .*got float"),
        ({"loss": add_one}, "loss: .*got the kernel 'add_one' itself"),
        ({"running": lambda state, losses: None}, r"running: .*\(step, state, control, losses\), got"),
    ],
)
def test_arguments_of_a_rollout(device, changed, match):
    with pytest.raises(NewtonsimError, match=match):
        make(device, **changed)


def test_arrays_and_models_without_gradients(device):
    with pytest.raises(NotDifferentiableError, match="shape_flags"):
        make(device, wrt=("model.shape_flags",))
    other = scenes.sliders(2).finalize(device)
    with pytest.raises(NewtonsimError, match="another model"):
        make(device, model=other)
    with pytest.raises(NewtonsimError, match="requires_grad=True"):
        make(device, model=other, solver=newtonsim.FeatherstoneSolver(other))


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"state": None}, "state: expected a State, such as .*got NoneType"),
        ({"state": np.zeros(2)}, "state: .*got ndarray"),
        ({"controls": {"joint_f": np.zeros((STEPS - 1, 2))}}, r"controls: .*\(5, 2\), got \(4, 2\)"),
        ({"controls": {"joint_f": np.zeros(3)}}, r"controls: .*got \(3,\)"),
        ({"controls": {"joint_f": "none"}}, "controls: expected numbers for 'joint_f', got str"),
        ({"controls": {"joint_fs": np.zeros(2)}}, "controls: .*did you mean 'joint_f'"),
        ({"controls": [1.0]}, "controls"),
        ({"seeds": np.ones(3)}, r"seeds: expected numbers of shape \(2,\), got float64 of shape \(3,\)"),
        ({"seeds": np.ones((2, 1))}, "seeds"),
        ({"seeds": np.ones(2, complex)}, "seeds: .*got complex128"),
        ({"seeds": ["a", "b"]}, "seeds"),
        ({"seeds": 1.0}, "seeds"),
        ({"seeds": wp.zeros(3, dtype=float, device="cpu")}, "seeds: expected float32"),
        ({"seeds": wp.zeros(2, dtype=wp.float64, device="cpu")}, "seeds: .*got float64"),
        ({"state_seeds": {"joint_q": np.ones(3)}}, r"state_seeds: 'joint_q': .*\(2,\)"),
        ({"state_seeds": {"body_q": np.ones(2)}}, r"state_seeds: 'body_q': .*\(2, 7\)"),
        ({"state_seeds": {"body_f": np.ones((2, 6))}}, "state_seeds: 'body_f' is not one of"),
        ({"state_seeds": {"joint_qq": np.ones(2)}}, "did you mean 'joint_q'"),
        ({"state_seeds": [np.ones(2)]}, "state_seeds: expected a mapping"),
    ],
)
def test_inputs_of_a_call(device, given, match):
    rollout = called(device)
    model = rollout.model
    given = {"state": model.state()} | given
    before = rollout.backward()
    with pytest.raises(NewtonsimError, match=match):
        rollout(**given)
    # the rollout is as it was before
    after = rollout.backward()
    for name, gradient in before.items():
        np.testing.assert_array_equal(after[name].numpy(), gradient.numpy())


@functools.cache
def called(device):
    rollout = make(device)
    rollout(rollout.model.state())
    return rollout


def test_state_of_another_model(device):
    with pytest.raises(ModelError, match=r"expected \(2,\), got \(3,\)"):
        called(device)(scenes.sliders(3).finalize(device).state())
    with pytest.raises(NewtonsimError, match="loss: nothing to differentiate; give loss"):
        make(device, loss=None)(parts(device)[0].state())


def test_seeds_may_be_numbers(device):
    """Seeds of NumPy and lists do what arrays of Warp do."""
    rollout = called(device)
    ends = np.array([0.5, -2.0])
    wanted = rollout.backward(
        wp.array([2.0, -1.0], dtype=float, device=device),
        {"joint_qd": wp.array(ends, dtype=float, device=device)},
    )["state.joint_qd"].numpy()
    np.testing.assert_allclose(wanted, np.array([2.0, -1.0]) * STEPS * DT + ends, rtol=1e-5)
    for seeds in (np.array([2.0, -1.0]), np.array([2, -1]), [2.0, -1.0]):
        found = rollout.backward(seeds, {"state.joint_qd": ends})["state.joint_qd"].numpy()
        np.testing.assert_array_equal(found, wanted)
    poses = np.zeros((2, 7), np.float32)
    poses[:, 0] = 1.0  # a rail along x
    found = rollout.backward(np.zeros(2), {"body_q": poses})["state.joint_qd"].numpy()
    np.testing.assert_allclose(found, STEPS * DT, rtol=1e-5)


def test_loss_that_the_tape_does_not_see(device):
    rollout = make(device, loss=lambda state, losses: losses.assign(state.joint_q.numpy()))
    # a GPU refuses to record a step that reads from it, before there is a tape
    with pytest.raises(NewtonsimError, match=r"loss: it launched nothing|rollout: cannot be recorded"):
        rollout(rollout.model.state())


def test_loss_that_does_not_read_the_state(device):
    model, _, loss_of = parts(device)
    another = model.state()

    def loss(state, losses):
        loss_of(another, losses)

    rollout = make(device, loss=loss, wrt=("state.joint_q", "state.joint_qd"))
    with pytest.warns(UserWarning, match="joint_q, state.joint_qd: .*not to read the state that it is given"):
        rollout(model.state())


@pytest.mark.parametrize(
    "option", [{"coriolis": "start"}, {"speed_limit": 10.0}, {"servos": True}, {"sleep": True}]
)
@pytest.mark.parametrize("actuated", [False, True])
def test_options_that_exclude_gradients(device, option, actuated):
    """The first message names the option: finalising the model with gradients would not help."""
    model = scenes.sliders(2).finalize(device)
    solver = newtonsim.FeatherstoneSolver(model, **option)
    if actuated:
        solver = ActuatedSolver(solver, Actuators(model, {}, dt=DT))
    (name,) = option
    with pytest.raises(NotDifferentiableError, match=name):
        make(device, model=model, solver=solver)
    with pytest.raises(NotDifferentiableError, match=f"{name}.*method='difference'"):
        diff.linearize(model, solver, model.state(), model.control(), DT)
    if name != "sleep":
        moved = diff.linearize(model, solver, model.state(), model.control(), DT, method="difference")
        # a slider keeps its velocity, and moves by it
        np.testing.assert_allclose(moved.A[0], [[1.0, DT], [0.0, 1.0]], atol=1e-3)


@pytest.mark.parametrize(
    "kind", [newtonsim.FeatherstoneSolver, newtonsim.SemiImplicitSolver, XPBDSolver, VBDSolver]
)
def test_misspelt_options_of_solvers(device, kind):
    option, wrong = ("iterations", "iteratons")
    if kind is newtonsim.SemiImplicitSolver:
        option, wrong = ("joint_attach_ke", "joint_atach_ke")
    with pytest.raises(TypeError, match=f"{kind.__name__}: .*'{wrong}'; did you mean '{option}'"):
        kind(parts(device)[0], **{wrong: 3})
