"""A recording holds its model: the same arrays, the same motion, and some of the worlds if so wished."""

import numpy as np
import pytest
import warp as wp
from recorded_scenes import everything, robots

import newtonsim
from newtonsim.render import Recorder, Recording
from newtonsim.scene.columns import Column
from newtonsim.scene.model import ContactRules
from newtonsim.solvers import FeatherstoneSolver

# Numbers of groups only say which shapes are in the same one.
NAMES_OF_GROUPS = ("shape_collision_group", "group")


def plain(value):
    """What arrays, structs and lists hold."""
    if isinstance(value, wp.array):
        return value.numpy()
    if (struct := getattr(value, "_cls", None)) is not None:
        return {name: plain(getattr(value, name)) for name in struct.vars if name != "source"}
    if isinstance(value, ContactRules):
        return {name: part for name, part in vars(value).items() if name not in NAMES_OF_GROUPS}
    if isinstance(value, (newtonsim.Mesh, newtonsim.Heightfield, newtonsim.SDF)):
        return {name: plain(part) for name, part in vars(value).items() if not name.startswith("_")}
    if isinstance(value, (list, tuple, Column)):
        return [plain(item) for item in value]
    return value


def check_same(found: newtonsim.Model, expected: newtonsim.Model) -> None:
    left_out = {
        "device",
        "revision",
        "_kept",
        "_cached",
        "_contact_buffers",
        "_ground_plane",
        "requires_grad",
        "shape_geo_src",
        *NAMES_OF_GROUPS,
    }
    for name in vars(newtonsim.Model("cpu")).keys() - left_out:
        np.testing.assert_equal(plain(getattr(found, name)), plain(getattr(expected, name)), err_msg=name)
    for one, other in zip(found.shape_geo_src, expected.shape_geo_src, strict=True):
        assert type(one) is type(other)
        if one is not None:
            np.testing.assert_array_equal(one.bounds(), other.bounds())
            assert getattr(one, "mass", 0.0) == getattr(other, "mass", 0.0)


def recorded(model: newtonsim.Model, path, **options) -> Recording:
    with Recorder(path, model, **options) as recorder:
        recorder.record(model.state(), 0.0)
    return Recording.open(path, model.device)


def test_the_model_is_as_it_was(device, tmp_path):
    model = everything(0, 1).finalize(device)
    found = recorded(model, tmp_path / "a.nsr").model
    check_same(found, model)
    np.testing.assert_array_equal(found.shape_collision_group, model.shape_collision_group)
    assert found.shape_geo_src[-2] is not None


@pytest.mark.parametrize("world", [0, 1])
def test_one_world_is_like_a_model_of_it_alone(world: int, device, tmp_path):
    recording = recorded(everything(0, 1).finalize(device), tmp_path / "a.nsr", worlds=[world])
    assert recording.worlds.tolist() == [world]
    check_same(recording.model, everything(world).finalize(device))


def test_worlds_keep_their_own_gravity(device, tmp_path):
    model = everything(0, 1, 2).finalize(device)
    gravity = np.array([[0.0, 0.0, -9.81], [0.0, 0.0, -1.0], [1.0, 0.0, -2.0]])
    model.gravity = gravity
    found = recorded(model, tmp_path / "a.nsr").model
    np.testing.assert_allclose(found.gravity, gravity, rtol=1e-6)
    some = recorded(model, tmp_path / "b.nsr", worlds=[0, 2]).model
    np.testing.assert_allclose(some.gravity, gravity[[0, 2]], rtol=1e-6)
    np.testing.assert_allclose(some.gravity_vec.numpy(), gravity[[0, 2]], rtol=1e-6)


def test_two_worlds_of_three(device, tmp_path):
    recording = recorded(everything(0, 1, 0).finalize(device), tmp_path / "a.nsr", worlds=(2, 1))
    check_same(recording.model, everything(1, 0).finalize(device))


def test_a_recorded_world_goes_on_as_the_simulation_did(device, tmp_path):
    model = robots("ant.xml", "quadruped.xml").finalize(device)
    simulator = newtonsim.Simulator(model, FeatherstoneSolver(model), 1 / 240)
    simulator.step(30)
    with Recorder(tmp_path / "a.nsr", model, worlds=[1]) as recorder:
        recorder.record(simulator.state, simulator.time)
    recording = Recording.open(tmp_path / "a.nsr", device)
    again = newtonsim.Simulator(recording.model, FeatherstoneSolver(recording.model), 1 / 240)
    recording.load(0, again.state)
    mine = slice(*model.world_coord_start[1:3])
    # Warm starts are no part of the state: both begin without.
    simulator.solver.reset(simulator.state)
    for _ in range(20):
        simulator.step()
        again.step()
        np.testing.assert_array_equal(again.state.joint_q.numpy(), simulator.state.joint_q.numpy()[mine])


def test_textures_come_along(device, tmp_path):
    image = tmp_path / "wood.png"
    image.write_bytes(b"pixels")
    builder = everything(0)
    builder.shape_texture[0] = str(image)
    recording = recorded(builder.finalize(device), tmp_path / "a.nsr")
    image.unlink()
    with open(recording.model.shape_texture[0], "rb") as file:
        assert file.read() == b"pixels"


def test_worlds_that_are_not_there_are_refused(tmp_path):
    model = everything(0, 1).finalize("cpu")
    for worlds in ([2], [-1], [], [0.5], [True]):
        with pytest.raises(newtonsim.ModelError, match="worlds: expected numbers from 0 to 1"):
            Recorder(tmp_path / "a.nsr", model, worlds=worlds)
    assert not (tmp_path / "a.nsr").exists()


def test_what_cannot_be_kept_is_named(tmp_path):
    builder = everything(0)
    builder.solver_hint["callback"] = print
    with pytest.raises(newtonsim.errors.RecordingError, match="builtin_function_or_method"):
        Recorder(tmp_path / "a.nsr", builder.finalize("cpu"))
