"""`compare_mujoco_solver` tells MuJoCoSolver all that a file says, and where, when and why motions part."""

import re

import mujoco
import numpy as np
import pytest

from newtonsim.errors import OracleError
from newtonsim.fidelity import compare_mujoco_solver, ours
from newtonsim.fidelity.comparison import PLACES

HEAD = "<mujoco>{option}<worldbody>"
ARM = (
    '<body name="arm"><joint name="j" axis="0 1 0" {joint}/>'
    '<geom type="capsule" fromto="0 0 0 .4 0 0" size=".03" mass="1"/></body>'
)
TAIL = "</worldbody></mujoco>"
SWINGS = '<option timestep=".01" {more}/>'
FALLS = (
    '<geom name="floor" type="plane" size="1 1 1" pos="0 0 .05"/><body name="ball" pos="0 0 .2"><freejoint/>'
    '<geom size=".1" mass="1"/></body>'
)
DISC = (
    '<body name="ball" pos="0 0 1"><joint type="ball" stiffness="{stiffness}"/>'
    '<geom size=".1" pos=".1 0 .2" mass="1"/></body>'
)
LIFTED = (
    '<body name="box" gravcomp="{share}"><joint type="slide" axis="0 0 1"/><geom size=".1" mass="1"/></body>'
)


COUPLED = (
    '<body name="a"><joint name="a" axis="0 1 0" frictionloss=".3"/><geom size=".1" pos=".3 0 0" mass="1"/>'
    '<body name="b" pos=".3 0 0"><joint name="b" axis="0 1 0" range="-9 9" frictionloss=".2"/>'
    '<geom size=".1" pos=".3 0 0" mass="1"/></body></body></worldbody>'
    '<equality><joint joint1="a" joint2="b"/></equality></mujoco>'
)


def arm(joint: str, option: str) -> str:
    return HEAD.format(option=option) + ARM.format(joint=joint) + TAIL


MATTERS = {
    "integrator": (arm("", SWINGS.format(more='integrator="RK4"')), arm("", SWINGS.format(more=""))),
    "solver": (
        HEAD.format(option=SWINGS.format(more='solver="PGS" iterations="1"')) + COUPLED,
        HEAD.format(option=SWINGS.format(more='iterations="1"')) + COUPLED,
    ),
    "flags": (
        arm('damping=".5"', '<option timestep=".01"><flag eulerdamp="disable"/></option>'),
        arm('damping=".5"', SWINGS.format(more="")),
    ),
    "noslip iterations": (
        arm('frictionloss="1.2"', SWINGS.format(more='noslip_iterations="5"')),
        arm('frictionloss="1.2"', SWINGS.format(more="")),
    ),
    "tolerance": (
        HEAD.format(option=SWINGS.format(more='tolerance="10"')) + COUPLED,
        HEAD.format(option=SWINGS.format(more="")) + COUPLED,
    ),
    "iterations of the line search": (
        HEAD.format(option=SWINGS.format(more='ls_iterations="1" iterations="1"')) + COUPLED,
        HEAD.format(option=SWINGS.format(more='iterations="1"')) + COUPLED,
    ),
    "gravity compensation": (
        HEAD.format(option="") + LIFTED.format(share=0.7) + TAIL,
        HEAD.format(option="") + LIFTED.format(share=0.0) + TAIL,
    ),
    "stiffness of a ball joint": (
        HEAD.format(option="") + DISC.format(stiffness=3) + TAIL,
        HEAD.format(option="") + DISC.format(stiffness=0) + TAIL,
    ),
}
"""By what the solver must be told: a file, and one that differs in that alone."""


def write(folder, text: str, name: str = "file.xml") -> str:
    (folder / name).write_text(text)
    return str(folder / name)


