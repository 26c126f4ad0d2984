"""Bodies to which a file gives no mass: what moves is told of, and refused by strict imports."""

import math
import warnings

import mujoco
import numpy as np
import pinocchio
import pytest

import newtonsim
from newtonsim import dynamics
from newtonsim.errors import DefaultsWarning
from newtonsim.fidelity import compare_with_oracle
from newtonsim.importers import parse_mjcf, parse_sdf, parse_urdf, parse_usd

HEAVY = (
    '<inertial><mass value="{mass}"/><inertia ixx=".02" iyy=".03" izz=".04" ixy="0" ixz="0" iyz="0"/>{end}'
)
BALL = '<collision><geometry><sphere radius="0.1"/></geometry></collision>'
WATER = 1000.0 * 4.0 / 3.0 * math.pi * 0.1**3


def link(name: str, mass: float = 0.0, more: str = "") -> str:
    inertial = HEAVY.format(mass=mass, end="</inertial>") if mass else ""
    return f'<link name="{name}">{inertial}{more}</link>\n'


def joint(kind: str, parent: str, child: str, axis: str = "0 1 0") -> str:
    return (
        f'<joint name="to_{child}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>'
        f'<origin xyz="0.1 0.2 0.3"/><axis xyz="{axis}"/><limit effort="100" velocity="100"/></joint>\n'
    )


def robot(*parts: str) -> str:
    return f'<robot name="r">\n{"".join(parts)}</robot>'


FRAMES = robot(
    link("base_link"),
    link("arm", 2.0),
    link("tool0"),
    link("tip"),
    joint("continuous", "base_link", "arm"),
    joint("fixed", "arm", "tool0"),
    joint("fixed", "tool0", "tip"),
)
STATUE = robot(link("foot", more=BALL), link("statue", more=BALL), joint("fixed", "foot", "statue"))
BALLS = robot(
    link("base"),
    link("upper", more=BALL),
    link("lower", more=BALL),
    link("hand", 1.0),
    link("finger"),
    joint("continuous", "base", "upper"),
    joint("continuous", "upper", "lower"),
    joint("fixed", "lower", "hand"),
    joint("continuous", "hand", "finger"),
)
CARDAN = robot(
    link("base", 3.0),
    link("pitch"),
    link("roll"),
    link("arm", 2.0),
    joint("continuous", "base", "pitch", "0 1 0"),
    joint("continuous", "pitch", "roll", "1 0 0"),
    joint("continuous", "roll", "arm", "0 0.6 0.8"),
)
EMPTY_HAND = robot(
    link("base", 3.0),
    link("arm", 2.0),
    link("finger"),
    link("nail"),
    joint("continuous", "base", "arm"),
    joint("prismatic", "arm", "finger"),
    joint("fixed", "finger", "nail"),
)


