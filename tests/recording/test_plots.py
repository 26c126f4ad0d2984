"""Curves of recordings: energies against formulas, names and units, lines and bands."""

import numpy as np
import pytest
from recorded_scenes import robots

import newtonsim
from newtonsim.errors import RecordingError
from newtonsim.render import Recorder, Recording, plot_contact_forces, plot_energy, plot_joints
from newtonsim.render.films.plots import draw_worlds, new_figure
from newtonsim.render.films.series import contact_series, energies, joint_series
from newtonsim.solvers import FeatherstoneSolver

G, DT = 9.81, 0.01


@pytest.fixture(scope="module")
def thrown(tmp_path_factory) -> Recording:
    """Six worlds with a ball each, thrown up at (world) m/s and spinning, and a grain beside it."""
    scene = newtonsim.ModelBuilder(up_vector=(0, 0, 1), gravity=(0, 0, -G))
    for _ in range(6):
        world = newtonsim.ModelBuilder(up_vector=(0, 0, 1))
        ball = world.add_body(origin=((0, 0, 2), (0, 0, 0, 1)), com=(0.1, 0, 0), key="ball", mass=0.0)
        world.add_shape_sphere(ball, pos=(0.1, 0, 0), radius=0.1, density=1000.0)
        world.add_particle((3, 0, 1), (0, 1, 0), 0.5)
        scene.add_builder(world)
    model = scene.finalize("cpu")
    path = tmp_path_factory.mktemp("plots") / "thrown.nsr"
    state, spin = model.state(), np.array([0.3, 0.4, 1.2])
    turn = np.array([0.0, 0.0, np.sin(0.3), np.cos(0.3)])
    with Recorder(path, model) as recorder:
        for frame in range(101):
            t, up = frame * DT, np.arange(6.0)
            pose = np.zeros((6, 7), np.float32)
            pose[:, 3:] = turn
            com = np.array([0.1 * np.cos(0.6), 0.1 * np.sin(0.6), 0.0])
            pose[:, :3] = np.outer(2 + up * t - 0.5 * G * t**2, [0, 0, 1]) - com
            state.body_q.assign(pose)
            velocity = np.concatenate([np.tile(spin, (6, 1)), np.outer(up - G * t, [0, 0, 1])], axis=1)
            state.body_qd.assign(velocity.astype(np.float32))
            recorder.record(state, t)
    return Recording.open(path, "cpu")


@pytest.fixture(scope="module")
def standing(tmp_path_factory) -> Recording:
    model = robots("ant.xml", "ant.xml").finalize("cpu")
    solver = FeatherstoneSolver(model)
    simulator = newtonsim.Simulator(model, solver, 1 / 240)
    path = tmp_path_factory.mktemp("plots") / "standing.nsr"
    with Recorder(path, model, solver=solver) as recorder:
        for _ in range(40):
            simulator.step(12)
            recorder.record(simulator.state, simulator.time)
    return Recording.open(path, "cpu")


def test_energies_are_those_of_the_formulas(thrown: Recording):
    kinetic, potential, total = energies(thrown, worlds=[1, 4])
    mass, t = 1000.0 * 4 / 3 * np.pi * 1e-3, thrown.times[:, None]
    inertia = 0.4 * mass * 0.01
    speed = np.array([1.0, 4.0])
    grain = 0.5 * 0.5 * 1.0
    moving = 0.5 * mass * (speed - G * t) ** 2 + 0.5 * inertia * (0.09 + 0.16 + 1.44) + grain
    high = mass * G * (2 + speed * t - 0.5 * G * t**2) + 0.5 * G * 1.0
    np.testing.assert_allclose(kinetic.values, moving, rtol=2e-6)
    np.testing.assert_allclose(potential.values, high, rtol=2e-6, atol=1e-4)
    np.testing.assert_allclose(total.values, total.values[:1] * np.ones_like(t), rtol=1e-5)
    assert [part.label for part in (kinetic, potential, total)] == ["energy [J]"] * 3


