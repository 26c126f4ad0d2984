"""solref, solimp and their like reach the model, MuJoCoSolver and the MJCF that is written, unchanged."""

import warnings

import mujoco
import numpy as np
import pytest

import newtonsim
from newtonsim.importers import parse_mjcf
from newtonsim.solvers import MuJoCoSolver
from newtonsim.utils import export_mjcf, export_urdf, export_usd

TEXT = """<mujoco><compiler angle="radian"/><worldbody>
  <geom name="floor" type="plane" size="1 1 .1" friction=".9" solref=".03 .9" solmix="2"/>
  <body name="cart" pos="0 0 1"><joint name="slide" type="slide" axis="1 0 0" range="-1 1"/>
    <geom name="block" type="box" size=".1 .1 .1" friction=".5" condim="1" priority="1"/>
    <body name="pole"><joint name="hinge" axis="0 1 0" range="-1 2" solreflimit=".05 .7"
        solimplimit=".8 .9 .1 .4 3" margin=".02"/>
      <geom name="rod" type="capsule" size=".02" fromto="0 0 .1 0 0 .4" friction=".6 .02 .001" condim="6"
        solref="-300 -5" solimp=".7 .9 .02"/>
    </body></body>
  <body name="loose" pos="1 0 1"><freejoint name="free"/>
    <geom name="ball" size=".1" friction=".7" solimp=".8 .95 .01 .6 1.5"/></body>
  </worldbody><contact><pair geom1="rod" geom2="floor" condim="4" friction=".3 .3 .01 0 0" solref=".04 1.2"/>
  <pair geom1="ball" geom2="floor" solimp=".6 .9 .03 .5 2"/></contact></mujoco>"""
GEOMS = ("solref", "solimp", "solmix", "priority", "friction", "condim", "margin")


@pytest.fixture
def read():
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    with warnings.catch_warnings():
        warnings.simplefilter("error", newtonsim.UnsupportedElementWarning)
        options = {"floating": None, "enable_self_collisions": True, "contact_mu": 1.0}
        options |= {"stiffness": 0.0, "damping": 0.0}
        report = parse_mjcf(TEXT, builder, ignore_inertial_definitions=False, **options)
    assert not report.entries
    return builder.finalize("cpu")


def assert_same(ours: mujoco.MjModel, file: mujoco.MjModel) -> None:
    """Compare contact parameters and limits by name; torsion and rolling only where they count."""
    for place in range(file.ngeom):
        theirs = file.geom(place)
        mine = ours.geom(theirs.name)
        for name in GEOMS:
            wanted, found = getattr(theirs, name), getattr(mine, name)
            if name == "friction":
                count = {1: 1, 3: 1, 4: 2, 6: 3}[int(theirs.condim[0])]
                wanted, found = wanted[:count], found[:count]
            np.testing.assert_allclose(found, wanted, rtol=1.0e-6, err_msg=f"{theirs.name} {name}")
    hinge = file.joint("hinge")
    for table in ("jnt_solref", "jnt_solimp", "jnt_margin", "jnt_range"):
        found = getattr(ours, table)[ours.joint("hinge").id]
        np.testing.assert_allclose(found, getattr(file, table)[hinge.id], rtol=1.0e-6, err_msg=table)
    assert ours.npair == file.npair
    for place in range(file.npair):
        ends = {file.geom(file.pair_geom1[place]).name, file.geom(file.pair_geom2[place]).name}
        own = [
            p
            for p in range(ours.npair)
            if {ours.geom(ours.pair_geom1[p]).name, ours.geom(ours.pair_geom2[p]).name} == ends
        ]
        assert len(own) == 1
        for table in ("pair_dim", "pair_solref", "pair_solimp"):
            theirs = getattr(file, table)[place]
            np.testing.assert_allclose(getattr(ours, table)[own[0]], theirs, rtol=1.0e-6, err_msg=table)
        np.testing.assert_allclose(ours.pair_friction[own[0]][0], file.pair_friction[place][0], rtol=1.0e-6)


def test_mujoco_solver_has_the_parameters_of_the_file(read):
    solver = MuJoCoSolver(read, use_mujoco=True)
    assert_same(solver.mj_model, mujoco.MjModel.from_xml_string(TEXT))


