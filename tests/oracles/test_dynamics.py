"""Quantities of `newtonsim.dynamics.Dynamics` against differences of pinocchio in float64, and replays."""

from collections.abc import Callable

import numpy as np
import pinocchio as pin
import pytest
import warp as wp
from oracles.test_pinocchio import ASSETS, BUILDERS, Case, build_arm

import newtonsim
from newtonsim import dynamics
from newtonsim.diff.coordinates import coordinate_rates
from newtonsim.errors import NewtonsimError
from newtonsim.testing import random_model, random_state

TOLERANCE = 1.0e-4
"""Of entries, over the largest one of the matrix."""
SPAN = 1.0e-6


def error(actual: np.ndarray, expected: np.ndarray) -> float:
    """Largest error, over the largest entry where that is above one."""
    return float(np.abs(actual - expected).max() / max(1.0, np.abs(expected).max()))


@pytest.fixture(scope="module", params=BUILDERS)
def case(request: pytest.FixtureRequest, device: str) -> Case:
    return Case(BUILDERS[request.param](), device)


@pytest.fixture(params=range(3))
def drawn(request: pytest.FixtureRequest, case: Case) -> Case:
    case.draw(request.param)
    rng = np.random.default_rng(request.param)
    case.body_f = rng.normal(size=(case.model.body_count, 6)).astype(np.float32)
    case.state.body_f.assign(case.body_f)
    return case


def moved(case: Case, step: np.ndarray) -> np.ndarray:
    """Coordinates after a short step of the degrees of freedom, in float64."""
    rates = coordinate_rates(case.model, case.q)
    q = case.q + rates.push(step)
    for i in rates.quaternions:
        q[i : i + 4] /= np.linalg.norm(q[i : i + 4])
    return q


