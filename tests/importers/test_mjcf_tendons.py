"""Tendons of files move as in MuJoCo: read, stepped by MuJoCoSolver, and written again."""

import warnings

import mujoco
import numpy as np
import pytest
from physics.test_tendons import ARMS, CASES, FIXED, SPATIAL, run_mujoco

import newtonsim
from newtonsim.importers import parse_mjcf
from newtonsim.solvers import FeatherstoneSolver, MuJoCoSolver
from newtonsim.utils import export_mjcf

AS_THERE = {"floating": None, "ignore_inertial_definitions": False, "stiffness": 0.0, "damping": 0.0}
DEFAULTS = """<default><tendon stiffness="40" springlength=".4" damping=".1"/>
  <equality solref=".05 1"/></default>"""
MORE = {
    "defaults": (FIXED.format(""), DEFAULTS),
    "negative rest length": (FIXED.format('stiffness="40" springlength="-.3 -.2"'), ""),
    "rest length of minus one": (FIXED.format('stiffness="40" springlength="-.9999999999"'), ""),
    "joint references": (FIXED.format('stiffness="40"'), ""),
    "named by an actuator alone": (SPATIAL.format(""), '<actuator><motor tendon="t" gear="-9"/></actuator>'),
    "armature along axes": (FIXED.format('armature=".3" stiffness="9" springlength=".4"'), ""),
    "armature through points": (
        '<spatial name="t" armature="2"><site site="low"/><site site="s1"/><site site="s2"/></spatial>',
        "",
    ),
    "velocity servo": (FIXED.format(""), '<actuator><velocity tendon="t" kv="3"/></actuator>'),
}
TEXTS = {name: ARMS.format(tendon=tendon, more=more) for name, (tendon, more, _) in CASES.items()}
TEXTS |= {name: ARMS.format(tendon=tendon, more=more) for name, (tendon, more) in MORE.items()}
TEXTS["joint references"] = TEXTS["joint references"].replace('name="b"', 'name="b" ref=".5"')


