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