def differences(count: int, function: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Central differences of a function of a step, one column for each entry of the step."""
    steps = SPAN * np.eye(count)
    return np.stack([(function(step) - function(-step)) / (2.0 * SPAN) for step in steps], axis=-1)


def test_holding_forces_are_those_of_gravity(case: Case):
    case.draw(0)
    still = np.zeros(case.dof_count)
    expected = case.oracle.inverse_dynamics(case.q, still, still, np.zeros((case.model.body_count, 6)))
    assert error(dynamics.holding_forces(case.model, case.q), expected) < TOLERANCE
    with pytest.raises(NewtonsimError, match="joint_q: expected shape"):
        dynamics.holding_forces(case.model, case.q[:-1])


def test_derivatives_of_inverse_dynamics(drawn: Case):
    quantities = dynamics.Dynamics(drawn.model)
    qdd = drawn.vector.astype(np.float64)
    by_q, by_qd = quantities.inverse_dynamics_derivatives(drawn.state, drawn.array(drawn.vector))

    def force(q: np.ndarray, qd: np.ndarray) -> np.ndarray:
        return drawn.oracle.inverse_dynamics(q, qd, qdd, drawn.body_f)

    expected = differences(drawn.dof_count, lambda step: force(moved(drawn, step), drawn.qd))
    assert error(by_q.numpy()[0], expected) < TOLERANCE
    expected = differences(drawn.dof_count, lambda step: force(drawn.q, drawn.qd + step))
    assert error(by_qd.numpy()[0], expected) < TOLERANCE


def test_derivatives_of_forward_dynamics(drawn: Case):
    """Accelerations may be a thousand times larger in light links, so the inertia weighs them: M times both.

    The factor of M is one of float32, which costs another digit in random trees of 30 dofs.
    """
    quantities = dynamics.Dynamics(drawn.model)
    force = drawn.vector.astype(np.float64)
    found = quantities.forward_dynamics_derivatives(drawn.state, drawn.array(drawn.vector))

    def acceleration(q: np.ndarray, qd: np.ndarray, joint_f: np.ndarray) -> np.ndarray:
        return drawn.oracle.forward_dynamics(q, qd, joint_f, drawn.body_f)

    expected = (
        differences(drawn.dof_count, lambda step: acceleration(moved(drawn, step), drawn.qd, force)),
        differences(drawn.dof_count, lambda step: acceleration(drawn.q, drawn.qd + step, force)),
        np.linalg.inv(drawn.M),
    )
    for ours, theirs in zip(found, expected):
        assert error(drawn.M @ ours.numpy()[0], drawn.M @ theirs) < 3.0 * TOLERANCE


def test_rate_of_jacobian(drawn: Case):
    rate = dynamics.Dynamics(drawn.model).jacobian_rate(drawn.state).numpy()
    for body in drawn.oracle.bodies:
        ahead, behind = (
            drawn.oracle.jacobian(moved(drawn, sign * SPAN * drawn.qd), body) for sign in (1.0, -1.0)
        )
        expected = (ahead - behind) / (2.0 * SPAN)
        assert error(rate[body], expected) < TOLERANCE


def test_operational_inertia(drawn: Case):
    """Inverted again, as inertias of bodies that can hardly move in a direction are ill-conditioned."""
    damping = 1.0e-2
    inertia = dynamics.Dynamics(drawn.model).operational_inertia(drawn.state, damping=damping).numpy()
    for body in drawn.oracle.bodies:
        jacobian = drawn.oracle.jacobian(drawn.q, body)
        inverse = jacobian @ np.linalg.solve(drawn.M, jacobian.T) + damping * np.eye(6)
        expected = np.linalg.inv(inverse)
        most = 1.0e-6 * np.linalg.cond(inverse) * np.abs(expected).max() + TOLERANCE
        assert np.abs(inertia[body] - expected).max() < most


def test_centroidal_momentum(drawn: Case):
    """The sum over the bodies of what each has, about the common centre of mass."""
    quantities = dynamics.Dynamics(drawn.model)
    matrix = quantities.centroidal_matrix(drawn.state).numpy()[0]
    momentum = quantities.centroidal_momentum(drawn.state).numpy()[0]
    center = drawn.oracle.center_of_mass(drawn.q)
    expected = np.zeros((6, drawn.dof_count))
    mass, com, inertia = (getattr(drawn.model, f"body_{n}").numpy() for n in ("mass", "com", "inertia"))
    for body in drawn.oracle.bodies:
        pose = drawn.oracle.pose(drawn.q, body)
        turn = pin.Quaternion(*pose[[6, 3, 4, 5]].tolist()).toRotationMatrix()
        jacobian = drawn.oracle.jacobian(drawn.q, body)
        arm = pose[:3] + turn @ com[body] - center
        linear = mass[body] * jacobian[3:]
        expected[:3] += turn @ inertia[body] @ turn.T @ jacobian[:3] + np.cross(arm, linear, axisb=0).T
        expected[3:] += linear
    assert error(matrix, expected) < TOLERANCE
    assert error(momentum, expected @ drawn.qd) < TOLERANCE


def test_arm_has_the_derivatives_of_pinocchio(device: str):
    model = build_arm().finalize(device)
    arm = pin.buildModelFromUrdf(str(ASSETS / "arm7.urdf"))
    data, quantities = arm.createData(), dynamics.Dynamics(model)
    model.joint_armature.zero_()
    ours = [
        int(model.joint_qd_start.numpy()[model.joint_key.index(arm.names[joint])])
        for joint in range(1, arm.njoints)
    ]
    square = np.ix_(ours, ours)
    for seed in range(3):
        state = random_state(model, seed)
        vector = np.random.default_rng(seed).normal(size=arm.nv)
        given = wp.array(vector[np.argsort(ours)], dtype=float, device=device)
        q, qd = (getattr(state, name).numpy().astype(np.float64)[ours] for name in ("joint_q", "joint_qd"))
        found = quantities.inverse_dynamics_derivatives(state, given)
        expected = pin.computeRNEADerivatives(arm, data, q, qd, vector)
        for matrix, theirs in zip(found, expected):
            assert error(matrix.numpy()[0][square], theirs) < TOLERANCE
        found = quantities.forward_dynamics_derivatives(state, given)
        for matrix, theirs in zip(found, pin.computeABADerivatives(arm, data, q, qd, vector)):
            assert error(matrix.numpy()[0][square], theirs) < TOLERANCE


def every_quantity(quantities: dynamics.Dynamics, state: newtonsim.State, vector: wp.array) -> list[wp.array]:
    found = [quantities.mass_matrix(state), quantities.mass_matrix(state, armature=False)]
    found += [quantities.inverse_dynamics(state, vector), quantities.bias(state)]
    found += [quantities.forward_dynamics(state, vector)]
    found += quantities.inverse_dynamics_derivatives(state, vector)
    found += quantities.forward_dynamics_derivatives(state, vector)
    found += [quantities.jacobian(state), quantities.jacobian_rate(state)]
    found += [quantities.operational_inertia(state, damping=0.1)]
    found += [quantities.center_of_mass(state), quantities.centroidal_matrix(state)]
    found += [quantities.centroidal_momentum(state)]
    found += [quantities.kinetic_energy(state), quantities.potential_energy(state)]
    return found


def test_replays_follow_the_state_and_the_model(device: str):
    """What is recorded reads the arrays anew at each call, and another array is another recording."""
    builder = newtonsim.ModelBuilder()
    for seed in (0, 4, 5):
        builder.add_builder(random_model(seed, body_count=9 + seed))
    model = builder.finalize(device)
    quantities, state = dynamics.Dynamics(model), random_state(model, 1)
    vector = wp.array(np.random.default_rng(1).normal(size=model.joint_dof_count), dtype=float, device=device)
    for seed in (1, 2, 3, 4):
        drawn = random_state(model, seed)
        state.joint_q.assign(drawn.joint_q)
        state.joint_qd.assign(drawn.joint_qd)
        if seed == 4:
            model.body_mass = wp.array(2.0 * model.body_mass.numpy(), dtype=float, device=device)
        ours = [a.numpy().copy() for a in every_quantity(quantities, state, vector)]
        fresh = [a.numpy() for a in every_quantity(dynamics.Dynamics(model), drawn, vector)]
        for replayed, made in zip(ours, fresh, strict=True):
            np.testing.assert_array_equal(replayed, made)


def test_results_in_arrays_of_the_caller(device: str):
    """They are overwritten as a whole, whatever was there."""
    builder = newtonsim.ModelBuilder()
    for seed in (0, 4):
        builder.add_builder(random_model(seed, body_count=9 + seed))
    model = builder.finalize(device)
    quantities, state = dynamics.Dynamics(model), random_state(model, 1)
    for name in ("mass_matrix", "jacobian", "jacobian_rate", "centroidal_matrix", "forward_dynamics"):
        own = getattr(quantities, name)(state).numpy().copy()
        for _ in range(3):
            out = wp.full(own.shape, np.nan, dtype=float, device=device)
            assert getattr(quantities, name)(state, out=out) is out
            np.testing.assert_array_equal(out.numpy(), own)


def test_wrong_arrays_are_refused(device: str):
    model = random_model(0).finalize(device)
    quantities, state = dynamics.Dynamics(model), model.state()
    n = model.joint_dof_count
    expected = rf"joint_(qdd|f): expected a Warp array of shape \({n},\) and type float32, got "
    wrong = {rf"one of shape \({n - 1},\) and type float32": wp.zeros(n - 1, dtype=float, device=device)}
    wrong |= {
        "ndarray": np.zeros(n),
        rf"one of shape \({n},\) and type int32": wp.zeros(n, dtype=int, device=device),
    }
    for name in ("inverse_dynamics", "inverse_dynamics_derivatives", "forward_dynamics"):
        for got, array in wrong.items():
            with pytest.raises(NewtonsimError, match=expected + got):
                getattr(quantities, name)(state, array)
    out = r"mass_matrix: expected `out` to be a Warp array of shape .* and type float32, got "
    for array in (wp.zeros((1, n, n), dtype=wp.float64, device=device), np.zeros((1, n, n)), n):
        with pytest.raises(NewtonsimError, match=out):
            quantities.mass_matrix(state, out=array)
    wide = wp.zeros((1, n, 2 * n), dtype=float, device=device)[:, :, ::2]
    with pytest.raises(NewtonsimError, match="mass_matrix: `out`: expected a contiguous array"):
        quantities.mass_matrix(state, out=wide)
    one = wp.zeros((1, n, n), dtype=float, device=device)
    vector = wp.zeros(n, dtype=float, device=device)
    for few in ((one,), (one, one), one):
        with pytest.raises(NewtonsimError, match="out: expected 2 distinct arrays, got "):
            quantities.inverse_dynamics_derivatives(state, vector, out=few)
    with pytest.raises(NewtonsimError, match="damping: expected a number of at least 0, got -1"):
        quantities.operational_inertia(state, damping=-1.0)
    with pytest.raises(NewtonsimError, match="model: expected a finalized Model, got ModelBuilder"):
        dynamics.Dynamics(newtonsim.ModelBuilder())


def _replace_and_ask(quantities, state, vector, name: str, wrong: object) -> None:
    setattr(state, name, wrong)
    quantities.inverse_dynamics(state, vector)


@pytest.mark.parametrize("known", [False, True], ids=["at first", "after calls"])
def test_wrong_states_are_refused(device: str, known: bool):
    """Kernels would read beyond them; a state that did fit may no longer do."""
    model, other = random_model(0).finalize(device), random_model(1, body_count=3).finalize(device)
    quantities, vector = dynamics.Dynamics(model), wp.zeros(model.joint_dof_count, dtype=float, device=device)
    for name in ("joint_q", "joint_qd", "body_f"):
        for wrong in (None, np.zeros(getattr(model.state(), name).shape), getattr(other.state(), name)):
            state = model.state()
            for _ in range(3 * known):
                quantities.inverse_dynamics(state, vector)
            with pytest.raises(NewtonsimError, match=rf"{name}: expected "):
                _replace_and_ask(quantities, state, vector, name, wrong)