def positions(
    path: str, times: np.ndarray, timestep: float | None = None, contacts: bool = False
) -> np.ndarray:
    """Origins and centres of mass of all bodies as MuJoCo moves a file (times, 2 bodies, 3)."""
    model = mujoco.MjModel.from_xml_path(path)
    if not contacts:
        model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONTACT)
    steps = np.rint(times / model.opt.timestep).astype(int)
    if timestep is not None:
        model.opt.timestep = timestep
    data, places = mujoco.MjData(model), []
    for number in range(int(steps.max()) + 1):
        if number in steps:
            mujoco.mj_kinematics(model, data)
            places.append(np.concatenate([data.xpos[1:], data.xipos[1:]]))
        mujoco.mj_step(model, data)
    return np.array(places)


def apart(first: np.ndarray, second: np.ndarray) -> float:
    return float(np.linalg.norm(first - second, axis=-1).max())


SECOND = np.linspace(0.0, 1.0, 26)[1:]


@pytest.mark.parametrize("what", MATTERS)
def test_the_solver_is_told(what, tmp_path):
    """And without it MuJoCo itself moves the file to other places, as far as would be seen."""
    text, without = MATTERS[what]
    path = write(tmp_path, text)
    other = positions(write(tmp_path, without, "without.xml"), SECOND)
    assert apart(positions(path, SECOND), other) > 10.0 * PLACES
    found = compare_mujoco_solver(path)
    assert found.agrees, str(found)


def test_nothing_touches_on_either_side(tmp_path):
    path = write(tmp_path, HEAD.format(option="") + FALLS + TAIL)
    assert apart(positions(path, SECOND), positions(path, SECOND, contacts=True)) > 0.1
    found = compare_mujoco_solver(path)
    assert found.agrees, str(found)


def beside(folder, monkeypatch, text: str, other: str, **options):
    """Compare a file in MuJoCo with another one here."""
    read, another = ours.read, write(folder, other, "other.xml")
    with monkeypatch.context() as patch:
        patch.setattr(ours, "read", lambda path, kind: read(another, kind))
        return compare_mujoco_solver(write(folder, text), **options)


TWO = (
    '<body name="a"><joint name="a" type="slide" axis="0 0 1"/><geom size=".1" mass="1"/></body>'
    '<body name="b" pos="1 0 0"><joint name="b" type="slide" axis="0 0 1" damping="{}"/>'
    '<geom size=".1" mass="1"/></body>'
)


def test_where_and_when_motions_part(tmp_path, monkeypatch):
    """A damped fall falls ever further behind: v' = g - d v."""
    texts = [HEAD.format(option='<option timestep=".001"/>') + TWO.format(d) + TAIL for d in (0.0, 0.01)]
    found = beside(tmp_path, monkeypatch, *texts)
    assert found.where == "b after 1 s"
    damped = (1.0 - (1.0 - np.exp(-0.01)) / 0.01) / 0.01
    assert found.error == pytest.approx(9.81 * (0.5 - damped), rel=0.01)
    assert not found.agrees


def test_the_motion_lasts_as_long_as_is_asked_for(tmp_path, monkeypatch):
    """And a step at least for each of the samples."""
    texts = [HEAD.format(option='<option timestep=".001"/>') + TWO.format(d) + TAIL for d in (0.0, 0.01)]
    assert beside(tmp_path, monkeypatch, *texts, seconds=0.5).where == "b after 0.5 s"
    assert beside(tmp_path, monkeypatch, *texts, seconds=0.002).where == "b after 0.025 s"


def motor(gear: float) -> str:
    actuator = f'</worldbody><actuator><motor joint="j" gear="{gear}"/></actuator></mujoco>'
    return arm('damping="2"', SWINGS.format(more="")).replace(TAIL, actuator)


def test_what_actuators_do_is_seen_with_other_controls_for_each_seed(tmp_path, monkeypatch):
    texts = [motor(gear) for gear in (1.0, 1.5)]
    errors = {seed: beside(tmp_path, monkeypatch, *texts, seed=seed).error for seed in (0, 1, 2)}
    assert min(errors.values()) > 5.0 * PLACES
    assert len({round(error, 6) for error in errors.values()}) == 3
    assert compare_mujoco_solver(write(tmp_path, motor(1.0), "motor.xml")).agrees


