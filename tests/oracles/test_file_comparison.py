"""`compare_with_oracle` and `newtonsim info --oracle` find that a file is the same, and what is not."""

import sys
import warnings

import numpy as np
import pytest

from newtonsim.builder import ModelBuilder
from newtonsim.cli.main import main
from newtonsim.errors import NewtonsimError, OracleError, UnsupportedElementWarning
from newtonsim.examples import asset_path
from newtonsim.fidelity import Comparison, compare_mujoco_solver, compare_with_oracle, comparison, ours
from newtonsim.importers import parse_mjcf

TREE = """<mujoco><compiler angle="radian"/><option timestep=".002" density="{density}"/><worldbody>
  <body name="base" pos="0 0 1" quat="1 .2 .1 0"><freejoint/><geom size=".1" pos=".05 0 0"/>
    <body pos=".2 0 0"><joint name="turn" type="ball" damping=".02"/>
      <geom type="capsule" fromto="0 0 0 .3 0 0" size=".03"/>
      <body name="tip" pos=".3 0 0"><joint axis="0 1 0" ref=".3" stiffness="{stiffness}" springref=".5"/>
        <joint name="out" type="slide" axis="1 0 0" range="-.1 .05" damping="1"/>
        <joint name="twist" axis="1 0 0" pos=".1 0 0"/>
        <geom type="box" size=".05 .03 {size}" pos="0 {pos} .02"/></body></body></body>
  </worldbody><actuator><position joint="out" kp="30" kv="1" ctrlrange="-1 1" ctrllimited="true"/></actuator>
  </mujoco>"""


def write(folder, **changes) -> str:
    path = folder / f"tree{len(list(folder.iterdir()))}.xml"
    path.write_text(TREE.format(**{"stiffness": 0.4, "size": 0.04, "pos": 0.01, "density": 0, **changes}))
    return str(path)


def differing(found: Comparison) -> set[str]:
    return {item.name for item in found.items if not item.agrees}


def test_a_file_is_the_same_in_mujoco(tmp_path):
    found = compare_with_oracle(write(tmp_path))
    assert [item.name for item in found.items] == [
        *("total mass", "masses of bodies", "centres of mass", "inertias of bodies", "equalities"),
        *("degrees of freedom", "M(q)", "bias forces", "frames, places", "frames, angles", "motion"),
    ]
    assert found.agrees, found.lines()


def test_mujoco_solver_moves_a_file_as_mujoco(tmp_path):
    """In water, with several joints of a body."""
    found = compare_mujoco_solver(write(tmp_path, density=300))
    assert found.agrees, str(found)


def test_mujoco_solver_beside_another_file(tmp_path, monkeypatch):
    other, read = write(tmp_path, stiffness=0.5), ours.read
    monkeypatch.setattr(ours, "read", lambda path, kind: read(other, kind))
    found = compare_mujoco_solver(write(tmp_path))
    assert not found.agrees
    assert "with its time step in single precision" in found.remark