def test_few_worlds_are_lines_and_many_are_bands(thrown: Recording, tmp_path):
    few = plot_energy(thrown, worlds=[0, 1], path=tmp_path / "a.png").axes[0]
    assert (len(few.lines), len(few.collections)) == (6, 0)
    assert (few.get_xlabel(), few.get_ylabel()) == ("time [s]", "energy [J]")
    assert [text.get_text() for text in few.get_legend().get_texts()] == ["kinetic", "potential", "total"]
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    many = plot_energy(thrown).axes[0]
    assert (len(many.lines), len(many.collections)) == (3, 6)
    kinetic = energies(thrown)[0].values
    np.testing.assert_allclose(many.lines[0].get_ydata(), np.median(kinetic, axis=1))
    band = many.collections[0].get_paths()[0].vertices[:, 1]
    assert band.max() == pytest.approx(kinetic.max())


def test_bands_are_of_the_worlds_that_are_left():
    values = np.arange(60.0).reshape(6, 10)
    values[2:, :4] = np.nan
    values[4:] = np.inf
    axes = new_figure((1.0, 1.0)).subplots()
    draw_worlds(axes, np.arange(6.0), values, "red")
    np.testing.assert_array_equal(axes.lines[0].get_ydata(), [4.5, 14.5, 26.5, 36.5, np.nan, np.nan])


def test_joints_have_names_and_units(standing: Recording):
    hips = [key for key in standing.model.joint_key[:9] if "hip" in key][:2]
    figure = plot_joints(standing, joints=hips)
    assert [axes.get_title() for axes in figure.axes[:2]] == hips
    assert figure.axes[0].get_ylabel() == "position [rad]"
    place = standing.model.joint_q_start.numpy()[list(standing.model.joint_key).index(hips[0])]
    np.testing.assert_array_equal(figure.axes[0].lines[0].get_ydata(), standing.series("joint_q")[:, place])
    speeds = {part.name: part.label for part in joint_series(standing, velocities=True)}
    assert speeds[hips[0]] == "velocity [rad/s]"
    root = standing.model.joint_key[0]
    assert speeds[f"{root} velocity x"] == "velocity [m/s]"
    positions = {part.name: part.label for part in joint_series(standing)}
    assert positions[f"{root} z"] == "position [m]"
    assert positions[f"{root} quaternion w"] == "position"


def test_contact_forces_bear_the_weight(standing: Recording, tmp_path):
    figure = plot_contact_forces(standing, path=tmp_path / "forces.pdf")
    assert figure.axes[0].get_title() == "all bodies, upwards"
    assert figure.axes[0].get_ylabel() == "contact force [N]"
    weight = standing.model.body_mass.numpy().sum() / 2 * 9.81
    np.testing.assert_allclose(contact_series(standing)[0].values[-1], weight, rtol=0.02)
    assert (tmp_path / "forces.pdf").read_bytes().startswith(b"%PDF")


def test_what_is_not_there_is_named(thrown: Recording, standing: Recording, tmp_path):
    with pytest.raises(RecordingError, match="no contact forces; record with"):
        plot_contact_forces(thrown)
    with pytest.raises(RecordingError, match="no joint 'hop'"):
        plot_joints(standing, joints=["hop"])
    builder = robots("humanoid.xml")
    builder.joint_key[-1] = "left_elbow_with_a_name_as_long_as_those_of_the_files_of_others"
    humanoid = builder.finalize("cpu")
    with Recorder(tmp_path / "humanoid.nsr", humanoid) as recorder:
        recorder.record(humanoid.state(), 0.0)
    recording = Recording.open(tmp_path / "humanoid.nsr", "cpu")
    with pytest.raises(RecordingError, match="no joint 'right_hip_x'; did you mean an axis of 'right_hip_x_"):
        plot_joints(recording, joints=["right_hip_x"])
    figure = plot_joints(recording, joints=["right_knee", humanoid.joint_key[-1]])
    figure.draw_without_rendering()
    for panel in figure.axes:
        assert panel.title.get_window_extent().width < panel.bbox.width
    with pytest.raises(RecordingError, match="no body 'leg'"):
        plot_contact_forces(standing, bodies=["leg"])
    model = robots("ant.xml", "hopper.xml").finalize("cpu")
    Recorder(tmp_path / "empty.nsr", model).close()
    with pytest.raises(RecordingError, match="has no frames"):
        plot_energy(Recording.open(tmp_path / "empty.nsr", "cpu"))
    with Recorder(tmp_path / "mixed.nsr", model) as recorder:
        recorder.record(model.state(), 0.0)
    with pytest.raises(RecordingError, match="worlds 0 and 1 have different joints"):
        plot_joints(Recording.open(tmp_path / "mixed.nsr", "cpu"))