def test_mujoco_starts_elsewhere_for_each_seed(tmp_path):
    path = write(tmp_path, arm("", SWINGS.format(more="")))
    assert len({compare_mujoco_solver(path, seed=seed).remark for seed in (0, 1, 2)}) == 3


def test_remarks_are_about_the_integrator_of_the_file(tmp_path, monkeypatch):
    """Where Euler's method is further than ten times the tolerance from that of Runge and Kutta."""
    option = '<option timestep=".007" integrator="RK4"/>'
    agreeing = compare_mujoco_solver(write(tmp_path, arm("", option)))
    assert agreeing.agrees
    assert "single precision" not in agreeing.remark
    found = beside(tmp_path, monkeypatch, *(arm(f'stiffness="{k}"', option) for k in (2.0, 2.5)))
    for number in re.findall(r"([\d.e+-]+) m from itself", found.remark):
        assert float(number) < PLACES
    assert found.remark.count("m from itself") == 2


def test_what_the_remark_says_is_what_mujoco_does(tmp_path, monkeypatch):
    """How far MuJoCo is from itself with its time step in single precision, and when it starts beside."""
    option = '<option timestep=".003"/>'
    texts = [arm(f'stiffness="{k}" springref="90"', option) for k in (2.0, 2.5)]
    found = beside(tmp_path, monkeypatch, *texts)
    assert not found.agrees
    every = round(1.0 / 0.003 / 25)
    times = 0.003 * every * np.arange(1, 26)
    path = str(tmp_path / "file.xml")
    rounded = apart(positions(path, times), positions(path, times, timestep=float(np.float32(0.003))))
    (said,) = re.findall(r"([\d.e+-]+) m from itself with its time step in single precision", found.remark)
    assert float(said) == pytest.approx(rounded, rel=0.06)  # two digits
    (near,) = re.findall(r"MuJoCo is ([\d.e+-]+) m from itself if it starts 1e-06 away", found.remark)
    assert 1.0e-8 < float(near) < 1.0e-4


def test_bodies_that_are_not_there_are_infinitely_far(tmp_path, monkeypatch):
    text = arm("", SWINGS.format(more=""))
    found = beside(tmp_path, monkeypatch, text, text.replace('body name="arm"', 'body name="leg"'))
    assert found.error == np.inf


def test_a_motion_that_mujoco_loses_counts_as_missing(tmp_path):
    """A spring that is far too stiff for explicit steps; what is before is compared."""
    path = write(tmp_path, arm('stiffness="3e5" springref="20"', SWINGS.format(more="")))
    model = mujoco.MjModel.from_xml_path(path)
    data, lost = mujoco.MjData(model), 0
    while not data.warning[int(mujoco.mjtWarning.mjWARN_BADQACC)].number:
        mujoco.mj_step(model, data)
        lost += 1
    with pytest.warns(UserWarning, match="huge values or NaN"):
        found = compare_mujoco_solver(path)
    assert found.error == np.inf
    sample = 0.04 * np.ceil(lost * 0.01 / 0.04 - 1.0e-9)
    assert found.remark.startswith(f"MuJoCo itself diverges after {sample:.2g} s, ")
    (until,) = re.findall(r"s, ([\d.e+-]+) m until then", found.remark)
    assert float(until) < 1.0


def test_what_cannot_be_compared_is_named(tmp_path, monkeypatch):
    still = write(tmp_path, HEAD.format(option="") + '<body><geom size=".1"/></body>' + TAIL, "still.xml")
    with pytest.raises(OracleError, match=r"still\.xml: nothing in it moves"):
        compare_mujoco_solver(still)
    two = HEAD.format(option="") + TWO.format(0) + TAIL
    with pytest.raises(OracleError, match=r"file\.xml: 1 degrees of freedom in MuJoCo, 2 here"):
        beside(tmp_path, monkeypatch, arm("", ""), two)