def test_mjcf_is_written_with_the_parameters_of_the_file(read, tmp_path):
    report = export_mjcf(read, tmp_path / "scene.xml")
    file = mujoco.MjModel.from_xml_path(report.path)
    assert_same(file, mujoco.MjModel.from_xml_string(TEXT))
    again = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    parse_mjcf(report.path, again, **report.read_with)
    model = again.finalize("cpu")
    for name in ("shape_solref", "shape_solimp", "shape_priority", "shape_condim", "joint_limit_solref"):
        np.testing.assert_allclose(getattr(model, name).numpy(), getattr(read, name).numpy(), rtol=1.0e-6)
    for name in ("contact_pair_friction", "contact_pair_solref", "contact_pair_solimp"):
        np.testing.assert_allclose(getattr(model, name).numpy(), getattr(read, name).numpy(), rtol=1.0e-6)


def test_other_formats_say_what_they_leave_out(read, tmp_path):
    with pytest.warns(newtonsim.UnsupportedElementWarning, match="solref"):
        export_urdf(read, tmp_path / "scene.urdf")
    with pytest.warns(newtonsim.UnsupportedElementWarning, match="their own contact parameters"):
        export_usd(read, tmp_path / "scene.usda")


def test_scale_is_that_of_widths_and_margins():
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    parse_mjcf(
        """<mujoco><worldbody><body><joint type="slide" range="0 1" solimplimit=".8 .9 .1" margin=".02"/>
        <geom name="a" size=".1" solimp=".8 .9 .1"/></body></worldbody></mujoco>""",
        builder,
        scale=2.0,
    )
    assert builder.joint_limit_margin == [0.04]
    assert builder.joint_limit_solimp[0][2] == builder.shape_solimp[0][2] == 0.2