CHANGES = {
    "size": (0.05, {"total mass", "masses of bodies", "inertias of bodies", "M(q)", "bias forces", "motion"}),
    "pos": (0.02, {"centres of mass", "M(q)", "bias forces", "motion"}),
    "stiffness": (4.0, {"motion"}),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_read_differently_is_found(change, tmp_path, monkeypatch):
    """Our reading is that of a file that differs in one number."""
    value, wanted = CHANGES[change]
    other, read = write(tmp_path, **{change: value}), ours.read
    monkeypatch.setattr(ours, "read", lambda path, kind: read(other, kind))
    found = compare_with_oracle(write(tmp_path))
    assert differing(found) == wanted
    if "masses of bodies" in wanted:
        assert next(item for item in found.items if item.name == "masses of bodies").where == "tip"


def test_a_body_that_turns_about_its_own_origin_is_seen_to_move(tmp_path, monkeypatch):
    for name, damping in (("a", 0.0), ("b", 0.1)):
        (tmp_path / f"{name}.xml").write_text(
            f'<mujoco><worldbody><body name="arm"><joint axis="0 1 0" damping="{damping}"/>'
            '<geom size=".1" pos=".3 0 0"/></body></worldbody></mujoco>'
        )
    assert compare_with_oracle(tmp_path / "a.xml", states=1).agrees
    read = ours.read
    monkeypatch.setattr(ours, "read", lambda path, kind: read(tmp_path / "b.xml", kind))
    assert differing(compare_with_oracle(tmp_path / "a.xml", states=1)) == {"motion"}


def test_a_file_without_bodies_is_compared(tmp_path):
    (tmp_path / "empty.xml").write_text("<mujoco/>")
    assert compare_with_oracle(tmp_path / "empty.xml").agrees


def test_what_is_not_a_number_does_not_agree(tmp_path, monkeypatch):
    broken = np.full((12, 12), np.nan)
    monkeypatch.setattr(comparison, "joint_space_inertia", lambda model, state: broken)
    found = compare_with_oracle(write(tmp_path), states=2, seconds=0.0)
    assert differing(found) == {"M(q)"}


def test_a_file_is_the_same_in_pinocchio(capsys):
    path = str(asset_path("arm7.urdf"))
    assert compare_with_oracle(path).agrees
    assert main(["info", path, "--oracle"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "compared with pinocchio:"
    assert all(line.startswith("- ") and ", agrees" in line for line in lines[1:])


LOOSE = """<robot name="loose">{links}
<joint name="float" type="floating"><parent link="base"/><child link="body"/>
<origin xyz=".1 0 1" rpy=".5 0 .2"/></joint>
<joint name="slide" type="planar"><parent link="body"/><child link="plate"/>
<origin xyz="0 .2 0" rpy="0 .4 0"/><axis xyz="{axis}"/></joint>
<joint name="turn" type="revolute"><parent link="plate"/><child link="arm"/>
<origin xyz=".1 .1 0" rpy="1 0 0"/><axis xyz="0 1 0"/>
<limit lower="-2" upper="2" effort="1" velocity="1"/></joint></robot>"""


def loose(folder, axis: str = "0 0 1", off: float = 0.05) -> str:
    links = "".join(
        f'<link name="{name}"><inertial><origin xyz="{off} .02 -.03" rpy=".1 .2 .3"/><mass value="{mass}"/>'
        f'<inertia ixx="{mass}e-2" iyy="{mass}.5e-2" izz="{mass}.8e-2" ixy="1e-3" ixz="0" iyz="-5e-4"/>'
        "</inertial></link>"
        for name, mass in (("base", 3), ("body", 2), ("plate", 1), ("arm", 2))
    )
    path = folder / f"loose{len(list(folder.iterdir()))}.urdf"
    path.write_text(LOOSE.format(links=links, axis=axis))
    return str(path)


def test_floating_and_planar_joints_are_compared_with_pinocchio(tmp_path, monkeypatch):
    """Below other links, at random velocities, so that terms of rotating frames would be seen."""
    found = compare_with_oracle(loose(tmp_path))
    assert found.agrees, found.lines()
    assert {"M(q)", "bias forces", "frames, places"} <= {item.name for item in found.items}
    with pytest.raises(OracleError, match=r"the planar joint 'slide' .* has another axis than z"):
        compare_with_oracle(loose(tmp_path, axis="0 1 0"))
    other, read = loose(tmp_path, off=0.06), ours.read
    monkeypatch.setattr(ours, "read", lambda path, kind: read(other, kind))
    assert {"M(q)", "bias forces"} <= differing(compare_with_oracle(loose(tmp_path)))


def test_the_exit_status_tells_whether_a_file_differs(tmp_path, monkeypatch, capsys):
    path = write(tmp_path)
    assert main(["info", path, "--oracle"]) == 0
    assert "differs" not in capsys.readouterr().out
    other, read = write(tmp_path, stiffness=4.0), ours.read
    monkeypatch.setattr(ours, "read", lambda path, kind: read(other, kind))
    assert main(["info", path, "--oracle"]) == 1
    (line,) = (line for line in capsys.readouterr().out.splitlines() if "differs" in line)
    assert line.startswith("- motion: ")
    assert "differs by more than 0.001" in line


def test_a_report_and_an_oracle_are_not_asked_for_at_once(capsys):
    with pytest.raises(SystemExit):
        main(["info", str(asset_path("arm7.urdf")), "--oracle", "--report"])
    assert "--report: not allowed with argument --oracle" in capsys.readouterr().err


def test_missing_and_refusing_oracles_are_named(tmp_path, monkeypatch, capsys):
    broken = tmp_path / "broken.xml"
    broken.write_text("<mujoco><worldbody><body><joint/></body></worldbody></mujoco>")
    with pytest.raises(OracleError, match=r"MuJoCo refuses .*broken\.xml: .*mass and inertia"):
        compare_with_oracle(broken)
    path = write(tmp_path)
    monkeypatch.setitem(sys.modules, "mujoco", None)
    with pytest.raises(OracleError, match="MuJoCo is not installed: pip install"):
        compare_with_oracle(path)
    assert main(["info", path, "--oracle"]) == 2
    error = capsys.readouterr().err
    assert error == "newtonsim: error: MuJoCo is not installed: pip install 'newtonsim[mujoco]'\n"


def test_formats_without_an_oracle_are_named(tmp_path):
    path = tmp_path / "yard.sdf"
    path.write_text('<sdf version="1.9"><world name="yard"/></sdf>')
    with pytest.raises(NewtonsimError, match="an oracle for MJCF and URDF, and its root is <sdf>"):
        compare_with_oracle(path)


def test_files_that_stand_still_and_mocap_bodies_are_compared(tmp_path):
    path = tmp_path / "hall.xml"
    path.write_text(
        '<mujoco><worldbody><body name="a" pos="1 2 3"><geom size=".1"/></body>'
        '<body name="hand" mocap="true"><geom size=".1"/></body></worldbody></mujoco>'
    )
    found = compare_with_oracle(path)
    assert found.agrees, found.lines()
    assert "frames, places" in {item.name for item in found.items}


BLOCK = """<mujoco><option timestep=".002"/><worldbody><body pos="{place}">
  <joint type="free" {passive}/>{own}</body></worldbody></mujoco>"""
ARM = """<geom type="box" size=".1 .2 .3" mass="1" pos=".1 -.2 .05"/><body pos=".4 0 0">
  <joint axis="0 1 0" damping=".1" armature=".01"/>
  <geom type="box" size=".1 .02 .05" mass=".5" pos=".2 .1 0"/></body>"""


def test_armature_and_damping_of_a_free_joint_act_on_the_origin_as_in_mujoco(tmp_path):
    """Half a kilogram at the origin, 0.2 m from the centre of mass: it would be seen in all three."""
    path = tmp_path / "block.xml"
    path.write_text(BLOCK.format(place="0 0 1", passive='damping=".4" armature=".5"', own=ARM))
    found = compare_with_oracle(path)
    assert found.agrees, found.lines()
    assert {"M(q)", "bias forces", "motion"} <= {item.name for item in found.items}
    assert not found.remarks


SPOON = """<geom type="box" size=".1 .2 .3" mass="1" pos=".1 -.2 .05"/>
  <body pos=".3 0 .1" quat=".8 .1 .3 .2"><joint type="ball" pos=".05 .03 0" frictionloss=".2"/>
  <geom type="box" size=".1 .05 .02" pos=".1 .1 0" mass=".5"/></body>"""


@pytest.mark.parametrize(
    "passive",
    [
        'frictionloss=".4"',
        'frictionloss="3" damping=".3" armature=".2"',
        'frictionloss="20" solreffriction=".1 1"',  # holds, and creeps by 10 cm
    ],
)
def test_dry_friction_of_free_and_ball_joints_acts_on_the_body_as_in_mujoco(tmp_path, passive):
    """Along the axes of the dofs instead, places differ by 1 cm and more, whatever the step."""
    path = tmp_path / "block.xml"
    path.write_text(BLOCK.format(place='0 0 1" quat=".8 .3 -.4 .2', passive=passive, own=SPOON))
    found = compare_with_oracle(path, states=1)
    assert found.agrees, found.lines()
    assert next(item for item in found.items if item.name == "motion").error < 1.0e-4
    assert not found.remarks


def test_a_light_body_on_a_floating_one_without_mass_falls_as_in_mujoco(tmp_path):
    """Far from the world's origin, where MuJoCo has the inertial frame of a body without mass."""
    path = tmp_path / "peg.xml"
    peg = '<body><geom type="box" size=".015 .015 .12" mass=".1" euler="0 90 0"/></body>'
    text = BLOCK.format(place="0 .8 0", passive='damping="0"', own=peg)
    path.write_text(text.replace(' armature=".05"', ""))
    found = compare_with_oracle(path)
    assert found.agrees, found.lines()
    assert next(item for item in found.items if item.name == "motion").error < 5.0e-5


LIGHT = """<mujoco><compiler boundmass="0.1" boundinertia="0.01"/><worldbody>
  <body name="a" pos=".1 .2 .3" quat="1 .2 0 .1"><joint axis="0 1 0"/>
    <body name="b" pos="0 .4 .1"><joint axis="1 0 0"/><geom size=".1" pos=".1 0 0"/></body>
    <body name="c" pos=".1 .1 .1"><joint axis="1 0 0"/><geom size=".1" pos=".2 0 0" mass="0"/></body>
    <frame pos="0 0 .5"><body name="d" pos=".1 0 0"><joint axis="1 0 0"/></body></frame>
    <body name="e" pos=".3 .1 0"><joint axis="1 0 0" pos=".1 0 0"/>
      <inertial pos="0 0 .1" mass="0" diaginertia="0 0 0"/></body></body></worldbody></mujoco>"""


def test_the_mass_that_boundmass_gives_lies_where_mujoco_has_it(tmp_path):
    path = tmp_path / "light.xml"
    path.write_text(LIGHT)
    found = compare_with_oracle(path, states=2, seconds=0.0)
    assert found.agrees, found.lines()


FUSED = """<mujoco><compiler fusestatic="{fuse}"/><worldbody>
  <body name="table"><geom type="box" size=".5 .5 .1"/></body>
  <body name="base" pos="0 0 1"><freejoint/><geom size=".1"/>
    <body name="rack" pos=".3 0 0" euler="10 20 0"><geom type="box" size=".1 .2 .1"/>
      <body name="top" pos="0 0 .3"><geom type="box" size=".1 .05 .1"/><site name="held"/>
        <body name="arm" pos=".3 0 0"><joint name="j" axis="0 1 0"/><geom size=".05" pos=".1 0 0"/></body>
  </body></body></body></worldbody><actuator><motor joint="j" ctrlrange="-1 1"/></actuator></mujoco>"""


@pytest.mark.parametrize(("fuse", "names"), [("true", {"base", "arm"}), ("false", None)])
def test_bodies_without_joints_are_merged_where_a_file_says_so(fuse: str, names: set[str] | None, tmp_path):
    """Their masses are in the bodies that carry them, as in MuJoCo; a table is then part of the world."""
    path = tmp_path / "fused.xml"
    path.write_text(FUSED.format(fuse=fuse))
    found = compare_with_oracle(path, states=2)
    assert found.agrees, found.lines()
    assert not found.remarks
    assert set(ours.masses(ours.read(path, "mjcf"))) == (names or {"table", "base", "rack", "top", "arm"})


SHARED = """<mujoco><option timestep=".002"/><worldbody><body pos="0 0 1">
  <joint name="a" axis="0 1 0" damping=".1" ref=".2" {bound}/><geom size=".1" pos=".2 0 0"/>
  <body pos=".3 0 0"><joint name="b" type="slide" axis="1 0 0" damping=".1"/><geom size=".1"/></body>
</body></worldbody><actuator>
  <position joint="a" kp="100" kv="3" forcerange="-2 2" ctrlrange="-1 1"/>
  <position joint="a" kp="40" dampratio=".3" forcerange="-3 3" ctrlrange="-1 1"/>
  <velocity joint="a" kv="3" forcerange="-1 2" ctrlrange="-2 2"/>
  <motor joint="b" ctrlrange="-9 9" forcerange="-3 3"/>
  <position joint="b" kp="50" forcerange="-4 4" ctrlrange="-1 1"/></actuator></mujoco>"""


def test_servos_of_one_joint_are_bounded_one_by_one_as_in_mujoco(tmp_path):
    """With a bound on their sum, the slide is 14 cm elsewhere after a second, also under MuJoCoSolver."""
    path = tmp_path / "shared.xml"
    path.write_text(SHARED.format(bound=""))
    found = compare_with_oracle(path, states=1)
    assert found.agrees, found.lines()
    assert compare_mujoco_solver(path).agrees
    assert not found.remarks
    # where the joint bounds the sum, it is one drive, and it is told what that leaves out
    path.write_text(SHARED.format(bound='actuatorfrcrange="-4 4"'))
    with pytest.warns(UnsupportedElementWarning, match="the sum of their forces is bounded instead"):
        report = parse_mjcf(path, ModelBuilder())
    assert [actuator["tendon"] is None for actuator in report.actuators] == [True, True, True, False, True]


SPLIT = """<mujoco><option timestep=".002"/><worldbody>
  <body pos="0 0 1"><joint name="a" axis="0 1 0" damping=".1" frictionloss=".3"/>
    <geom size=".05" pos=".1 0 0"/></body>
  <body pos="0 1 1"><joint name="b" axis="0 1 0" range="-.01 .3" armature=".005"/>
    <geom size=".05" pos=".1 0 0"/></body></worldbody>
  <tendon><fixed name="split" {passive}>
    <joint joint="a" coef=".5"/><joint joint="b" coef=".7"/></fixed></tendon>
  <actuator>{servo}</actuator></mujoco>"""
PULLING = {
    "a servo": ("", '<position tendon="split" kp="20" kv="3" ctrlrange="-1 1"/>'),
    "a spring": ('stiffness="30" damping="4" springlength=".2"', ""),
}


@pytest.mark.parametrize("kind", PULLING)
def test_friction_and_limits_yield_beside_implicit_tendons_as_in_mujoco(kind: str, tmp_path):
    """Without the share of the tendon in what the dofs resist, the arms are 0.3 mm apart."""
    passive, servo = PULLING[kind]
    path = tmp_path / "split.xml"
    path.write_text(SPLIT.format(passive=passive, servo=servo))
    found = compare_with_oracle(path, states=1)
    assert not found.remarks
    assert next(item for item in found.items if item.name == "motion").error < 2.0e-5


HASTY = """<mujoco><option timestep=".002" iterations="1" ls_iterations="4"/><worldbody>
  <body pos="0 0 1"><joint name="a" type="slide" axis="0 0 1"/><geom size=".05"/>
    <site name="a" pos="0 0 -.1"/></body>
  <body pos=".1 0 .7"><joint type="slide" axis="1 0 0"/><joint type="slide" axis="0 0 1"/><geom size=".03"/>
    <site name="b"/></body></worldbody>
  <tendon><spatial limited="true" range="0 .25"><site site="a"/><site site="b"/></spatial></tendon>
  <equality><joint joint1="a"/></equality></mujoco>"""


def test_the_iterations_that_a_file_allows_do_not_count(tmp_path):
    """With one iteration of its constraint solver, MuJoCo's ball on a thread is 2 mm and more apart."""
    path = tmp_path / "hasty.xml"
    path.write_text(HASTY)
    found = compare_with_oracle(path, states=1)
    assert found.agrees, found.lines()


def test_a_file_that_is_not_well_formed_is_compared(tmp_path):
    """As two of myo_sim's, in which a blank between attributes is missing; MuJoCo reads it."""
    path = tmp_path / "blank.xml"
    text = (
        '<mujoco><worldbody><body><joint name="a"type="hinge"/><geom size=".1"/></body></worldbody></mujoco>'
    )
    path.write_text(text)
    found = compare_with_oracle(path, states=1, seconds=0.0)
    assert found.agrees, found.lines()
    assert any("not well-formed" in remark for remark in found.remarks)
    assert main(["info", str(path)]) == 0


@pytest.mark.filterwarnings("ignore:.*non-finite")
def test_a_motion_that_diverges_in_mujoco_is_no_agreement(tmp_path):
    """A spring that pushes away: MuJoCo warns, and would start anew."""
    path = tmp_path / "away.xml"
    path.write_text(
        '<mujoco><worldbody><body><joint name="a" axis="0 1 0"/><geom size=".1" pos=".3 0 0"/></body>'
        "</worldbody>"
        '<actuator><general joint="a" biastype="affine" biasprm="0 1e5 0"/></actuator></mujoco>'
    )
    motion = next(item for item in compare_with_oracle(path, states=1).items if item.name == "motion")
    assert not motion.agrees
    assert motion.remark.startswith("MuJoCo itself diverges after 0.")


def test_usd_files_have_no_oracle(tmp_path):
    path = tmp_path / "robot.usda"
    path.write_text("#usda 1.0\n")
    with pytest.raises(
        NewtonsimError, match=r"robot\.usda: there is an oracle for MJCF and URDF, and none for USD"
    ):
        compare_with_oracle(path)


def test_what_was_mended_stands_below_what_differs(tmp_path):
    """pinocchio drops an inertia whose mass is no number; here, its first digits count."""
    path = tmp_path / "robot.urdf"
    path.write_text(
        '<robot name="r"><link name="a"/><link name="b"><inertial><mass value="1,5"/>'
        '<inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>'
        '<joint name="j" type="continuous"><parent link="a"/><child link="b"/></joint></robot>'
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        found = compare_with_oracle(path)
    assert not found.agrees
    said = found.lines()
    below = said[said.index("not modelled, approximated or repaired:") :]
    assert any("'1,5'" in line for line in below), said


CHAINS = """<mujoco><worldbody>
  <body name="a"><joint name="a"/><geom size=".1"/></body>
  <body name="b" pos="1 0 0"><joint name="b"/><geom size=".1"/></body>
  <body name="c" pos="2 0 0"><joint name="c"/><geom size=".1"/></body></worldbody>
  <tendon><fixed name="pull" limited="true" range="-1 1"><joint joint="a" coef="1"/>
    <joint joint="b" coef="1"/><joint joint="c" coef="1"/></fixed></tendon></mujoco>"""


def test_a_model_that_the_solver_refuses_is_compared_but_for_its_motion(tmp_path):
    path = tmp_path / "chains.xml"
    path.write_text(CHAINS)
    found = compare_with_oracle(path)
    assert differing(found) == {"motion"}
    motion = found.items[-1]
    assert motion.error == np.inf
    assert motion.remark.startswith("the solver refuses the model: tendon 'pull': ")
    assert "M(q)" in {item.name for item in found.items}


ENDLESS = """<mujoco><option timestep=".001"/><worldbody><body pos="0 0 1" name="a">
<joint name="j" axis="0 1 0" range="-inf inf" actuatorfrcrange="-inf inf" damping=".1"/>
<geom type="capsule" size=".03" fromto="0 0 0 .3 0 0"/><site name="s"/>
<body pos=".3 0 0" name="b"><joint name="k" axis="0 1 0" range="-INF 20" ref="5" damping=".1"/>
<geom type="capsule" size=".03" fromto="0 0 0 .3 0 0"/><site name="q"/>
<body name="c" pos=".3 0 0"><joint name="l" type="ball" range="0 infinity"/>
<geom size=".05" pos=".1 .1 0"/>
</body></body></body></worldbody><tendon>
<spatial name="t" range="0 inf"><site site="s"/><site site="q"/></spatial>
<fixed name="f" range="-inf .3"><joint joint="k" coef="1"/></fixed></tendon><actuator>
<position joint="j" kp="1" ctrlrange="-inf inf"/>
<motor joint="k" ctrlrange="-1 1" forcerange="-inf .02"/>
<motor tendon="f" ctrlrange="-inf 1"/></actuator></mujoco>"""


def test_ranges_without_end(tmp_path):
    """MuJoCo reads infinite bounds; the lower joint falls onto its upper limit."""
    path = tmp_path / "endless.xml"
    path.write_text(ENDLESS)
    found = compare_with_oracle(path)
    assert found.agrees, found.lines()
    assert compare_mujoco_solver(path).agrees
    path.write_text(ENDLESS.replace('range="-INF 20"', 'range="-nan 20"'))
    with pytest.raises(NewtonsimError, match=r"endless.xml:4.*'k'.*'range' is not a finite number: '-nan'"):
        compare_with_oracle(path)


HILLS = """<mujoco><compiler settotalmass="7"/><asset>
<hfield name="h" nrow="3" ncol="3" size="1 2 .3 .2" elevation="0 1 2 3 0 1 0 1 2"/></asset><worldbody>
<body name="floor" pos="0 0 -2"><geom type="hfield" hfield="h" density=".5"/></body>
<body name="raft" pos="4 0 1"><joint axis="0 1 0"/>
  <geom type="hfield" hfield="h" density="2" euler="20 0 0" pos="1 0 0"/></body>
<body name="bowl" pos="-4 0 1"><joint axis="1 1 0"/>
  <geom type="hfield" hfield="h" density="2" shellinertia="true" pos="1 0 0"/></body></worldbody></mujoco>"""


def test_height_fields_have_the_mass_of_their_box(tmp_path):
    path = tmp_path / "hills.xml"
    path.write_text(HILLS)
    found = compare_with_oracle(path)
    assert found.agrees, found.lines()
    assert ours.masses(ours.read(path, "mjcf"))["floor"][0] > 0.0


BARE = """<robot name="bare"><link name="a">{inertial}</link><link name="b"/><link name="c"/>
<joint name="x" type="revolute"><parent link="a"/><child link="b"/><axis xyz="0 1 0"/><origin xyz="0 0 1"/>
  <limit lower="-1" upper="1" effort="5" velocity="2"/></joint>
<joint name="y" type="prismatic"><parent link="b"/><child link="c"/><axis xyz="1 0 0"/>
  <limit lower="-1" upper="1" effort="5" velocity="2"/></joint></robot>"""
SOLID = '<inertial><mass value="2"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'


@pytest.mark.parametrize("inertial", ["", SOLID])
def test_robots_whose_moving_links_have_no_mass(tmp_path, inertial):
    pytest.importorskip("pinocchio")
    path = tmp_path / "bare.urdf"
    path.write_text(BARE.format(inertial=inertial))
    found = compare_with_oracle(path)
    assert found.agrees, found.lines()


def test_the_first_of_two_inertias_counts(tmp_path):
    """As in pinocchio, and in PyBullet."""
    pytest.importorskip("pinocchio")
    second = SOLID.replace('value="2"', 'value="9"').replace('ixx="1"', 'ixx="1.5"')
    text = BARE.format(inertial="").replace('<link name="c"/>', f'<link name="c">{SOLID}{second}</link>')
    path = tmp_path / "twice.urdf"
    path.write_text(text)
    found = compare_with_oracle(path)
    assert found.agrees, found.lines()
    assert any("two <inertial> elements; the first one is used" in remark for remark in found.remarks)
