"""``newtonsim info`` prints what the file says."""

import mujoco
import pytest

from newtonsim.cli.main import main
from newtonsim.examples import asset_path
from newtonsim.fidelity import compare_with_oracle

PENDULUM = """
<robot name="crane">
  <link name="mast"/>
  <joint name="boom_lift" type="revolute">
    <parent link="mast"/><child link="boom"/>
    <origin xyz="0 0 2"/><axis xyz="0 1 0"/>
    <limit lower="-0.5" upper="1.25" effort="800" velocity="1"/>
  </joint>
  <link name="boom">
    <inertial>
      <origin xyz="1 0 0"/><mass value="12.5"/>
      <inertia ixx="0.1" iyy="4" izz="4" ixy="0" ixz="0" iyz="0"/>
    </inertial>
    <collision><origin xyz="1 0 0"/><geometry><box size="2 0.25 0.125"/></geometry></collision>
  </link>
  <joint name="hoist" type="prismatic">
    <parent link="boom"/><child link="hook"/>
    <origin xyz="2 0 0"/><axis xyz="0 0 -1"/>
    <limit lower="0" upper="1.5" effort="500" velocity="1"/>
  </joint>
  <link name="hook">
    <inertial>
      <mass value="3"/><inertia ixx="0.01" iyy="0.01" izz="0.01" ixy="0" ixz="0" iyz="0"/>
    </inertial>
    <collision><geometry><sphere radius="0.08"/></geometry></collision>
  </link>
</robot>
"""


def lines_of(capsys: pytest.CaptureFixture, *arguments: str) -> list[str]:
    assert main(["info", *arguments]) == 0
    return capsys.readouterr().out.splitlines()


def find(lines: list[str], *words: str) -> int:
    """Return the number of the one line that holds all words."""
    found = [i for i, line in enumerate(lines) if all(word in line for word in words)]
    assert len(found) == 1, (words, lines)
    return found[0]


def test_tree_of_a_urdf_file(capsys, tmp_path):
    path = tmp_path / "crane.urdf"
    path.write_text(PENDULUM)
    lines = lines_of(capsys, str(path))
    assert lines[0].startswith("crane: URDF")
    boom = find(lines, "* boom:", "12.5 kg", "box 2 x 0.25 x 0.125")
    lift = find(lines, "boom_lift", "revolute", "about (0 1 0)", "-0.5 to 1.25 rad", "800 N m")
    hook = find(lines, "* hook:", "3 kg", "sphere r 0.08")
    find(lines, "hoist", "prismatic", "along (0 0 -1)", "0 to 1.5 m", "500 N")
    assert lift < boom < hook
    indent = [len(lines[i]) - len(lines[i].lstrip()) for i in (boom, hook)]
    assert indent[0] < indent[1]


def test_base_decides_the_root_joint(capsys, tmp_path):
    path = tmp_path / "crane.urdf"
    path.write_text(PENDULUM)
    assert not any(": free" in line for line in lines_of(capsys, str(path)))
    assert sum(": free" in line for line in lines_of(capsys, str(path), "--base", "free")) == 1


def test_quadruped(capsys):
    lines = lines_of(capsys, str(asset_path("quadruped.xml")))
    assert "13 bodies, 13 joints, 18 dofs" in lines[0]
    assert "16 kg" in lines[0]
    find(lines, "fl_knee", "revolute", "-2.6 to -0.5 rad", "position drive 60 N m/rad, 2 N m s/rad", "45 N m")
    find(lines, "rr_thigh:", "1.1 kg", "capsule r 0.026 l 0.21")
    find(lines, "fl_shank:", "capsule r 0.014 l 0.185", ", sphere r 0.024")
    find(lines, "keyframes: home")


ARM_WITH_MUSCLES = """<mujoco><worldbody>
<site name="shoulder" pos="0 0 .1"/>
<body name="upper"><joint name="lift" axis="0 1 0" range="0 60"/><joint name="swing" axis="0 0 1"/>
  <geom name="bone" type="capsule" fromto="0 0 0 .3 0 0" size=".02"/><site name="inside" pos=".15 0 .03"/>
  <body name="lower" pos=".3 0 0"><joint name="elbow" axis="0 1 0"/>
    <geom name="pad" size=".03" density="0"/><geom type="capsule" fromto="0 0 0 .3 0 0" size=".02"/>
    <site name="wrist" pos=".3 0 0"/></body></body></worldbody>
<tendon>
  <spatial name="biceps"><site site="shoulder"/><site site="inside"/><geom geom="pad"/><site site="wrist"/>
  </spatial>
  <spatial name="rope" limited="true" range="0 .7" stiffness="30"><site site="shoulder"/><site site="wrist"/>
  </spatial>
  <fixed name="pair" stiffness="2"><joint joint="swing" coef=".5"/><joint joint="elbow" coef="-2"/></fixed>
</tendon>
<actuator>
  <muscle name="flex" tendon="biceps" force="250" lengthrange=".2 .8" ctrlrange="0 1"/>
  <motor name="turn" joint="swing" ctrllimited="true" ctrlrange="-3 4"/>
  <position joint="elbow" kp="9"/>
  <motor name="thruster" site="wrist" gear="1 0 0 0 0 0" ctrllimited="true" ctrlrange="0 7"/>
</actuator></mujoco>"""


