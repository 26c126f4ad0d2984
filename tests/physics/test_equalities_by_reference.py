"""Equalities and dry friction with solref and solimp move as they do in MuJoCo.

The free body has its centre of mass at its origin: MuJoCo moves the origin of such a body straight on in a
step, and we its centre of mass.
"""

import warnings

import mujoco
import numpy as np
import pytest

import newtonsim
from newtonsim.importers import parse_mjcf
from newtonsim.solvers import FeatherstoneSolver
from newtonsim.solvers.inverse_weights import inverse_weights

SOFT = 'solref=".1 .7" solimp=".5 .9 .1 .5 2"'
SCENE = """<mujoco><compiler angle="radian"/><option timestep="0.004"/>
<default><geom contype="0" conaffinity="0"/></default><worldbody>
<body name="cart" pos="0 0 1"><joint name="slide" type="slide" axis="1 0 0"/>
  <geom type="box" size=".1 .2 .3" pos=".05 0 0" mass="5"/>
  <body name="pole" pos=".1 0 0"><joint name="hinge" axis="0 1 0" damping="1" stiffness="20"/>
    <geom type="capsule" fromto="0 0 0 .3 0 .1" size=".04" mass="1"/></body></body>
<body name="upper" pos=".5 0 1"><joint name="shoulder" axis="0 1 0" damping=".5" {joint}/>
  <geom type="capsule" fromto="0 0 0 .3 0 .1" size=".04" mass="1"/>
  <body name="lower" pos=".3 0 .1"><joint name="elbow" axis="0 .8 .6" damping="2" armature=".01"/>
    <geom type="capsule" fromto="0 0 0 .3 .1 .1" size=".04" mass="1"/></body></body>
<body name="block" pos="0 1 1"><freejoint/><geom type="box" size=".1 .2 .3" mass="5"/></body>
</worldbody><equality>{equality}</equality></mujoco>"""
EQUALITIES = {
    "connect to the world": f'<connect body1="block" anchor=".3 0 .1" {SOFT}/>',
    "connect two arms": '<connect body1="lower" body2="pole" anchor=".3 .1 0" solref=".1 1"/>',
    "connect links of an arm": '<connect body1="upper" body2="lower" anchor=".3 .2 .1" solref=".1 1"/>',
    "weld to the world": f'<weld body1="block" {SOFT}/>',
    "weld somewhere else": f'<weld body1="block" relpose=".2 1 1.1 .9 .1 .2 .05" {SOFT}/>',
    "weld two bodies": '<weld body1="block" body2="lower" torquescale=".3" solref=".1 .7"/>',
    "weld two arms": '<weld body1="lower" body2="pole" torquescale=".3" solref="-100 -20"/>',
    "coupling": '<joint joint1="elbow" joint2="slide" polycoef=".1 1.3 .4" solimp=".5 .9 .5 .4 3"/>',
    "held joint": '<joint joint1="elbow" polycoef=".1" solref="-100 -20" solimp=".5 .9 .5 .4 3"/>',
}
FRICTIONS = {
    "friction": 'frictionloss=".4"',
    "friction that holds": 'frictionloss="40"',
    "friction of its own": 'frictionloss=".8" solreffriction=".05 1" solimpfriction=".5 .8 .1 .5 2"',
}
INTEGRATORS = {"start": mujoco.mjtIntegrator.mjINT_EULER, "end": mujoco.mjtIntegrator.mjINT_DISCRETE}


def model_of(text: str, **options) -> newtonsim.Model:
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    with warnings.catch_warnings():
        warnings.simplefilter("error", newtonsim.UnsupportedElementWarning)
        parse_mjcf(text, builder, floating=None, stiffness=0.0, damping=0.0, **options)
    return builder.finalize("cpu")


def distance(text: str, references: str) -> float:
    """Largest distance [m] of the origin of a body from where MuJoCo has it, in half a second."""
    model = model_of(text, mujoco_defaults=True)
    exact = {"iterations": 200, "tolerance": 1.0e-7, "coriolis": "start"}
    solver, state = FeatherstoneSolver(model, references=references, **exact), model.state()
    mj = mujoco.MjModel.from_xml_string(text)
    mj.opt.integrator = int(INTEGRATORS[references])
    data, apart = mujoco.MjData(mj), []
    for _ in range(125):
        solver.step(model, state, state, model.control(), None, mj.opt.timestep)
        mujoco.mj_step(mj, data)
        mujoco.mj_kinematics(mj, data)
        apart.append(np.abs(state.body_q.numpy()[:, :3] - data.xpos[1:]).max())
    return max(apart)


@pytest.mark.parametrize("kind", EQUALITIES)
def test_equalities_give_way_as_with_the_discrete_integrator(kind: str):
    """Constraints and implicit damping are solved as one there, as here: what is left is single precision."""
    assert distance(SCENE.format(joint="", equality=EQUALITIES[kind]), "end") < 1.0e-4


