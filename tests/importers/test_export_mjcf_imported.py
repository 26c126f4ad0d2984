"""Models written with the report of their import: MuJoCo moves the new file as the old one."""

import mujoco
import numpy as np
import pytest

import newtonsim
from newtonsim.errors import ModelError, UnsupportedElementWarning
from newtonsim.utils import export_mjcf, parse_mjcf, parse_usd

BODIES = """<body name="a" pos="0 0 2" gravcomp="0.7"><joint name="a" axis="0 1 0" ref="0.2"/>
<geom type="capsule" size=".04 .2" pos=".1 0 -.2"/>
<site name="s" pos="0 0 -.4" euler="0 .5 0"/><body name="b" pos="0 0 -.4"><joint name="b" axis="1 0 0"/>
<geom type="box" size=".05 .03 .1" pos="0 .1 -.1"/>
</body></body>"""
ACTUATORS = {
    "dynamics of an integrator": '<intvelocity name="iv" joint="a" kp="20" actrange="-.5 .5"/>',
    "a damper": '<damper name="da" joint="b" kv="2" ctrlrange="0 1"/>',
    "dynamics and bias of a cylinder": '<cylinder joint="a" timeconst=".1" area="3" bias="0.1 -2 -.3"/>',
    "a time constant": '<position joint="a" kp="30" kv="2" timeconst="0.05"/>',
    "a filter": '<general joint="b" dyntype="filterexact" dynprm=".03" gainprm="3" actearly="true"/>',
    "a gain that varies": '<general joint="a" gear="2" gaintype="affine" gainprm="2 1 .5" biastype="affine" '
    'biasprm=".2 -1 -.1"/>',
    "a force range": '<position joint="a" kp="10" kv="1" forcerange="-.2 .6"/>',
    "two on one joint": '<motor joint="a" gear="2"/><position joint="a" kp="10" forcerange="-1 .5"/>',
    "one on a site": '<position joint="b" kp="3"/><motor site="s" gear="1 0 0 0 .5 0"/>',
    "a range of control on a tendon": '<position tendon="t" kp="10" kv="1" ctrlrange="-.05 .1"/>',
    "two on a tendon": '<position tendon="t" kp="10" ctrlrange="-.05 .1"/><motor tendon="t" gear="2"/>',
    "dynamics on a tendon": '<general tendon="t" dyntype="filter" dynprm=".1" gainprm="8"/>',
}
ELEMENTS = {
    "gravcomp": "",
    "stiffness that is not linear": "<joint stiffness='3 -1 4' springref='.1' damping='.2 .1'/>",
    "fluid forces": "<geom contype='0' conaffinity='0' fluidshape='ellipsoid' fluidcoef='1 1 1 1 1'/>",
    "gravcomp by actuators": "<joint actuatorgravcomp='true' actuatorfrcrange='-1 1'/>",
    "softness of dry friction of tendons": "<tendon solreffriction='.1 1' frictionloss='2'/>",
    "springs that yield": "<joint stiffness='3' springyield='.05'/>",
    "tendons that yield": "<tendon stiffness='20' springyield='.01'/>",
    "damping of tendons that is not linear": "<tendon damping='.1 2'/>",
}


def document(actuators: str = "", defaults: str = "", rest: str = "") -> str:
    geom = "" if "<geom" in defaults else "<geom contype='0' conaffinity='0'/>"
    return f"""<mujoco><compiler angle="radian"/><option density="1.2" viscosity=".01"/>
    <default>{geom}{defaults}</default><worldbody>{BODIES}</worldbody>
    <tendon><fixed name="t"><joint joint="a" coef="1"/><joint joint="b" coef="-.5"/></fixed></tendon>
    <actuator>{actuators}</actuator>{rest}</mujoco>"""


def read(text: str, **options) -> tuple[newtonsim.ModelBuilder, object]:
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    return builder, parse_mjcf(text, builder, ignore_inertial_definitions=False, **options)


def motion(mj: mujoco.MjModel, names: list[str], ctrl: float = 0.3) -> np.ndarray:
    """Places of bodies over half a second, all controls being equal."""
    mj.opt.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    data, places = mujoco.MjData(mj), []
    data.ctrl[:] = ctrl
    for _ in range(int(0.5 / mj.opt.timestep)):
        mujoco.mj_step(mj, data)
        places.append([data.body(name).xpos for name in names] + [data.body(n).xquat[1:] for n in names])
    return np.array(places)