def test_tendons_and_actuators_are_listed(capsys, tmp_path):
    """All that MuJoCo counts, by the names of the file."""
    path = tmp_path / "arm.xml"
    path.write_text(ARM_WITH_MUSCLES)
    model = mujoco.MjModel.from_xml_path(str(path))
    lines = lines_of(capsys, str(path))
    assert f", {model.ntendon} tendons, {model.nu} actuators, " in lines[0]
    assert [model.tendon(i).name for i in range(model.ntendon)] == named(lines, "tendon")
    assert [model.actuator(i).name or "(unnamed)" for i in range(model.nu)] == named(lines, "actuator")
    find(lines, "tendon biceps: spatial, through 3 points, around 1 geom, muscle of 250 N")
    find(lines, "tendon rope: spatial, through 2 points, limits 0 to 0.7, spring 30 N/m")
    find(lines, "tendon pair: fixed, 0.5 swing + -2 elbow, spring 2 N/m")
    find(lines, "actuator flex: muscle on tendon biceps, control 0 to 1")
    find(lines, "actuator turn: motor on joint swing, control -3 to 4")
    assert find(lines, "actuator (unnamed): position on joint elbow")
    find(lines, "actuator thruster: motor on site wrist, control 0 to 7")


def named(lines: list[str], kind: str) -> list[str]:
    """Return the names in the lines of one kind."""
    return [line.split(":")[0].removeprefix(f"{kind} ") for line in lines if line.startswith(f"{kind} ")]


EQUALITIES = """<mujoco model="eq"><worldbody>
<body name="a"><joint name="ja" axis="0 1 0"/><geom size=".1"/>
  <body name="b" pos="0 0 1"><joint name="jb" axis="0 1 0"/><geom size=".1"/>
    <body name="e"><joint name="jc" type="slide"/><geom size=".1"/></body></body></body>
<body name="c" pos="1 0 0"><freejoint/><geom size=".1"/></body>
<body name="d" pos="2 0 0"><freejoint/><geom size=".1"/></body></worldbody>
<tendon><fixed name="t1"><joint joint="ja" coef="1"/></fixed>
  <fixed name="t2"><joint joint="jb" coef="2"/></fixed></tendon>
<equality>
  <connect name="pin" body1="b" body2="c" anchor="0 0 0"/>
  <weld name="glue" body1="c" body2="d" active="false"/>
  <joint name="gear" joint1="jb" joint2="ja" polycoef="0.1 -2 0 0.5"/>
  <joint name="held" joint1="jc" polycoef="0.3"/>
  <tendon name="pull" tendon1="t1" tendon2="t2" polycoef="0 1.5"/>
</equality></mujoco>"""


def test_equalities_are_listed(capsys, tmp_path):
    path = tmp_path / "eq.xml"
    path.write_text(EQUALITIES)
    lines = lines_of(capsys, str(path))
    assert mujoco.MjModel.from_xml_string(EQUALITIES).neq == 5
    assert "5 equalities, " in lines[0]
    assert lines[find(lines, "equality pin")].endswith("connected points of b and c")
    assert lines[find(lines, "equality glue")].endswith("weld of c and d, switched off")
    assert lines[find(lines, "equality gear")].endswith("jb = 0.1 - 2 ja + 0.5 ja^3")
    assert lines[find(lines, "equality held")].endswith("jc = 0.3")
    assert lines[find(lines, "equality pull")].endswith("stretch of tendon t1 = 1.5 t2")


def test_joints_that_follow_and_loops_are_listed(capsys, tmp_path):
    robot = tmp_path / "crane.urdf"
    mimic = '<mimic joint="boom_lift" multiplier="-0.5" offset="0.25"/><limit lower="0" upper="1.5"'
    robot.write_text(PENDULUM.replace('<limit lower="0" upper="1.5"', mimic))
    lines = lines_of(capsys, str(robot))
    assert "1 equalities, " in lines[0]
    find(lines, "hoist follows boom_lift: -0.5 q + 0.25")
    loop = tmp_path / "loop.sdf"
    joint = "<joint name='{0}' type='{1}'><parent>{2}</parent><child>{3}</child>{4}</joint>"
    turn = "<axis><xyz>0 0 1</xyz></axis>"
    loop.write_text(
        "<sdf version='1.9'><model name='m'><link name='a'/><link name='b'/><link name='c'/>"
        + joint.format("ab", "revolute", "a", "b", turn)
        + joint.format("ac", "revolute", "a", "c", turn)
        + joint.format("bc", "revolute", "b", "c", turn)
        + "</model></sdf>"
    )
    lines = lines_of(capsys, str(loop))
    find(lines, "equality ", "loop joint with 0 linear and 1 angular axes between")


