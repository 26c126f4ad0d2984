"""Chains of hundreds of links against pinocchio and MuJoCo, which compute in double precision."""

import mujoco
import numpy as np
import pinocchio as pin
import pytest
import warp as wp

import newtonsim
from newtonsim import dynamics
from newtonsim.solvers import FeatherstoneSolver

TURN = (0.0, 0.0, 0.0, 1.0)
LENGTH = 0.1


def chain(links: int, height: float = 0.0, ground: bool = False) -> newtonsim.ModelBuilder:
    """Links of 10 cm along x, hinged about y and z in turn; fixed at the start, or free on the ground."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    above = -1
    for i in range(links):
        body = builder.add_body(origin=((i * LENGTH, 0.0, height), TURN))
        half = 0.3 * LENGTH if ground else 0.5 * LENGTH
        builder.add_shape_box(body, pos=(0.5 * LENGTH, 0.0, 0.0), hx=half, hy=0.02, hz=0.02)
        place = ((LENGTH if i else 0.0, 0.0, 0.0 if i else height), TURN)
        axis = (0.0, 1.0, 0.0) if i % 2 == 0 else (0.0, 0.0, 1.0)
        if ground and i == 0:
            builder.add_joint_free(body)
        else:
            ends = {"parent_xform": place, "child_xform": ((0.0, 0.0, 0.0), TURN)}
            builder.add_joint_revolute(above, body, axis=axis, armature=0.0, **ends)
        above = body
    if ground:
        builder.set_ground_plane(mu=0.5)
    return builder


def pinocchio_chain(model: newtonsim.Model) -> pin.Model:
    mass, com, inertia = (
        a.numpy().astype(float) for a in (model.body_mass, model.body_com, model.body_inertia)
    )
    twin, joint = pin.Model(), 0
    for i in range(model.body_count):
        kind = pin.JointModelRY() if i % 2 == 0 else pin.JointModelRZ()
        place = pin.SE3(np.eye(3), np.array([LENGTH if i else 0.0, 0.0, 0.0]))
        joint = twin.addJoint(joint, kind, place, f"joint_{i}")
        twin.appendBodyToJoint(joint, pin.Inertia(mass[i], com[i], inertia[i]), pin.SE3.Identity())
    twin.gravity.linear = np.array([0.0, 0.0, -9.81])
    return twin


def pinocchio_acceleration(model: newtonsim.Model, joint_q: np.ndarray) -> np.ndarray:
    twin, rest = pinocchio_chain(model), np.zeros(len(joint_q))
    return pin.aba(twin, twin.createData(), joint_q, rest, rest)


def mujoco_acceleration(model: newtonsim.Model, joint_q: np.ndarray) -> np.ndarray:
    mass, com, inertia = (
        a.numpy().astype(float) for a in (model.body_mass, model.body_com, model.body_inertia)
    )
    spec = mujoco.MjSpec()
    body = spec.worldbody
    for i in range(model.body_count):
        body = body.add_body(pos=[LENGTH if i else 0.0, 0.0, 0.0], explicitinertial=True)
        body.mass, body.ipos, body.inertia = mass[i], com[i], np.diag(inertia[i])  # of boxes: no products
        body.add_joint(axis=[0.0, 1.0, 0.0] if i % 2 == 0 else [0.0, 0.0, 1.0])
    twin = spec.compile()
    data = mujoco.MjData(twin)
    data.qpos[:] = joint_q
    mujoco.mj_forward(twin, data)
    return data.qacc


# of 500 links pinocchio keeps arrays of 500 x 500 x 500 numbers, which take far longer than all else here
@pytest.mark.parametrize(
    ("links", "oracle"),
    [(20, pinocchio_acceleration), (160, pinocchio_acceleration), (500, mujoco_acceleration)],
)
@pytest.mark.parametrize("bend", [0.0, 0.1])
def test_acceleration_of_a_chain(device, links, oracle, bend):
    model = chain(links).finalize(device)
    state = model.state()
    state.joint_q.assign((bend * np.random.default_rng(links).normal(size=links)).astype(np.float32))
    expected = oracle(model, state.joint_q.numpy().astype(float))
    found = dynamics.forward_dynamics(model, state).numpy()
    assert np.abs(found - expected).max() < 1.0e-4 * np.abs(expected).max()


@pytest.mark.parametrize("links", [160, 500])
def test_a_swinging_chain_keeps_its_energy(device, links):
    """Released from the horizontal; lost in the first place where the factors of the inertia are wrong."""
    model = chain(links).finalize(device)
    simulator = newtonsim.Simulator(model, FeatherstoneSolver(model), dt=1.0 / 480.0)

    def energy() -> float:
        parts = (dynamics.kinetic_energy, dynamics.potential_energy)
        return float(sum(part(model, simulator.state).numpy().sum() for part in parts))

    start = energy()
    for _ in range(60):
        simulator.step()
    fallen = 9.81 * model.body_mass.numpy().sum() * 0.5 * 9.81 * (60.0 / 480.0) ** 2
    assert abs(energy() - start) < 0.02 * fallen


@pytest.mark.slow
def test_a_chain_of_500_links_lies_on_the_ground(device):
    """It creeps by less than 0.1 mm in 0.1 s; no longer, as steps take up to 0.3 s."""
    model = chain(500, height=0.0201, ground=True).finalize(device)
    simulator = newtonsim.Simulator(model, FeatherstoneSolver(model), dt=1.0 / 240.0)
    for _ in range(24):
        simulator.step()
    start = simulator.state.body_q.numpy()[:, :3].copy()
    for _ in range(24):
        simulator.step()
    moved = simulator.state.body_q.numpy()[:, :3] - start
    assert np.isfinite(moved).all()
    assert np.abs(moved).max() < 1.0e-4


def test_a_long_chain_falls_as_it_is(device):
    """In waves on ball joints; links fall alike, and weights that cancel bend it only by rounding."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    heading = np.sin(np.arange(300) * (2.0 * np.pi / 40.0))
    place = np.zeros(3)
    for i, angle in enumerate(heading):
        turn = wp.quat_from_axis_angle(wp.vec3(0.0, 0.0, 1.0), float(angle))
        step = 0.5 * LENGTH * np.array([np.cos(angle), np.sin(angle), 0.0])
        body = builder.add_body(origin=wp.transform(place + step, turn))
        builder.add_shape_capsule(body, radius=0.01, half_height=0.03, up_axis=0)
        if i == 0:
            builder.add_joint_free(body)
        else:
            ends = {
                "parent_xform": ((0.5 * LENGTH, 0.0, 0.0), TURN),
                "child_xform": ((-0.5 * LENGTH, 0.0, 0.0), TURN),
            }
            builder.add_joint_ball(body - 1, body, armature=0.0, **ends)
            bend = wp.quat_from_axis_angle(wp.vec3(0.0, 0.0, 1.0), float(angle - heading[i - 1]))
            builder.joint_q[-4:] = list(bend)
        place += 2.0 * step
    model = builder.finalize(device)
    simulator = newtonsim.Simulator(model, FeatherstoneSolver(model), dt=1.0 / 240.0)
    simulator.step(24)
    speeds = simulator.state.joint_qd.numpy()
    assert np.abs(speeds[6:]).max() < 1.0e-4
    assert speeds[5] == pytest.approx(-9.81 * 0.1, rel=1.0e-5)


def test_axes_that_do_the_same_share_the_motion(device):
    """Two parallel axes of one joint, as at gimbal lock: the inertia is singular, the acceleration is not."""
    builder = newtonsim.ModelBuilder(gravity=0.0)
    body = builder.add_body(mass=1.0, I_m=0.5 * np.eye(3))
    axes = [newtonsim.JointAxis((1.0, 0.0, 0.0), armature=0.0) for _ in range(2)]
    builder.add_joint_d6(-1, body, angular_axes=axes)
    model = builder.finalize(device)
    torque = wp.array([0.2, 0.2], dtype=float, device=device)
    found = dynamics.forward_dynamics(model, model.state(), torque).numpy()
    assert found.sum() == pytest.approx(0.2 / 0.5, rel=1.0e-3)
    assert np.abs(found).max() < 10.0
