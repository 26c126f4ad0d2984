"""The robots of the zoo: what their data sheets say, their dynamics in MuJoCo, and whether they stand."""

import mujoco
import numpy as np
import pytest
from oracles.compare import mass_matrix_error
from oracles.mujoco_oracle import MujocoOracle

import newtonsim
from newtonsim import FeatherstoneSolver, Simulator, dynamics
from newtonsim.examples import asset_path
from newtonsim.importers import parse_mjcf
from newtonsim.testing import random_state

pytestmark = pytest.mark.filterwarnings("ignore::newtonsim.UnsupportedElementWarning")

# motors, mass [kg] and its tolerance, most torque or thrust
SHEETS = {
    "go2_like": (12, 15.0, 0.1, 45.43),
    "g1_like": (29, 35.0, 1.0, 139.0),
    "fr3_like": (9, 17.8 + 0.73, 0.2, 87.0),
    "allegro_like": (16, 1.08, 0.15, 0.7),
    "crazyflie_like": (4, 0.027, 1e-6, 0.16),
}


def path_of(name: str) -> str:
    return str(asset_path(f"zoo/{name}.xml"))


def build(name: str, device: str, ground: bool) -> newtonsim.Model:
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    parse_mjcf(path_of(name), builder, ignore_inertial_definitions=False, keyframe="home")
    if ground:
        builder.set_ground_plane()
    return builder.finalize(device)


@pytest.mark.parametrize("name", SHEETS)
def test_file_says_what_the_data_sheet_says(name: str):
    motors, mass, tolerance, most = SHEETS[name]
    mj = mujoco.MjModel.from_xml_path(path_of(name))
    assert mj.nu == motors
    assert mj.body_subtreemass[0] == pytest.approx(mass, abs=tolerance)
    limits = mj.actuator_ctrlrange if name == "crazyflie_like" else mj.actuator_forcerange
    assert np.all(limits[:, 0] < limits[:, 1])
    assert limits.max() == pytest.approx(most)


@pytest.mark.parametrize("name", SHEETS)
def test_nothing_touches_itself_at_home(name: str):
    mj = mujoco.MjModel.from_xml_path(path_of(name))
    data = mujoco.MjData(mj)
    mujoco.mj_resetDataKeyframe(mj, data, mj.key("home").id)
    mujoco.mj_forward(mj, data)
    touching = [[mj.body(mj.geom_bodyid[g]).name for g in contact.geom] for contact in data.contact]
    assert not touching
    limited = mj.jnt_limited.astype(bool)
    q = data.qpos[mj.jnt_qposadr[limited]]
    low, high = mj.jnt_range[limited].T
    assert np.all((q >= low) & (q <= high))


@pytest.mark.parametrize("name", SHEETS)
def test_mass_matrix_is_that_of_mujoco(name: str, device: str):
    model = build(name, device, ground=False)
    oracle = MujocoOracle(path_of(name), model)
    for seed in range(2):
        state = random_state(model, seed)
        oracle.set_state(state.joint_q.numpy(), state.joint_qd.numpy(), state.body_q.numpy())
        M = dynamics.mass_matrix(model, state).numpy()[0]
        assert mass_matrix_error(M, oracle.mass_matrix()) < 1.0e-4


@pytest.mark.parametrize("name", ["go2_like", "g1_like"])
def test_stands_by_its_drives(name: str, device: str):
    """After two seconds it stands still and upright on its feet, less than 3 cm lower than at the start."""
    model = build(name, device, ground=True)
    sim = Simulator(model, FeatherstoneSolver(model), 0.005)
    start = sim.state.body_q.numpy()[0].copy()
    sim.step(400)
    trunk = sim.state.body_q.numpy()[0]
    assert start[2] - 0.03 < trunk[2] < start[2]
    assert np.abs(trunk[3:5]).max() < 0.03
    assert np.abs(sim.state.joint_qd.numpy()).max() < 0.1


def test_arm_holds_its_pose_against_gravity(device: str):
    """The steady error of each drive is the torque of gravity over its stiffness."""
    model = build("fr3_like", device, ground=False)
    sim = Simulator(model, FeatherstoneSolver(model), 0.002)
    start = sim.state.joint_q.numpy().copy()
    sim.step(1000)
    q = sim.state.joint_q.numpy()
    assert np.abs(q - start).max() < 0.01
    still = sim.model.state()
    still.joint_q.assign(q)
    newtonsim.eval_fk(model, still.joint_q, still.joint_qd, None, still)
    gravity = dynamics.bias(model, still).numpy()
    sag = model.joint_target_ke.numpy() * (model.joint_act.numpy() - q)
    np.testing.assert_allclose(sag[:7], gravity[:7], atol=0.02 * np.abs(gravity[:7]).max())
