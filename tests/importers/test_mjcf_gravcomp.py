"""`gravcomp` of MJCF, by the stage GravityCompensation, agrees with MuJoCo."""

import mujoco
import numpy as np
import pytest

import newtonsim
from newtonsim.errors import ModelError
from newtonsim.importers import parse_mjcf
from newtonsim.solvers import FeatherstoneSolver, GravityCompensation, MuJoCoSolver

ARM = """<mujoco><option timestep="0.001"/><worldbody>
<body name="upper" gravcomp="0.7" pos="0 0 2"><joint name="shoulder" axis="0 1 0"/>
  <geom type="capsule" size="0.05" fromto="0 0 0 0.5 0 0"/>
  <body name="lower" gravcomp="1.2" pos="0.5 0 0"><joint name="elbow" axis="0 1 0"/>
    <geom type="capsule" size="0.04" fromto="0 0 0 0.4 0 0"/>
    <body name="tool" pos="0.4 0 0"><geom size="0.06"/></body></body></body>
<body name="balloon" gravcomp="1" pos="2 0 1"><freejoint name="free"/><geom size="0.1"/></body>
</worldbody></mujoco>"""


def load(**options):
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    with pytest.warns(newtonsim.UnsupportedElementWarning, match=r"unless report\.gravcomp"):
        report = parse_mjcf(
            ARM, builder, ignore_inertial_definitions=False, stiffness=0.0, damping=0.0, **options
        )
    return builder, report


def moved(model, shares, seconds: float = 1.0) -> newtonsim.State:
    solver = FeatherstoneSolver(model)
    solver.before_step = (GravityCompensation(model, shares),)
    state = model.state()
    for _ in range(round(1000 * seconds)):
        solver.step(model, state, state, None, None, 0.001)
    return state


@pytest.mark.parametrize("collapse", [False, True])
def test_a_second_agrees_with_mujoco(collapse):
    """Merged with the tool, the arm is carried where it was."""
    builder, report = load(collapse_fixed_joints=collapse)
    q = moved(builder.finalize("cpu"), report.gravcomp).joint_q.numpy()
    oracle = mujoco.MjModel.from_xml_string(ARM)
    data = mujoco.MjData(oracle)
    mujoco.mj_step(oracle, data, 1000)
    for name in ("shoulder", "elbow"):
        ours = q[report.joint_coords[name]]
        assert ours == pytest.approx(data.joint(name).qpos[0], abs=2e-3), name
        assert abs(ours) > 0.1
    first = report.joint_coords["free"]
    np.testing.assert_allclose(q[first : first + 3], (2.0, 0.0, 1.0), atol=1e-5)


def test_worlds_that_are_copies_have_it_too():
    builder, report = load()
    scene = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    scene.replicate(builder, 2, spacing=(0, 0, 0))
    q = moved(scene.finalize("cpu"), report.gravcomp, 0.3).joint_q.numpy().reshape(2, -1)
    np.testing.assert_array_equal(q[0], q[1])
    np.testing.assert_allclose(q[:, report.joint_coords["free"] + 2], 1.0, atol=1e-5)


def test_mujoco_solver_has_it_too():
    """A second beside MuJoCo on the file, in each of two worlds, which one of MuJoCo's may hold together."""
    builder, report = load()
    scene = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    scene.replicate(builder, 2, spacing=(0, 0, 0))
    model = scene.finalize("cpu")
    oracle = mujoco.MjModel.from_xml_string(ARM)
    data = mujoco.MjData(oracle)
    mujoco.mj_step(oracle, data, 1000)
    for apart in (True, False):
        options = {"solver": "newton", "iterations": 100, "joint_damping": 0.0, "disable_contacts": True}
        solver = MuJoCoSolver(
            model,
            use_mujoco=True,
            separate_envs_to_worlds=apart,
            gravcomp=report.gravcomp,
            **options,
        )
        simulator = newtonsim.Simulator(model, solver, 0.001)
        simulator.step(1000)
        for q in simulator.state.joint_q.numpy().reshape(2, -1):
            for name in ("shoulder", "elbow"):
                assert q[report.joint_coords[name]] == pytest.approx(data.joint(name).qpos[0], abs=1e-5)
            first = report.joint_coords["free"]
            np.testing.assert_allclose(q[first : first + 3], (2.0, 0.0, 1.0), atol=1e-5)


def test_what_mujoco_cannot_carry_is_refused():
    """Merged with the tool, the arm would be carried beside its centre of mass."""
    builder, report = load(collapse_fixed_joints=True)
    model = builder.finalize("cpu")
    with pytest.raises(ModelError, match=r"'lower': in MuJoCo, gravcomp acts at the centre of mass"):
        MuJoCoSolver(model, use_mujoco=True, gravcomp=report.gravcomp)
    with pytest.raises(ModelError, match=r"gravcomp: the model has \d+ bodies, got 99"):
        MuJoCoSolver(model, use_mujoco=True, gravcomp={99: (1.0, (0.0, 0.0, 0.0))})
