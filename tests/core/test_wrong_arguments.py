"""Doors of the simulation name an argument that they cannot use, and its value."""

import numpy as np
import pytest
import warp as wp

import newtonsim
from newtonsim import ModelError, NewtonsimError
from newtonsim.errors import CheckpointError, DeviceError
from newtonsim.solvers import FeatherstoneSolver, MuJoCoSolver, SemiImplicitSolver, VBDSolver, XPBDSolver

STEPS = [None, "1", 0.0, -1.0, np.nan, np.inf, 1e30, 1e-40, 10**400, [1], 1j, object()]
COUNTS = [None, "1", 1.5, np.nan, [1], -1, object()]


def model_of(links: int = 2) -> newtonsim.Model:
    builder = newtonsim.ModelBuilder()
    parent = -1
    for _ in range(links):
        body = builder.add_body(mass=1.0, I_m=np.eye(3) * 0.1)
        builder.add_joint_revolute(parent, body, axis=(0.0, 0.0, 1.0))
        parent = body
    return builder.finalize("cpu")


@pytest.fixture(scope="module")
def model() -> newtonsim.Model:
    return model_of()


@pytest.fixture
def simulator(model: newtonsim.Model) -> newtonsim.Simulator:
    return newtonsim.Simulator(model, FeatherstoneSolver(model), 1e-3)


@pytest.mark.parametrize("dt", STEPS)
def test_time_steps_are_named(model, simulator, dt):
    with pytest.raises(NewtonsimError, match=r"^dt: expected a positive number of 1e-15 to 1e.12, got "):
        newtonsim.Simulator(model, simulator.solver, dt)
    simulator.dt = dt
    with pytest.raises(NewtonsimError, match=r"^dt: expected a positive number"):
        simulator.step()
    state = model.state()
    for kind in (FeatherstoneSolver, SemiImplicitSolver, XPBDSolver):
        with pytest.raises(NewtonsimError, match=r"^dt: expected a positive number"):
            kind(model).step(model, state, state, None, None, dt)


@pytest.mark.parametrize("count", COUNTS)
def test_counts_are_named(model, simulator, count):
    with pytest.raises(NewtonsimError, match=r"^n: expected a whole number of at least 0, got "):
        simulator.step(count)
    with pytest.raises(NewtonsimError, match=r"^substeps: expected a whole number of at least 1, got "):
        newtonsim.Simulator(model, simulator.solver, 1e-3, substeps=count)
    simulator.substeps = count
    with pytest.raises(NewtonsimError, match=r"^substeps: expected a whole number"):
        simulator.step()
    if count is not None:
        with pytest.raises(NewtonsimError, match=r"^threads: expected a whole number"):
            newtonsim.Simulator(model, simulator.solver, 1e-3, threads=count)
        with pytest.raises(NewtonsimError, match=r"^before: expected a function or None"):
            newtonsim.Simulator(model, simulator.solver, 1e-3, before=count)


@pytest.mark.parametrize("wrong", [None, 3, "model", newtonsim.ModelBuilder(), object()])
def test_what_is_no_model_is_refused(model, wrong):
    state = model.state()
    solvers = (
        FeatherstoneSolver,
        SemiImplicitSolver,
        VBDSolver,
        MuJoCoSolver,
        *([] if wrong is None else [XPBDSolver]),
    )
    calls = [
        *solvers,
        lambda m: newtonsim.Simulator(m, FeatherstoneSolver(model), 1e-3),
        newtonsim.SceneQuery,
        lambda m: newtonsim.collide(m, state),
        lambda m: newtonsim.eval_fk(m, model.joint_q, model.joint_qd, None, state),
        lambda m: newtonsim.eval_ik(m, state, model.joint_q, model.joint_qd),
    ]
    for call in calls:
        with pytest.raises(ModelError, match=r"^model: expected a Model, got a "):
            call(wrong)


def test_solvers_of_other_models_and_other_things_are_refused(model, simulator):
    with pytest.raises(ModelError, match="solver: the FeatherstoneSolver was constructed with another model"):
        newtonsim.Simulator(model, FeatherstoneSolver(model_of(1)), 1e-3)
    with pytest.raises(ModelError, match="solver: expected a solver, got a int"):
        newtonsim.Simulator(model, 3, 1e-3)
    state = model.state()
    with pytest.raises(ModelError, match=r"FeatherstoneSolver\.step: the model is not the one"):
        simulator.solver.step(model_of(1), state, state, None, None, 1e-3)
    for name in ("state", "control"):
        kept = getattr(simulator, name)
        setattr(simulator, name, None)
        with pytest.raises(ModelError):
            simulator.step()
        setattr(simulator, name, kept)
    simulator.step()


def test_coordinates_of_other_types_are_refused(model):
    state, qd = model.state(), model.joint_qd
    for dtype in (wp.float64, wp.int32, wp.vec3, wp.transform):
        with pytest.raises(ModelError, match="joint_q: expected float32, got "):
            newtonsim.eval_fk(model, wp.zeros(2, dtype=dtype, device="cpu"), qd, None, state)
        with pytest.raises(ModelError, match="joint_qd: expected float32, got "):
            newtonsim.eval_ik(model, state, model.joint_q, wp.zeros(2, dtype=dtype, device="cpu"))
    with pytest.raises(ModelError, match="joint_q: expected float32, got float64"):
        newtonsim.eval_fk(model, np.zeros(2), qd, None, state)
    for wrong in (3, "q", [0.0, 0.0], object()):
        with pytest.raises(ModelError, match=r"joint_q: expected shape \(2,\), got "):
            newtonsim.eval_fk(model, wrong, qd, None, state)