WRONG = {
    "expected two positive numbers": '<geom size=".1" solref=".1 -1"/>',
    "at most 2": '<geom size=".1" solref=".1 1 1"/>',
    "'solmix' must not be negative": '<geom size=".1" solmix="-1"/>',
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_numbers_name_file_and_line(message: str):
    text = f"<mujoco><worldbody><body>\n{WRONG[message]}</body></worldbody></mujoco>"
    with pytest.raises(newtonsim.ImportFileError, match=message) as error:
        parse_mjcf(text, newtonsim.ModelBuilder(), strict=True)
    assert error.value.line == 2
    assert error.value.element == "geom"


FALLING = """<mujoco><option timestep=".002" cone="elliptic"/><worldbody><geom type="plane" size="1 1 1"/>
  <body pos="0 0 .3"><freejoint/><geom size=".1"/></body>
  <body pos="1 0 1"><joint axis="0 1 0" range="-40 10" damping=".05"/>
    <geom type="capsule" fromto="0 0 0 .3 0 0" size=".03"/></body></worldbody></mujoco>"""


def furthest(**options) -> float:
    """Largest difference from MuJoCo of a coordinate of `FALLING` over half a second."""
    mj = mujoco.MjModel.from_xml_string(FALLING)
    data = mujoco.MjData(mj)
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    parse_mjcf(FALLING, builder, floating=None, stiffness=0.0, damping=0.0, **options)
    model = builder.finalize("cpu")
    solver, state = newtonsim.FeatherstoneSolver(model, coriolis="start"), model.state()
    found = 0.0
    for _ in range(250):
        mujoco.mj_step(mj, data)
        solver.step(model, state, state, None, None, 0.002)
        q = state.joint_q.numpy()
        found = max(found, abs(q[2] - data.qpos[2]), abs(q[7] - data.qpos[7]))
    return found


def test_what_the_file_leaves_out_is_mujocos_if_asked_for():
    """A ball meets the ground and an arm its limit: both give way as MuJoCo's defaults say, or are rigid."""
    assert furthest() > 5.0e-3
    assert furthest(mujoco_defaults=True) < 2.0e-4


def test_what_the_file_says_stays_with_mujocos_defaults():
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    text = """<mujoco><worldbody><body><joint range="0 1" solreflimit=".05 .7"/><joint axis="1 0 0"/>
      <geom name="a" size=".1" solref=".03 1" friction=".3"/><geom name="b" size=".1"/></body></worldbody>
      </mujoco>"""
    parse_mjcf(text, builder, mujoco_defaults=True)
    np.testing.assert_allclose(builder.joint_limit_solref, [(0.05, 0.7), (0.02, 1.0)])
    np.testing.assert_allclose(builder.shape_solref, [(0.03, 1.0), (0.02, 1.0)])
    np.testing.assert_allclose(builder.shape_material_mu, [0.3, 1.0])


@pytest.mark.filterwarnings("ignore::newtonsim.errors.UnsupportedElementWarning")
def test_pairs_have_mujocos_defaults_whatever_their_geoms_say():
    text = """<mujoco><worldbody><geom name="a" type="plane" size="1 1 1" friction=".3" solref=".04 1"/>
      <body><freejoint/><geom name="b" size=".1"/><geom name="c" size=".1"/><geom name="d" size=".1"/></body>
      </worldbody><contact><pair geom1="a" geom2="b"/><pair geom1="a" geom2="c" condim="4"/>
      <pair geom1="a" geom2="d" solref=".05 1" friction=".6"/></contact></mujoco>"""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    parse_mjcf(text, builder, mujoco_defaults=True)
    compiled = mujoco.MjModel.from_xml_string(text)
    assert compiled.npair == 3
    np.testing.assert_allclose(builder.contact_pair_solref, compiled.pair_solref)
    np.testing.assert_allclose(builder.contact_pair_solimp, compiled.pair_solimp)
    np.testing.assert_allclose([friction[0] for friction in builder.contact_pair_friction], [1.0, 1.0, 0.6])
    np.testing.assert_allclose(compiled.pair_friction[:, 0], [1.0, 1.0, 0.6])


DEFAULTS = 'solref="0.02 1"', 'solimp="0.9 0.95 0.001 0.5 2"'


@pytest.mark.parametrize("stated", DEFAULTS)
@pytest.mark.parametrize("by_class", [False, True])
def test_mujocos_defaults_count_as_stated_where_they_stand(stated: str, by_class: bool, tmp_path):
    """On geoms, limits, dry friction, equalities and pairs; also from a class, and after an export."""
    name, value = stated.split("=")
    own = {one: f"{name}{one}={value}" for one in ("", "limit", "friction")}
    classes = {
        "geom": own[""],
        "joint": f"{own['limit']} {own['friction']}",
        "equality": own[""],
        "pair": own[""],
    }
    here = dict.fromkeys(classes, "") if by_class else classes
    above = "".join(f"<{tag} {text}/>" for tag, text in classes.items()) if by_class else ""
    text = f"""<mujoco><default>{above}</default><worldbody>
      <geom name="g" type="plane" size="1 1 1" {here["geom"]}/>
      <body><joint name="a" range="-1 1" axis="0 1 0" frictionloss=".1" {here["joint"]}/>
        <geom name="b" size=".1" pos="0 0 2" {here["geom"]}/></body></worldbody>
      <equality><joint joint1="a" {here["equality"]}/></equality>
      <contact><pair geom1="g" geom2="b" {here["pair"]}/></contact></mujoco>"""
    theirs = mujoco.MjModel.from_xml_string(text)
    tables = {
        "shape": theirs.geom_solref,
        "joint_limit": theirs.jnt_solref,
        "joint_friction": theirs.dof_solref,
        "constraint": theirs.eq_solref,
        "contact_pair": theirs.pair_solref,
    }
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    parse_mjcf(text, builder)
    again = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    report = export_mjcf(builder, str(tmp_path / "scene.xml"))
    parse_mjcf(report.path, again, **report.read_with)
    for read in (builder, again):
        model = read.finalize("cpu")
        for kind, wanted in tables.items():
            np.testing.assert_allclose(getattr(model, f"{kind}_solref").numpy(), wanted, rtol=1e-6)


def test_what_is_not_stated_is_rigid():
    text = """<mujoco><worldbody><body><joint name="a" range="-1 1"/><geom size=".1"/></body>
      </worldbody><equality><joint joint1="a"/></equality></mujoco>"""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    parse_mjcf(text, builder)
    model = builder.finalize("cpu")
    for kind in ("shape", "joint_limit", "constraint"):
        assert not getattr(model, f"{kind}_solref").numpy().any()