def test_an_equality_that_is_missing_is_no_agreement(monkeypatch, tmp_path):
    path = tmp_path / "eq.xml"
    path.write_text(EQUALITIES)
    found = {item.name: item for item in compare_with_oracle(path, seconds=0.0).items}
    assert found["equalities"].agrees
    # as if the reader dropped the tendon's
    monkeypatch.setattr("newtonsim.importers.mjcf.build.add_equalities", lambda *arguments: None)
    found = {item.name: item for item in compare_with_oracle(path, seconds=0.0).items}
    assert found["equalities"].error == 4.0
    assert not found["equalities"].agrees


def test_an_attribute_that_is_not_modelled_leaves_what_is_inside(capsys, tmp_path):
    """`gravcomp` of a body does not make its geoms, joints and the bodies on it unmodelled."""
    path = tmp_path / "light.xml"
    path.write_text(
        """<mujoco><option density="1.2"><flag gravity="enable"/></option><worldbody>
        <body name="a" gravcomp="1"><freejoint/><geom size=".1"/>
          <body name="b"><joint/><geom size=".1"/></body></body></worldbody></mujoco>"""
    )
    lines = lines_of(capsys, str(path), "--report")
    rows = {words[0]: words[1:] for words in map(str.split, lines[2 : lines.index("")])}
    assert rows["body"] == ["2", "1", "0", "0", "1", "0", "0"]
    assert rows["geom"] == ["2", "2", "0", "0", "0", "0", "0"]
    assert rows["joint"] == rows["freejoint"] == rows["flag"] == ["1", "1", "0", "0", "0", "0", "0"]
    assert rows["option"] == ["1", "0", "0", "0", "1", "0", "0"]


def test_repaired_elements_have_a_column(capsys, tmp_path):
    path = tmp_path / "crane.urdf"
    limit = '<dynamics damping="-0.5"/><limit lower="0" upper="1.5"'
    path.write_text(PENDULUM.replace('<limit lower="0" upper="1.5"', limit))
    lines = lines_of(capsys, str(path), "--report")
    rows = {words[0]: words[1:] for words in map(str.split, lines[2 : lines.index("")])}
    assert rows["dynamics"] == ["1", "0", "0", "1", "0", "0", "0"]


def test_remarks_name_element_and_line(capsys, tmp_path):
    path = tmp_path / "rope.xml"
    path.write_text(
        "<mujoco>\n<worldbody><body name='a'><freejoint/><geom size='.1'/></body></worldbody>\n"
        "<tendon><spatial name='rope'/></tendon>\n</mujoco>"
    )
    lines = lines_of(capsys, str(path))
    find(lines, "note:", f"{path}:3", "rope")


@pytest.mark.parametrize(("mass", "free"), [("0", 0), ("0.0", 0), ("2", 1)])
def test_root_of_zero_mass_is_fixed(capsys, tmp_path, mass, free):
    inertia = "<inertia ixx='1' iyy='1' izz='1' ixy='0' ixz='0' iyz='0'/>"
    inertial = f"<inertial><mass value='{mass}'/>{inertia}</inertial>"
    path = tmp_path / "crane.urdf"
    path.write_text(PENDULUM.replace('<link name="mast"/>', f'<link name="mast">{inertial}</link>'))
    assert sum(": free" in line for line in lines_of(capsys, str(path))) == free


def test_a_mass_of_the_root_that_needs_repair_is_no_obstacle(capsys, tmp_path):
    """As for all other links: the number is used up to where it ends."""
    path = tmp_path / "root.urdf"
    path.write_text(
        PENDULUM.replace(
            '<link name="mast"/>', '<link name="mast"><inertial>\n<mass value="7 kg"/></inertial></link>'
        )
    )
    lines = lines_of(capsys, str(path))
    find(lines, "- mast_base: free")
    find(lines, "* mast: 7 kg")
    find(lines, "<mass> mended: attribute 'value' is not a finite number: '7 kg'; 7 is used")


def test_velocity_drive_shows_its_gain(capsys, tmp_path):
    path = tmp_path / "wheel.xml"
    path.write_text(
        "<mujoco><worldbody><body><joint name='axle'/><geom size='.1'/></body></worldbody>"
        "<actuator><velocity joint='axle' kv='7'/></actuator></mujoco>"
    )
    find(lines_of(capsys, str(path)), "axle", "velocity drive 7 N m s/rad")