def assert_same_motion(text: str, path, imported: bool = True) -> tuple[float, float]:
    """Compare the files' motions in MuJoCo; return how far apart they are, and those of another control."""
    builder, report = read(text)
    export_mjcf(builder, path, imported=report if imported else None)
    old, new = mujoco.MjModel.from_xml_string(text), mujoco.MjModel.from_xml_path(str(path))
    expected = motion(old, ["a", "b"])
    return np.abs(motion(new, ["a", "b"]) - expected).max(), np.abs(
        expected - motion(old, ["a", "b"], 0.0)
    ).max()


@pytest.mark.filterwarnings("ignore::newtonsim.errors.UnsupportedElementWarning")
@pytest.mark.parametrize("what", ACTUATORS)
def test_actuators_of_the_file_come_back(tmp_path, what):
    """To the rounding of single precision, of which masses are."""
    error, moved = assert_same_motion(document(ACTUATORS[what]), tmp_path / "out.xml")
    assert error < 1.0e-6
    assert moved > 1.0e-3  # by the actuator


@pytest.mark.filterwarnings("ignore::newtonsim.errors.UnsupportedElementWarning")
@pytest.mark.parametrize("what", ELEMENTS)
def test_what_only_mujoco_models_comes_back(tmp_path, what):
    text = document('<motor joint="a"/>', ELEMENTS[what])
    assert assert_same_motion(text, tmp_path / "out.xml")[0] < 1.0e-6
    assert (
        assert_same_motion(text, tmp_path / "out.xml", imported=False)[0] > 1.0e-4
    )  # a model has none of it


@pytest.mark.filterwarnings("ignore::newtonsim.errors.UnsupportedElementWarning")
def test_springs_of_ball_joints_come_back(tmp_path):
    bodies = """<body name="a" pos="0 0 2"><joint name="a" type="ball" stiffness="2" damping=".1"/>
    <geom type="box" size=".05 .1 .2" pos=".1 0 -.2"/><body name="b"><geom size=".1"/></body></body>"""
    text = f"<mujoco><worldbody>{bodies}</worldbody></mujoco>"
    assert assert_same_motion(text, tmp_path / "out.xml")[0] < 1.0e-6


@pytest.mark.filterwarnings("ignore::newtonsim.errors.UnsupportedElementWarning")
def test_actuators_keep_names_order_and_controls(tmp_path):
    """Controls of keyframes are those of the file, too, where one actuator has the axis."""
    text = document(
        '<motor name="tip" site="s"/><position name="knee" joint="b" kp="5"/><position name="hip" joint="a"/>'
        '<position name="cable" tendon="t" ctrlrange="-1 1"/>',
        rest='<keyframe><key name="k" qpos=".1 .2" ctrl="0 .4 -.3 0"/></keyframe>',
    )
    builder, report = read(text)
    export_mjcf(builder, tmp_path / "out.xml", imported=report)
    mj = mujoco.MjModel.from_xml_path(str(tmp_path / "out.xml"))
    assert [mj.actuator(n).name for n in range(mj.nu)] == ["tip", "knee", "hip", "cable"]
    np.testing.assert_allclose(mj.key("k").ctrl, [0.0, 0.4, -0.3, 0.0], atol=1.0e-6)
    np.testing.assert_allclose(mj.key("k").qpos, [0.1 - 0.2, 0.2], atol=1.0e-6)


@pytest.mark.filterwarnings("ignore::newtonsim.errors.UnsupportedElementWarning")
def test_all_worlds_get_what_the_file_has(tmp_path):
    one, report = read(document(ACTUATORS["a time constant"]))
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    for _ in range(2):
        builder.add_builder(one)
    report_of = {"imported": report}
    export_mjcf(builder, tmp_path / "both.xml", **report_of)
    export_mjcf(builder, tmp_path / "second.xml", world=1, **report_of)
    both, second = (mujoco.MjModel.from_xml_path(str(tmp_path / f"{n}.xml")) for n in ("both", "second"))
    assert (both.nu, both.na, second.nu, second.na) == (2, 2, 1, 1)
    np.testing.assert_allclose(both.body_gravcomp, [0.0, 0.7, 0.0, 0.7, 0.0])
    np.testing.assert_allclose(second.body_gravcomp, [0.0, 0.7, 0.0])