def read(parse, text: str, **options):
    """Builder, report and the texts of warnings of a file."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = parse(text, builder, **options)
    return builder, found, [str(one.message) for one in told]


@pytest.mark.parametrize("text", [FRAMES, STATUE])
@pytest.mark.parametrize("options", [{}, {"ignore_inertial_definitions": False}])
def test_frames_and_what_stands_still_need_no_mass(text, options):
    _, report, told = read(parse_urdf, text, strict=True, **options)
    assert told == []
    assert report.assumed_masses == {}


@pytest.mark.parametrize("options", [{}, {"ignore_inertial_definitions": False}])
def test_one_warning_names_all_links_that_move_without_a_mass_of_the_file(options):
    builder, report, told = read(parse_urdf, BALLS, **options)
    assert len(told) == 1
    assert "3 moving links have no mass in the file" in told[0]
    assert f"'upper' {WATER:.4g} kg, 'lower' {WATER:.4g} kg, from shapes of 1000 kg/m^3" in told[0]
    assert "'finger' 0.01 kg, by `static_link_mass`" in told[0]
    assert list(report.assumed_masses) == ["upper", "lower", "finger"]
    for name, (mass, _) in report.assumed_masses.items():
        assert builder.body_mass[report.bodies[name]] == pytest.approx(mass)
    with pytest.raises(
        newtonsim.ImportFileError, match=r"^line 3: <link name='upper'>: no <inertial>.*2 more"
    ):
        read(parse_urdf, BALLS, strict=True, **options)


def test_the_warning_points_at_the_caller():
    with pytest.warns(DefaultsWarning) as told:
        parse_urdf(BALLS, newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0)))
    assert told[0].filename == __file__


def test_a_link_that_stands_still_moves_if_it_floats():
    _, _, told = read(parse_urdf, STATUE, floating=True)
    assert len(told) == 1
    assert "2 moving links" in told[0]


def test_many_links_are_counted():
    parts = [link(f"l{n}") for n in range(30)] + [
        joint("continuous", f"l{n}", f"l{n + 1}") for n in range(29)
    ]
    _, report, told = read(parse_urdf, robot(*parts))
    assert len(told) == 1
    assert "29 moving links" in told[0]
    assert "'l8'" in told[0]
    assert "21 more" in told[0]
    assert "'l9'" not in told[0]
    assert len(report.assumed_masses) == 29


TURNING_HAND = EMPTY_HAND.replace("prismatic", "continuous")


@pytest.mark.parametrize("text", [CARDAN, EMPTY_HAND, TURNING_HAND], ids=["cardan", "sliding", "turning"])
def test_dynamics_without_mass_between_joints_are_those_of_pinocchio(text, tmp_path):
    """Next to nothing is in the way of a singular matrix; a robot's own numbers do not show it."""
    path = tmp_path / "robot.urdf"
    path.write_text(text)
    found = compare_with_oracle(path)
    assert found.agrees, found.lines()
    assert {item.name for item in found.items} > {"M(q)", "bias forces", "masses of bodies"}
    assert not pinocchio.buildModelFromXML(text).inertias[2].mass


def test_what_carries_mass_is_reported_and_accepted_and_what_does_not_is_refused():
    as_it_stands = {"ignore_inertial_definitions": False, "ensure_nonstatic_links": False}
    builder, report, told = read(parse_urdf, CARDAN, strict=True, **as_it_stands)
    assert told == []
    assert report.assumed_masses == {}
    remarks = {entry.element: (entry.line, entry.message) for entry in report.of_kind("approximated")}
    assert remarks.keys() == {"link name='pitch'", "link name='roll'"}
    assert remarks["link name='roll'"][0] == 4
    assert "moves without mass" in remarks["link name='roll'"][1]
    builder.finalize("cpu")
    _, report, told = read(parse_urdf, EMPTY_HAND, **as_it_stands)
    assert len(told) == 1
    assert list(report.assumed_masses) == ["finger"]
    with pytest.raises(
        newtonsim.ImportFileError, match=r"^line 4: <link name='finger'>: .*all that it carries"
    ):
        read(parse_urdf, EMPTY_HAND, strict=True, **as_it_stands)