def test_equal_remarks_are_grouped(capsys, tmp_path):
    path = tmp_path / "ropes.xml"
    ropes = "".join(f"<spatial name='rope_{i}'/>\n" for i in range(12))
    path.write_text(
        "<mujoco>\n<worldbody><body name='a'><freejoint/><geom size='.1'/></body></worldbody>\n"
        f"<tendon>\n{ropes}</tendon>\n</mujoco>"
    )
    lines = lines_of(capsys, str(path))
    find(lines, "note: 12 x <spatial>", f"({path}:4, 5, 6, 7, 8, 9, 10, 11 and 4 more)")
    assert sum("spatial" in line for line in lines) == 1


WORLD = """<sdf version="1.9"><world name="yard"><light name="sun" type="point"/>
<model name="box"><link name="body">
<collision name="shell"><geometry><box><size>1 1 1</size></box></geometry>
<surface><friction><ode><mu>0.5</mu><mu2>0.7</mu2></ode></friction></surface></collision>
</link>
<plugin name="motor" filename="motor.so"><gain>3</gain></plugin>
</model></world></sdf>
"""


def test_report_by_element(capsys, tmp_path):
    path = tmp_path / "yard.sdf"
    path.write_text(WORLD)
    lines = lines_of(capsys, str(path), "--report")
    assert lines[0] == "yard: SDF"
    assert " ".join(lines[1].split()) == (
        "element in the file modelled approximated repaired by a further call not or partly without effect"
    )
    rows = {words[0]: words[1:] for words in map(str.split, lines[2 : lines.index("")])}
    assert rows["box"] == ["1", "1", "0", "0", "0", "0", "0"]
    assert rows["ode"] == ["1", "0", "1", "0", "0", "0", "0"]
    assert rows["plugin"] == rows["gain"] == ["1", "0", "0", "0", "0", "1", "0"]
    assert rows["light"] == ["1", "0", "0", "0", "0", "0", "1"]
    find(lines, "ode", "approximated", "one coefficient of friction, 0.5")
    find(lines, "plugin", "yard.sdf:6", "plugins are not run")


def test_report_of_a_file_without_remarks(capsys, tmp_path):
    path = tmp_path / "crane.urdf"
    path.write_text(PENDULUM.replace('<link name="mast"/>', '<link name="world"/>').replace("mast", "world"))
    lines = lines_of(capsys, str(path), "--report")
    assert lines[0] == "crane: URDF"
    rows = {words[0]: words[1:] for words in map(str.split, lines[2 : lines.index("")])}
    assert rows["joint"] == ["2", "2", "0", "0", "0", "0", "0"]


def test_static_scenes_are_described(capsys, tmp_path):
    """Which have no bodies; a file with neither bodies nor shapes stays an error."""
    path = tmp_path / "stairs.xml"
    path.write_text('<mujoco><worldbody><geom type="box" size="1 2 .5"/></worldbody></mujoco>')
    lines = lines_of(capsys, str(path))
    assert lines[0].startswith(f"{path}: MJCF, 0 bodies, 0 joints, 0 dofs, 1 shapes")
    assert "static shape box 2 x 4 x 1" in lines
    assert "Everything is modelled as the file says." in lines_of(capsys, str(path), "--report")
    path.write_text("<mujoco><worldbody/></mujoco>")
    assert main(["info", str(path)]) != 0
    assert "the file has no bodies" in capsys.readouterr().err


def test_the_oracle_tells_what_is_not_modelled_also_where_all_agrees(capsys, tmp_path):
    """An actuator on a site, which the motion under a tenth of its control hardly shows."""
    path = tmp_path / "site.xml"
    path.write_text(
        """<mujoco><worldbody><body name="a"><joint axis="0 1 0"/><geom size=".1" pos=".1 0 0"/>
        <site name="s"/></body></worldbody><actuator><motor site="s" gear="0 0 0 1 0 0"/></actuator>
        </mujoco>"""
    )
    lines = lines_of(capsys, str(path), "--oracle")
    assert all(
        ", agrees" in line for line in lines[1 : lines.index("not modelled, approximated or repaired:")]
    )
    find(lines, "actuators on a site")


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (
            "",
            "time step: 0.004167 s, newtonsim's own, since the file gives none (MuJoCo would take 0.002 s);",
        ),
        ('<option timestep="0.003"/>', "time step: 0.003 s;"),
    ],
)
def test_where_the_time_step_comes_from(capsys, tmp_path, option, said):
    path = tmp_path / "ball.xml"
    path.write_text(
        f"<mujoco>{option}<worldbody><body><freejoint/><geom size='.1'/></body></worldbody></mujoco>"
    )
    assert any(line.startswith(said) for line in lines_of(capsys, str(path)))