@pytest.mark.parametrize("kind", EQUALITIES)
def test_equalities_give_way_as_with_eulers_integrator(kind: str):
    """Without damping and springs, which Euler's integrator of MuJoCo takes after the constraints."""
    text = SCENE.format(joint="", equality=EQUALITIES[kind])
    for passive in (' damping="1" stiffness="20"', ' damping=".5"', ' damping="2"'):
        assert passive in text
        text = text.replace(passive, "")
    assert distance(text, "start") < 1.0e-4


@pytest.mark.parametrize("references", INTEGRATORS)
@pytest.mark.parametrize("kind", FRICTIONS)
def test_dry_friction_creeps_as_in_mujoco(kind: str, references: str):
    text = SCENE.format(joint=FRICTIONS[kind], equality="")
    if references == "start":
        text = text.replace(' damping=".5"', "").replace(' damping="2"', "")
        text = text.replace(' damping="1" stiffness="20"', "")
    assert distance(text, references) < 1.0e-4


def test_inverse_weights_are_those_of_mujoco():
    """Of bodies, one of them without mass, for shifts and turns, and of degrees of freedom."""
    hand = '<body name="hand" pos=".3 .1 .2"/></body></body>\n<body name="block"'
    text = SCENE.format(joint="", equality="").replace('</body></body>\n<body name="block"', hand)
    model = model_of(text, mujoco_defaults=True, ensure_nonstatic_links=False)
    shifts, turns, dofs = inverse_weights(model)
    mj = mujoco.MjModel.from_xml_string(text)
    assert len(model.body_key) == mj.nbody - 1
    for body, key in enumerate(model.body_key):
        np.testing.assert_allclose([shifts[body], turns[body]], mj.body(key).invweight0, rtol=1.0e-4)
    # a free joint turns first here, and shifts first there
    np.testing.assert_allclose(dofs, mj.dof_invweight0[[0, 1, 2, 3, 7, 8, 9, 4, 5, 6]], rtol=1.0e-4)


def test_the_inverse_weight_of_a_free_joint_is_that_of_the_origin_of_the_body():
    text = """<mujoco><worldbody><body pos="1 2 3" quat=".8 .3 -.4 .2"><freejoint/>
      <geom type="box" size=".1 .2 .3" mass="1" pos=".1 -.2 .05" euler="20 40 10"/>
      <body pos=".3 0 .1"><joint axis="0 1 0"/><geom size=".1" mass=".5" pos=".2 .1 0"/></body></body>
    </worldbody></mujoco>"""
    dofs = inverse_weights(model_of(text, mujoco_defaults=True))[2]
    mj = mujoco.MjModel.from_xml_string(text)
    np.testing.assert_allclose(dofs, mj.dof_invweight0[[3, 4, 5, 0, 1, 2, 6]], rtol=1.0e-4)


def test_a_model_without_parameters_is_as_rigid_as_it_was():
    """MJCF without solref has none unless MuJoCo's defaults are asked for."""
    text = SCENE.format(joint=FRICTIONS["friction"], equality='<weld body1="block"/>')
    model = model_of(text)
    assert not model.constraint_solref.numpy().any()
    assert not model.joint_friction_solref.numpy().any()
    assert not FeatherstoneSolver(model).constraints.parameters.any
    with_defaults = model_of(text, mujoco_defaults=True)
    np.testing.assert_allclose(with_defaults.constraint_solref.numpy(), [[0.02, 1.0]])
    assert with_defaults.joint_friction_solref.numpy().any(axis=1).sum() == 1


def test_solref_is_refused_where_it_has_no_meaning():
    builder = newtonsim.ModelBuilder()
    bodies = [builder.add_body(mass=1.0, I_m=np.eye(3)) for _ in range(2)]
    with pytest.raises(newtonsim.ModelError, match="solref is for welds"):
        builder.add_constraint_distance(*bodies, max_distance=1.0, solref=(0.1, 1.0))
    with pytest.raises(newtonsim.ModelError, match="solref is for welds"):
        builder.add_loop_joint(newtonsim.JOINT_REVOLUTE, *bodies, angular_axes=[(0, 0, 1)], solref=(0.1, 1.0))
    builder.add_constraint_weld(*bodies, solref=(0.1, -1.0))
    with pytest.raises(newtonsim.ModelError, match=r"constraint_solref is .* two positive"):
        builder.finalize("cpu")


def test_a_weld_that_has_given_way_bears_the_weight():
    text = SCENE.format(joint="", equality=f'<weld body1="block" anchor="0 1 1" {SOFT}/>')
    model = model_of(text)
    solver, state = FeatherstoneSolver(model), model.state()
    for _ in range(750):
        solver.step(model, state, state, model.control(), None, 0.004)
    wrench = solver.constraint_forces().numpy()[0]
    # the weld is from the block to the world, which it pushes down with the block's weight
    np.testing.assert_allclose(wrench[3:], [0.0, 0.0, -5.0 * 9.81], atol=0.05)