def read(source: str, builder: newtonsim.ModelBuilder, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("error", newtonsim.UnsupportedElementWarning)
        return parse_mjcf(source, builder, **{**AS_THERE, **options})


def file_coordinates(model: newtonsim.Model, report, q: np.ndarray) -> np.ndarray:
    """Coordinates as the file counts them."""
    q = q.astype(np.float64)
    for name, ref in report.joint_refs.items():
        q[report.joint_coords[name]] += ref
    return q


def follow(solver, model: newtonsim.Model, report, ctrl: float, steps: int = 400) -> np.ndarray:
    state, control = model.state(), model.control()
    act = control.tendon_act.numpy()
    for actuator in report.actuators:
        act[actuator["tendon"]] = actuator["scale"] * ctrl + actuator["offset"]
    control.tendon_act.assign(act)
    for _ in range(steps):
        solver.step(model, state, state, control, None, 0.002)
    return file_coordinates(model, report, state.joint_q.numpy())


@pytest.mark.parametrize("name", TEXTS)
def test_tendons_of_files(name: str):
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    report = read(TEXTS[name], builder)
    model = builder.finalize("cpu")
    theirs = run_mujoco(TEXTS[name], 400, 0.002, 0.5)[-1]
    ours = follow(FeatherstoneSolver(model, coriolis="start", references="end"), model, report, 0.5)
    np.testing.assert_allclose(ours, theirs, rtol=0.0, atol=2.0e-4)


@pytest.mark.parametrize("name", TEXTS)
def test_mujoco_solver_moves_them_as_the_file(name: str):
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    report = read(TEXTS[name], builder)
    model = builder.finalize("cpu")
    as_there = {"joint_damping": 0.0, "solver": "newton", "iterations": 100, "ls_iterations": 50}
    solver = MuJoCoSolver(model, use_mujoco=True, tolerance=1.0e-8, **as_there)
    theirs = run_mujoco(TEXTS[name], 400, 0.002, 0.5, "mjINT_EULER")[-1]
    np.testing.assert_allclose(follow(solver, model, report, 0.5), theirs, rtol=0.0, atol=2.0e-4)


def test_mujoco_solver_takes_many_worlds():
    one = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    report = read(TEXTS["position servo"], one)
    many = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    many.replicate(one, 2, spacing=(2.0, 3.0, 0.0))
    found = []
    for builder in (one, many):
        model = builder.finalize("cpu")
        solver = MuJoCoSolver(model, use_mujoco=True, joint_damping=0.0)
        state, control = model.state(), model.control()
        control.tendon_act.fill_(0.5)
        for _ in range(100):
            solver.step(model, state, state, control, None, 0.002)
        found.append(state.joint_q.numpy().reshape(-1, 3))
    assert report.actuators[0]["tendon"] == 0
    np.testing.assert_allclose(found[1], np.tile(found[0], (2, 1)), atol=1.0e-5)


@pytest.mark.parametrize("name", TEXTS)
def test_what_is_written_moves_as_the_file(name: str, tmp_path):
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    read(TEXTS[name], builder)
    written = export_mjcf(builder, tmp_path / "arms.xml", actuated_axes=[])
    mj = mujoco.MjModel.from_xml_path(written.path)
    assert mj.nu == builder.tendon_count
    again = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    read(written.path, again, **{**written.read_with, "stiffness": 0.0, "damping": 0.0})
    found = []
    for one in (builder, again):
        model = one.finalize("cpu")
        solver, state = FeatherstoneSolver(model), model.state()
        for _ in range(200):
            solver.step(model, state, state, None, None, 0.002)
        found.append(state.joint_q.numpy())
    np.testing.assert_allclose(found[1], found[0], rtol=0.0, atol=1.0e-4)


def test_what_nothing_pulls_is_left_out():
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    report = read(ARMS.format(tendon=SPATIAL.format(""), more=""), builder)
    assert builder.tendon_count == 0
    assert [entry.kind for entry in report.entries] == ["ignored"]


def test_scale_is_that_of_all_lengths():
    lengths = []
    for scale in (1.0, 2.0):
        builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
        read(
            ARMS.format(tendon=SPATIAL.format('stiffness="9" range="0 1.15"'), more=""), builder, scale=scale
        )
        lengths.append([builder.tendon_spring_lower[0], builder.tendon_limit_upper[0]])
    np.testing.assert_allclose(lengths[1], 2.0 * np.array(lengths[0]), rtol=1.0e-6)


WRONG = {
    "the site 'x' is not defined": SPATIAL.format('stiffness="1"').replace("s2", "x"),
    "the joint 'x' is not defined": FIXED.format('stiffness="1"').replace('"b"', '"x"'),
    "'stiffness' must not be negative": FIXED.format('stiffness="-1"'),
    "'armature' must not be negative": FIXED.format('armature="-1"'),
    "'armature' is not available where a tendon wraps": (
        '<spatial armature="1"><site site="low"/><geom geom="g"/><site site="s1"/></spatial>'
    ),
    "'range' is reversed": FIXED.format('range="1 0"'),
    "'divisor' must be positive": SPATIAL.format('stiffness="1"').replace('"2"', '"0"'),
    "needs two sites": '<spatial stiffness="1"><site site="s1"/></spatial>',
    "needs a <joint>": '<fixed stiffness="1"/>',
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_tendons_name_the_line(message: str):
    ball = '<geom name="g" size=".1"/><site name="s3"'
    text = ARMS.format(tendon=WRONG[message], more="").replace('<site name="s3"', ball)
    with pytest.raises(newtonsim.ImportFileError, match=message) as error:
        parse_mjcf(text, newtonsim.ModelBuilder())
    assert error.value.line is not None


IDLE = {
    "the site 'x' is not defined": '<spatial name="rope">\n<site site="s1"/><site site="x"/></spatial>',
    "the geom 'x' is not defined": (
        '<spatial name="rope"><site site="s1"/><geom geom="x"/><site site="s2"/></spatial>'
    ),
    "the joint 'x' is not defined": '<fixed name="rope"><joint joint="x" coef="1"/></fixed>',
    "'divisor' must be positive": (
        '<spatial name="rope"><site site="s1"/><site site="s2"/><pulley divisor="0"/>'
        '<site site="s1"/><site site="s2"/></spatial>'
    ),
    "needs two sites": '<spatial name="rope"><site site="s1"/></spatial>',
}


@pytest.mark.parametrize("message", IDLE)
def test_tendons_that_do_nothing_along_what_is_not_there(message: str, tmp_path):
    """MuJoCo refuses them, and so does a strict import; others leave them out, and say why."""
    path = tmp_path / "arms.xml"
    path.write_text(ARMS.format(tendon="\n" + IDLE[message], more=""))
    line = path.read_text()[: path.read_text().index('name="rope"')].count("\n") + 1
    with pytest.raises(ValueError, match=r"(?s)rope|x|divisor"):
        mujoco.MjModel.from_xml_path(str(path))
    with pytest.raises(newtonsim.ImportFileError, match=message) as error:
        parse_mjcf(str(path), newtonsim.ModelBuilder(), strict=True)
    assert (error.value.path, error.value.line) == (str(path), line)
    builder = newtonsim.ModelBuilder()
    with pytest.warns(newtonsim.UnsupportedElementWarning, match=f"rope.*line {line}: .*{message}"):
        report = parse_mjcf(str(path), builder, **AS_THERE)
    (entry,) = report.of_kind("mended")
    assert message in entry.message
    assert (entry.path, entry.line) == (str(path), line)
    assert "name='rope'" in entry.element
    assert not report.of_kind("ignored")
    assert builder.tendon_count == 0


BOUNDED = """<mujoco><option gravity="0 0 0" integrator="discrete"/><worldbody><body name="a">
  <joint name="a" axis="0 1 0" damping="1"/><inertial pos="0 0 0" mass="1" diaginertia=".2 .2 .2"/></body>
  </worldbody><tendon><fixed name="t" actuatorfrcrange="-.4 .4"><joint joint="a" coef="2"/></fixed></tendon>
  <actuator>{}</actuator></mujoco>"""


@pytest.mark.parametrize("solver_type", [FeatherstoneSolver, MuJoCoSolver])
@pytest.mark.parametrize("count", [1, 2])
def test_the_sum_of_forces_on_a_tendon_is_bounded(solver_type, count: int):
    """MuJoCo's actuatorfrcrange bounds it before the gear, and is not reached at first."""
    text = BOUNDED.format('<motor tendon="t" gear="3"/>' * count)
    theirs = mujoco.MjModel.from_xml_string(text)
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    report = read(text, builder)
    model = builder.finalize("cpu")
    args = {"use_mujoco": True} if solver_type is MuJoCoSolver else {}
    solver = solver_type(model, **args)
    data, state, control = mujoco.MjData(theirs), model.state(), model.control()
    for ctrl in (0.1, 0.9, -0.7):
        data.ctrl[:] = ctrl
        control.tendon_act.fill_(sum(one["scale"] * ctrl + one["offset"] for one in report.actuators))
        for _ in range(100):
            solver.step(model, state, state, control, None, 0.002)
            mujoco.mj_step(theirs, data)
        assert abs(data.qfrc_actuator[0]) == pytest.approx(6.0 * min(count * abs(ctrl), 0.4))
        np.testing.assert_allclose(state.joint_q.numpy(), data.qpos, atol=2e-5)


def test_the_bound_of_actuators_of_the_model_is_left_to_mujoco():
    filtered = '<general tendon="t" gear="3" dyntype="filter" dynprm=".01"/>'
    text = BOUNDED.format(filtered * 2)
    theirs = mujoco.MjModel.from_xml_string(text)
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    with pytest.warns(
        newtonsim.UnsupportedElementWarning, match="actuatorfrcrange of actuators of the model"
    ):
        report = parse_mjcf(text, builder, **AS_THERE)
    model = builder.finalize("cpu")
    solver = MuJoCoSolver(model, use_mujoco=True, element_args=report.mujoco)
    data, state, control = mujoco.MjData(theirs), model.state(), model.control()
    data.ctrl[:] = 0.9
    control.actuator_ctrl.fill_(0.9)
    for _ in range(100):
        solver.step(model, state, state, control, None, 0.002)
        mujoco.mj_step(theirs, data)
    assert data.qfrc_actuator[0] == pytest.approx(2.4)
    np.testing.assert_allclose(state.joint_q.numpy(), data.qpos, atol=2e-5)
