"""The figures of a run: worlds that went non-finite are named, and spoil no other figure."""

import numpy as np
import pytest

from newtonsim.cli import report as cli_report
from newtonsim.cli import run
from newtonsim.cli import scene as cli_scene
from newtonsim.cli.arguments import build_parser
from newtonsim.cli.main import main
from newtonsim.examples import asset_path
from newtonsim.kinematics import eval_fk
from newtonsim.scene.enums import GeoType

WORLDS = 4
HOME_HEIGHT = 0.3166  # trunk above the ground with the feet on it [m]


@pytest.fixture
def scene():
    robot = cli_scene.load_robot(asset_path("quadruped.xml"))
    model = cli_scene.build_scene(robot, WORLDS, "cpu")
    state = model.state()
    cli_scene.vary_start(model, state, seed=0)
    return robot, model, state


def figures_of(robot, model) -> cli_report.Figures:
    arguments = build_parser().parse_args(["run", "--envs", str(WORLDS)])
    return run._plan(robot, model, arguments)


def home_of(model) -> cli_report.Home:
    state = model.state()
    eval_fk(model, state.joint_q, state.joint_qd, None, state)
    return cli_report.Home.of(model, state)


def test_home_is_measured_from_the_ground(scene):
    home = home_of(scene[1])
    assert home.height == pytest.approx(HOME_HEIGHT, abs=1e-3)
    np.testing.assert_allclose(home.up, [0, 0, 1], atol=1e-6)


def test_a_lost_world_is_named_and_left_out(scene):
    robot, model, state = scene
    home = home_of(model)
    clean, spoilt = figures_of(robot, model), figures_of(robot, model)
    cli_report.judge(model, state, home, clean)
    for name, width in (("joint_q", 19), ("joint_qd", 18), ("body_q", 13), ("body_qd", 13)):
        array = getattr(state, name)
        values = array.numpy().copy()
        values[2 * width] = np.nan
        array.assign(values)
    cli_report.judge(model, state, home, spoilt)
    assert clean.non_finite_worlds == []
    assert spoilt.non_finite_worlds == [2]
    assert (clean.upright, spoilt.upright) == (4, 3)
    assert spoilt.base_height_min >= clean.base_height_min
    assert spoilt.potential_energy == pytest.approx(clean.potential_energy, rel=0.1)
    assert "2" in cli_report.table(spoilt).splitlines()[-1]


def test_lying_and_moving_robots_are_not_counted(scene):
    robot, model, state = scene
    home = home_of(model)
    body_q, body_qd = state.body_q.numpy().copy(), state.body_qd.numpy().copy()
    trunk = np.arange(WORLDS) * 13
    body_q[trunk[0], 3:] = [1, 0, 0, 0]  # on its back
    body_q[trunk[1], 2] = 0.1  # on its belly
    body_qd[trunk[2] + 5, 5] = 0.2  # a leg moves
    state.body_q.assign(body_q)
    state.body_qd.assign(body_qd)
    figures = figures_of(robot, model)
    cli_report.judge(model, state, home, figures)
    assert (figures.upright, figures.standing, figures.at_rest) == (3, 2, 3)


def test_exit_status_tells_of_a_lost_world(capsys, monkeypatch):
    def lose(model, state, home, figures):
        figures.non_finite_worlds = [1]

    monkeypatch.setattr(run, "judge", lose)
    assert main(["run", "--envs", "2", "--seconds", "0.01", "--device", "cpu"]) == 1
    assert "non-finite worlds" in capsys.readouterr().out


FIXED = "<mujoco><worldbody>{floor}<body pos='0 0 {z}'><joint type='hinge'/>" + (
    "<geom type='capsule' size='.05' fromto='0 0 0 0 0 -1'/></body></worldbody></mujoco>"
)
FLOOR = "<geom type='plane' size='0 0 1'/>"


@pytest.mark.parametrize(
    ("floor", "z", "planes"),
    [("", 2.0, 1), ("", 0.5, 0), (FLOOR, 2.0, 1)],
    ids=["above the ground", "reaches below it", "brings its own"],
)
def test_ground_is_added_where_it_belongs(tmp_path, floor, z, planes):
    path = tmp_path / "pendulum.xml"
    path.write_text(FIXED.format(floor=floor, z=z))
    model = cli_scene.build_scene(cli_scene.load_robot(path), 1, "cpu")
    assert sum(model.shape_geo.type.numpy() == GeoType.PLANE) == planes


@pytest.mark.parametrize("offset", [0.0, HOME_HEIGHT, 2.0 * HOME_HEIGHT])
def test_standing_whatever_the_sign_of_the_home_height(scene, offset):
    """The origin of the base is inside the robot, at its feet, or below them."""
    robot, model, state = scene
    home = home_of(model)
    body_q = model.state().body_q.numpy()
    body_q[:: len(body_q) // WORLDS, 2] = home.height - offset
    body_q[0, 2] -= 0.3  # the first one has sunk in
    state.body_q.assign(body_q)
    figures = figures_of(robot, model)
    cli_report.judge(model, state, cli_report.Home(home.height - offset, home.up), figures)
    assert figures.standing == WORLDS - 1
