"""What <flag> disables is off: M(q), bias and a second of motion are those of MuJoCo."""

import warnings

import mujoco
import numpy as np
import pytest

import newtonsim
from newtonsim.fidelity import compare_with_oracle
from newtonsim.importers import parse_mjcf

ARM = """<mujoco><option timestep=".0005"><flag {flags}/></option><worldbody><site name="top" pos="0 0 1.2"/>
<body name="a" pos="0 0 1"><joint name="a" axis="0 1 0" damping=".3" frictionloss=".2" range="-20 20"/>
<geom type="capsule" fromto="0 0 0 .3 0 0" size=".03"/>
<body name="b" pos=".3 0 0"><joint name="b" axis="0 1 0" stiffness="2" springref="30" frictionloss=".1"/>
<geom type="capsule" fromto="0 0 0 .3 0 0" size=".02"/><site name="tip" pos=".3 0 0"/></body></body>
</worldbody>
<tendon><spatial name="rope" range="0 .7"><site site="top"/><site site="tip"/></spatial>
<fixed name="sum" stiffness=".1" damping=".05"><joint joint="a" coef="1"/><joint joint="b" coef="1"/></fixed>
</tendon><equality><joint joint1="b" joint2="a" polycoef="0 .5 0 0 0" active="{active}"/></equality>
<actuator><position joint="a" kp="5" kv=".2" inheritrange="1"/></actuator></mujoco>"""

FLAGS = ("frictionloss", "limit", "spring", "damper", "gravity", "equality", "constraint")


def last_pose(path: str) -> np.ndarray:
    model = mujoco.MjModel.from_xml_path(path)
    data = mujoco.MjData(model)
    mujoco.mj_step(model, data, 2000)
    return data.qpos.copy()


@pytest.mark.parametrize("flag", FLAGS)
def test_what_is_disabled_is_off(flag, tmp_path):
    """And MuJoCo itself ends elsewhere if it is not."""
    active = str(flag == "equality").lower()
    poses = []
    for word in ("enable", "disable"):
        path = tmp_path / f"{word}.xml"
        path.write_text(ARM.format(flags=f'{flag}="{word}"', active=active))
        poses.append(last_pose(str(path)))
    assert np.abs(poses[1] - poses[0]).max() > 0.01
    found = compare_with_oracle(tmp_path / "disable.xml")
    assert found.agrees, found.lines()
    assert not found.remarks


def test_what_cannot_be_disabled_is_named():
    text = ARM.format(flags='actuation="disable"', active="false")
    with pytest.warns(newtonsim.UnsupportedElementWarning, match="actuation='disable'"):
        parse_mjcf(text, newtonsim.ModelBuilder())
    with pytest.raises(newtonsim.ImportFileError, match="actuation='disable'"):
        parse_mjcf(text, newtonsim.ModelBuilder(), strict=True)


@pytest.mark.parametrize("flags", ['spring="disable" damper="disable"', 'spring="disable"'])
def test_spring_and_damper_of_one_time_constant(flags):
    text = ARM.format(flags=flags, active="false").replace('stiffness="2"', 'springdamper=".5 1"')
    mj = mujoco.MjModel.from_xml_string(text)
    assert mj.dof_damping[1] > 0.0
    builder = newtonsim.ModelBuilder()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        parse_mjcf(text, builder)
    assert ("disables one half" in str(told[0].message) if told else False) == (flags == 'spring="disable"')
    assert builder.joint_damping[1] == 0.0
    assert builder.joint_stiffness[1] == 0.0