def test_gravcomp_of_usd_comes_back(tmp_path):
    stage = """#usda 1.0
    (
        upAxis = "Z"
        metersPerUnit = 1
    )
    def Xform "a" ( prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsMassAPI", "MjcBodyAPI"] ) {
        float physics:mass = 2
        float3 physics:diagonalInertia = (1, 1, 1)
        double mjc:gravcomp = 0.5
    }"""
    path = tmp_path / "in.usda"
    path.write_text(stage)
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    with pytest.warns(UnsupportedElementWarning):
        report = parse_usd(str(path), builder)["report"]
    assert report.gravcomp
    export_mjcf(builder, tmp_path / "out.xml", imported=report)
    assert mujoco.MjModel.from_xml_path(str(tmp_path / "out.xml")).body_gravcomp[1] == 0.5


@pytest.mark.filterwarnings("ignore::newtonsim.errors.UnsupportedElementWarning")
def test_gains_of_the_model_win(tmp_path):
    """Which a user changed after the import; the export says so, and strict refuses."""
    builder, report = read(document(ACTUATORS["a force range"]))
    builder.joint_target_ke[0] = 40.0
    with pytest.warns(UnsupportedElementWarning, match="whose gains are not those of the file"):
        export_mjcf(builder, tmp_path / "out.xml", imported=report)
    mj = mujoco.MjModel.from_xml_path(str(tmp_path / "out.xml"))
    assert mj.actuator_gainprm[0, 0] == 40.0
    with pytest.raises(ModelError, match="whose gains"):
        export_mjcf(builder, tmp_path / "strict.xml", imported=report, strict=True)


@pytest.mark.filterwarnings("ignore::newtonsim.errors.UnsupportedElementWarning")
def test_efforts_of_joints_stay_bounded(tmp_path):
    """By `actuatorfrcrange` where the joint's bound is below that of its actuators."""
    text = document('<position joint="a" kp="100"/>', "<joint actuatorfrcrange='-.3 .3'/>")
    assert assert_same_motion(text, tmp_path / "out.xml")[0] < 1.0e-6


@pytest.mark.filterwarnings("ignore::newtonsim.errors.UnsupportedElementWarning")
def test_actuators_of_unknown_laws_are_named(tmp_path):
    builder, report = read(document('<dcmotor name="dc" joint="a" motorconst="0.05" resistance="2"/>'))
    with pytest.raises(ModelError, match=r"an actuator of the file that the model has nothing of \(dc\)"):
        export_mjcf(builder, tmp_path / "out.xml", imported=report, strict=True)


@pytest.mark.filterwarnings("ignore::newtonsim.errors.UnsupportedElementWarning")
def test_reports_of_other_models_are_refused(tmp_path):
    builder, report = read(document())
    other = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    for key in ("b", "a"):
        other.add_body(mass=1.0, I_m=np.eye(3), key=key)
    with pytest.raises(ModelError, match="imported: body 0 of its file is 'a', that of the model 'b'"):
        export_mjcf(other, tmp_path / "out.xml", imported=report)
    with pytest.raises(ModelError, match="imported: expected an ImportReport, got dict"):
        export_mjcf(builder, tmp_path / "out.xml", imported={})
    assert not (tmp_path / "out.xml").exists()


@pytest.mark.filterwarnings("ignore::newtonsim.errors.UnsupportedElementWarning")
@pytest.mark.parametrize("defaults", [True, False])
def test_softness_of_rows_comes_back(tmp_path, defaults):
    """All solref and solimp, also MuJoCo's defaults, of shapes that touch nothing, and without friction."""
    text = document(
        defaults="<joint range='-1 1' solreflimit='.03 1' solreffriction='.05 1'/>",
        rest="<equality><joint joint1='a' joint2='b' solref='.02 1'/><connect body1='b' anchor='0 0 0'/>"
        "</equality>",
    ).replace('axis="1 0 0"', 'axis="1 0 0" frictionloss=".1" solreffriction=".02 1" solreflimit=".02 1"')
    builder, _ = read(text, mujoco_defaults=defaults)
    report = export_mjcf(builder, tmp_path / "out.xml")
    again = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    parse_mjcf(report.path, again, **report.read_with)
    first, second = builder.finalize("cpu"), again.finalize("cpu")
    names = [name for name in vars(first) if "solref" in name or "solimp" in name]
    assert {"joint_limit_solref", "joint_friction_solref", "constraint_solref", "shape_solimp"} <= set(names)
    for name in names:
        one, two = getattr(first, name), getattr(second, name)
        if one is not None:
            np.testing.assert_array_equal(two.numpy(), one.numpy(), err_msg=name)
    assert first.constraint_solref.numpy()[0, 0] == np.float32(0.02)