@pytest.mark.parametrize("value", [None, "1", -1.0, np.nan, np.inf, 1e30, 10**400, [1, 2]])
def test_numbers_of_a_model_are_checked_when_assigned(model, value):
    for name in ("rigid_contact_margin", "soft_contact_ke", "particle_max_velocity"):
        before = getattr(model, name)
        with pytest.raises(ModelError, match=f"^{name}: expected a number from 0 to 1e.20, got "):
            setattr(model, name, value)
        assert getattr(model, name) == before


@pytest.mark.parametrize("path", [None, 3, 1.5, [1], object()])
def test_what_is_no_file_name_is_refused(simulator, path):
    for call in (simulator.save, simulator.restore):
        with pytest.raises(CheckpointError, match="path: expected the name of a file, got "):
            call(path)


def test_a_name_in_bytes_is_one(simulator, tmp_path):
    path = bytes(tmp_path / "run.ckpt")
    simulator.step(2)
    simulator.save(path)
    before = simulator.state.joint_q.numpy().copy()
    simulator.step(3)
    simulator.restore(path)
    assert (simulator.state.joint_q.numpy() == before).all()


@pytest.mark.parametrize("device", [{}, [1], np.zeros(2), 3, "cuda:99"])
def test_what_is_no_device_is_refused(device):
    with pytest.raises(DeviceError, match="device: no device "):
        newtonsim.ModelBuilder().finalize(device)


@pytest.mark.parametrize("value", [None, "1", np.nan, np.inf, -np.inf, 10**400, [1.0], object()])
def test_what_is_no_time_is_refused_when_assigned(simulator, value):
    simulator.step(3)
    with pytest.raises(NewtonsimError, match=r"^time: expected a finite number of seconds, got "):
        simulator.time = value
    assert simulator.time == pytest.approx(3e-3)
    for count in (None, "1", 1.5, np.nan, -1):
        with pytest.raises(
            NewtonsimError, match=r"^report_every: expected a whole number of at least 0, got "
        ):
            simulator.report_every = count
    assert simulator.report_every == 100


OPTIONS = [
    (SemiImplicitSolver, "angular_damping"),
    (SemiImplicitSolver, "friction_smoothing"),
    (SemiImplicitSolver, "joint_attach_ke"),
    (SemiImplicitSolver, "joint_attach_kd"),
    (SemiImplicitSolver, "fade_depth"),
    (XPBDSolver, "iterations"),
    (XPBDSolver, "joint_linear_relaxation"),
    (XPBDSolver, "warm_start"),
    (XPBDSolver, "angular_damping"),
]


@pytest.mark.parametrize(("kind", "name"), OPTIONS)
@pytest.mark.parametrize("value", [None, "1", np.nan, -1.0, 2**40 * 1j, [1.0]])
def test_options_of_solvers_are_named_in_the_next_step(model, kind, name, value):
    """When a solver is made, and when somebody sets one later."""
    with pytest.raises(NewtonsimError, match=f"^{name}: expected "):
        kind(model, **{name: value})
    solver, state = kind(model), model.state()
    setattr(solver, name, value)
    with pytest.raises(NewtonsimError, match=f"^{name}: expected "):
        solver.step(model, state, model.state(), None, None, 1e-3)


@pytest.mark.parametrize("name", ["iterations", "factorizations", "tolerance", "contact_erp", "cone"])
@pytest.mark.parametrize("value", [None, np.nan, -1, [1], "1"])
def test_options_of_the_constraint_solve_are_named(model, name, value):
    with pytest.raises(NewtonsimError, match=f"^{name}: expected "):
        FeatherstoneSolver(model, **{name: value})
    solver, state = FeatherstoneSolver(model), model.state()
    setattr(solver.options, name, value)
    with pytest.raises(NewtonsimError, match=f"^{name}: expected "):
        solver.step(model, state, state, None, None, 1e-3)


def test_counts_that_32_bits_do_not_hold_are_refused(model):
    with pytest.raises(NewtonsimError, match=r"^iterations: expected .* got 1099511627776"):
        FeatherstoneSolver(model, iterations=2**40)


MATERIALS = [
    "contact_ke",
    "contact_kd",
    "contact_kf",
    "contact_mu",
    "limit_ke",
    "limit_kd",
    "damping",
    "stiffness",
]


@pytest.mark.parametrize("name", MATERIALS)
def test_defaults_of_importers_are_not_negative(name):
    robot = '<robot name="r"><link name="a"/></robot>'
    builder = newtonsim.ModelBuilder()
    for reader, text in ((newtonsim.utils.parse_urdf, robot), (newtonsim.utils.parse_mjcf, "<mujoco/>")):
        for value in (-1.0, np.nan, np.inf, "1", None):
            with pytest.raises(ModelError, match=f"^{name}: expected "):
                reader(text, builder, **{name: value})
        with pytest.raises(ModelError, match=r"^contact_restitution: expected a number from 0 to 1, got 1.5"):
            reader(text, builder, contact_restitution=1.5)
        with pytest.raises(ModelError, match=r"^joint_limit_lower: 2.0 is above joint_limit_upper, 1.0"):
            reader(text, builder, joint_limit_lower=2.0, joint_limit_upper=1.0)
    assert builder.body_count == builder.shape_count == 0