def test_massless_links_move_under_the_solver():
    """A pendulum on two massless gimbals keeps its energy, but for an error of first order in the step."""
    as_it_stands = {"ignore_inertial_definitions": False, "ensure_nonstatic_links": False}
    builder, _, _ = read(parse_urdf, CARDAN, **as_it_stands, stiffness=0.0, damping=0.0)
    model, lost = builder.finalize("cpu"), []
    for rate in (2000, 4000):
        simulator = newtonsim.Simulator(model, newtonsim.solvers.FeatherstoneSolver(model), dt=1.0 / rate)
        start = dynamics.potential_energy(model, simulator.state).numpy()[0]
        simulator.step(rate // 4)
        kinetic = dynamics.kinetic_energy(model, simulator.state).numpy()[0]
        end = kinetic + dynamics.potential_energy(model, simulator.state).numpy()[0]
        lost.append(abs(float(start - end)) / float(kinetic))
    assert kinetic > 0.5
    assert lost[0] < 5e-3
    assert lost[1] == pytest.approx(0.5 * lost[0], rel=0.1)


MASSLESS = """<mujoco><worldbody><body name="a"><joint axis="0 1 0"/>{inside}
<body name="b" pos="0 0 1"/></body></worldbody></mujoco>"""


def test_densities_of_formats_are_no_assumptions():
    """MJCF has 1000 kg/m^3 for geoms, SDF 1 kg for links, UsdPhysics 1000 kg/m^3 for colliders."""
    _, report, told = read(parse_mjcf, MASSLESS.format(inside='<geom size="0.1"/>'), strict=True)
    assert told == []
    assert report.assumed_masses == {}
    sdf = '<sdf version="1.9"><model name="m"><link name="a"/></model></sdf>'
    _, report, told = read(parse_sdf, sdf, strict=True)
    assert told == []
    assert report.assumed_masses == {}


def test_a_density_of_usd_is_no_assumption(tmp_path):
    path = tmp_path / "ball.usda"
    path.write_text("""#usda 1.0
(
    metersPerUnit = 1
)
def Sphere "ball" ( prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsCollisionAPI"] )
{
    double radius = 0.1
}""")
    builder, found, told = read(parse_usd, str(path), strict=True)
    assert told == []
    assert found["report"].assumed_masses == {}
    assert builder.body_mass[0] == pytest.approx(WATER, rel=1e-6)


def test_a_body_of_mjcf_that_moves_without_mass_is_told_of_and_refused_as_by_mujoco():
    text = MASSLESS.format(inside="")
    with pytest.raises(ValueError, match="mass and inertia of moving bodies"):
        mujoco.MjModel.from_xml_string(text)
    builder, report, told = read(parse_mjcf, text)
    assert len(told) == 1
    assert "2 moving bodies" in told[0]
    assert list(report.assumed_masses) == ["a", "b"]
    assert builder.body_mass[0] == pytest.approx(0.01)
    with pytest.raises(newtonsim.ImportFileError, match=r"^line 1: <body name='a'>: the body has no mass"):
        read(parse_mjcf, text, strict=True)


def test_a_link_of_sdf_that_moves_without_mass_is_told_of():
    text = """<sdf version="1.9"><model name="m">
    <link name="a"><inertial><mass>0</mass></inertial></link></model></sdf>"""
    _, report, told = read(parse_sdf, text)
    assert len(told) == 1
    assert list(report.assumed_masses) == ["a"]
    with pytest.raises(newtonsim.ImportFileError, match=r"^line 2: <link name='a'>: the body has no mass"):
        read(parse_sdf, text, strict=True)


NOISE = """<robot name="r"><link name="b"/>
<link name="a"><inertial><mass value="0.5"/><inertia ixx="4.89e-21" iyy="3.55e-20" izz="5.45e-20" ixy="{off}"
 ixz="0" iyz="0"/></inertial></link>
<joint name="j" type="continuous"><parent link="b"/><child link="a"/></joint></robot>"""


@pytest.mark.parametrize("off", ["0", "3e-20"], ids=["A + B < C", "negative"])
def test_rounding_of_zero_is_no_impossible_inertia(off):
    """Half a kilogram a hundred-millionth of a micrometre wide is a point whose file has rounding in it."""
    text = NOISE.format(off=off)
    builder, report, told = read(parse_urdf, text, ignore_inertial_definitions=False, strict=True)
    assert told == []
    assert [entry.message for entry in report.entries if "singular" in entry.message]
    with warnings.catch_warnings():
        warnings.simplefilter("error", newtonsim.InertiaWarning)
        builder.finalize("cpu")
        other = newtonsim.ModelBuilder()
        other.add_body(mass=0.5, I_m=np.diag([4.89e-21, 3.55e-20, 5.45e-20]))
        other.finalize("cpu")


def test_a_mass_at_a_point_beside_the_axis_of_a_small_link_is_not_seen_in_its_inertia(tmp_path):
    """As the flange of a wrist, whose inertia about its axis is 4e-6 kg m^2 in all."""
    point = '<inertial><mass value="0.3"/></inertial>'
    text = robot(
        link("base", 3.0),
        '<link name="wrist"><inertial><mass value="0.02"/><inertia ixx="4e-6" iyy="4e-6" izz="4e-6" ixy="0" '
        'ixz="0" iyz="0"/></inertial></link>\n',
        f'<link name="sensor">{point}</link>\n',
        joint("continuous", "base", "wrist"),
        '<joint name="f" type="fixed"><parent link="wrist"/><child link="sensor"/></joint>\n',
    )
    path = tmp_path / "wrist.urdf"
    path.write_text(text)
    assert compare_with_oracle(path).agrees
