"""Pictures as observations: where things are in them, the order of frames, ends of episodes, independence."""

import math

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.utils.env_checker import check_env

from newtonsim import envs
from newtonsim.envs.tasks import CartPoleVision
from newtonsim.errors import NewtonsimError

SMALL = {"screen_size": 32, "samples": 1}


def cartpole(num_envs: int = 4, **options) -> envs.BatchedEnv:
    return envs.make("CartPoleVision", num_envs, device="cpu", **options)


def pushes(steps: int, num_envs: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 2, (steps, num_envs))


def projected(point: np.ndarray, eye: tuple[float, float, float], size: int, fov: float = 45.0) -> np.ndarray:
    """Column and row of a point for a camera that looks along y with z up."""
    focal = 0.5 * size / math.tan(0.5 * math.radians(fov))
    right, ahead, up = point - np.array(eye)
    return 0.5 * size + focal * np.array([right, -up]) / ahead


def pixels_of(mask: np.ndarray) -> np.ndarray:
    """Column and row of the centres of pixels, (n, 2)."""
    return np.argwhere(mask)[:, ::-1] + 0.5


@pytest.mark.parametrize("name", ["CartPoleVision", "ReacherVision"])
def test_gymnasium_finds_no_fault(name: str):
    env = gymnasium.make(f"newtonsim/{name}-v0", device="cpu", render_mode="rgb_array")
    check_env(env.unwrapped)
    assert env.observation_space == gymnasium.spaces.Box(0, 255, (84, 84, 4), np.uint8)
    assert env.reset(seed=0)[0] in env.observation_space
    assert env.render().shape == (240, 320, 3)


def test_cart_and_pole_are_where_they_are():
    """Without resets the carts leave to both sides and the poles fall; seen within a pixel of 84."""
    size, eye = 84, (0.0, -6.5, 2.0)
    env = cartpole(2, grayscale_obs=False, stack_size=1, autoreset_mode="Disabled")
    env.reset(seed=0)
    places, whole = [], 0
    for _ in range(12):
        for _ in range(3):
            obs = env.step(np.array([0, 1]))[0].astype(int)
        for w, picture in enumerate(obs):
            poses = env.sim.state.body_q.numpy().reshape(2, -1, 7)[w]
            cart, pole = poses[-2, :3], poses[-1]
            x, y, z, u = pole[3:]
            upwards = np.array([2 * (x * z + u * y), 2 * (y * z - u * x), 1 - 2 * (x * x + y * y)])
            seen = pixels_of(picture.max(axis=2) < 60).mean(axis=0)
            np.testing.assert_allclose(seen, projected(cart, eye, size), atol=1.0)
            seen = pixels_of(picture[..., 0] > picture[..., 2] + 20)
            foot, tip = (projected(pole[:3] + s * upwards, eye, size) for s in (0.0, 1.0))
            along = (tip - foot) / np.linalg.norm(tip - foot)
            sideways, upto = (seen - foot) @ [along[1], -along[0]], (seen - tip) @ along
            # half of the pole, 0.8 pixels, and half a pixel
            assert np.abs(sideways).max() < 1.3
            assert abs(sideways.mean()) < 0.5
            assert upto.max() < 0.5
            if 1.0 < tip[0] < size - 1.0:
                assert upto.max() > -1.5
                whole += 1
            places.append(cart[0])
    assert whole > 12
    assert min(places) < -1.5
    assert max(places) > 1.5


def test_camera_on_the_cart_sees_the_cart_at_rest():
    class Riding(CartPoleVision):
        def camera_sensor(self):
            return envs.CameraSensor(
                (0.0, -2.0, 0.0), (0.0, 0.0, 0.0), body="cart", grayscale_obs=False, stack_size=1
            )

    env = envs.BatchedEnv(Riding(), 2, "cpu", autoreset_mode="Disabled")
    first = env.reset(seed=0)[0]
    for _ in range(20):
        obs = env.step(np.array([0, 1]))[0]
    assert np.abs(env.sim.state.joint_q.numpy()[::2]).min() > 0.3
    dark = first.max(axis=3) < 60
    assert dark.sum() > 400
    np.testing.assert_array_equal(obs[dark], first[dark])
    assert not np.array_equal(obs, first)  # the poles fall


def test_frames_are_stacked_as_gymnasium_does():
    """Across the end of an episode; gymnasium's wrapper starts an episode with copies of its first frame."""
    name, actions = "newtonsim/CartPoleVision-v0", pushes(40, 1)[:, 0]
    ours = gymnasium.make(name, device="cpu", stack_size=3, **SMALL)
    single = gymnasium.make(name, device="cpu", stack_size=1, **SMALL)
    theirs = gymnasium.wrappers.FrameStackObservation(single, 3)
    seen = [(ours.reset(seed=4)[0], theirs.reset(seed=4)[0])]
    ends = 0
    for action in actions:
        obs, _, over, _, _ = ours.step(action)
        seen.append((obs, theirs.step(action)[0]))
        if over:
            seen.append((ours.reset()[0], theirs.reset()[0]))
            ends += 1
    assert ends
    for obs, expected in seen:
        np.testing.assert_array_equal(np.moveaxis(obs, -1, 0), expected[..., 0])
    assert any(not np.array_equal(obs[..., 0], obs[..., 2]) for obs, _ in seen)


def test_pixels_are_mean_luminances_of_rays():
    """Against NumPy, of a colour picture with a pixel for each ray."""
    grey = envs.make("ReacherVision", 2, device="cpu", screen_size=(40, 24), samples=2, stack_size=1)
    fine = envs.make(
        "ReacherVision",
        2,
        device="cpu",
        screen_size=(80, 48),
        samples=1,
        stack_size=1,
        grayscale_obs=False,
    )
    obs, rays = grey.reset(seed=1)[0], fine.reset(seed=1)[0]
    assert obs.shape == (2, 24, 40, 1)
    luma = rays @ np.array([0.299, 0.587, 0.114])
    expected = luma.reshape(2, 24, 2, 40, 2).mean(axis=(2, 4))
    assert np.abs(obs[..., 0] - expected).max() < 0.5 + 1e-4
    assert len(np.unique(obs)) > 20


@pytest.mark.parametrize("mode", ["SameStep", "NextStep"])
def test_end_of_an_episode(mode: str):
    """Against an environment whose worlds are reset by hand."""
    env, manual = cartpole(6, autoreset_mode=mode, **SMALL), cartpole(6, autoreset_mode="Disabled", **SMALL)
    env.reset(seed=1)
    manual.reset(seed=1)
    waiting, ends = np.zeros(6, bool), 0
    for action in pushes(45, 6):
        obs, _, over, _, infos = env.step(action)
        expected, _, over_by_hand, _, _ = manual.step(action)
        if mode == "NextStep" and waiting.any():
            expected = manual.reset(options={"reset_mask": waiting})[0]
            over_by_hand = over_by_hand & ~waiting
        np.testing.assert_array_equal(over, over_by_hand)
        waiting = over
        if over.any():
            np.testing.assert_array_equal(infos["final_obs"][over], expected[over])
            assert infos["final_obs"].dtype == np.uint8
            ends += over.sum()
        if mode == "SameStep" and over.any():
            expected = manual.reset(options={"reset_mask": over})[0]
            assert not np.array_equal(expected[over], infos["final_obs"][over])
            np.testing.assert_array_equal(obs[over][..., :1], obs[over][..., 3:])
        np.testing.assert_array_equal(obs, expected)
    assert ends > 3


def test_same_seed_same_pictures_whatever_the_threads_and_other_worlds():
    actions = pushes(12, 12)
    runs = []
    for num_envs, threads in ((12, 1), (12, 2), (3, 1)):
        env = cartpole(num_envs, threads=threads)
        seen = [env.reset(seed=5)[0]] + [env.step(action[:num_envs])[0] for action in actions]
        runs.append(np.stack(seen))
    np.testing.assert_array_equal(runs[0], runs[1])
    np.testing.assert_array_equal(runs[0][:, :3], runs[2])
    assert not np.array_equal(runs[0][:, 0], runs[0][:, 1])


def test_resetting_one_world_changes_no_other():
    plain, disturbed = cartpole(5, **SMALL), cartpole(5, **SMALL)
    plain.reset(seed=1)
    disturbed.reset(seed=1)
    others = np.arange(5) != 2
    for k, action in enumerate(pushes(6, 5)):
        expected, obs = plain.step(action)[0], disturbed.step(action)[0]
        np.testing.assert_array_equal(obs[others], expected[others])
        if k == 3:
            fresh = disturbed.reset(options={"reset_mask": ~others})[0]
            np.testing.assert_array_equal(fresh[others], expected[others])
            assert np.ptp(fresh[2].astype(int), axis=-1).max() == 0


def test_broken_world_is_blank_and_alone():
    env, plain = cartpole(3, **SMALL), cartpole(3, **SMALL)
    env.reset(seed=1)
    plain.reset(seed=1)
    env.sim.state.joint_q.numpy()[2] = np.nan
    obs, _, over, _, infos = env.step(np.zeros(3, int))
    np.testing.assert_array_equal(infos["failed"], [False, True, False])
    expected = plain.step(np.zeros(3, int))[0]
    np.testing.assert_array_equal(over, [False, True, False])
    assert not infos["final_obs"][1].any()
    np.testing.assert_array_equal(obs[[0, 2]], expected[[0, 2]])
    assert np.ptp(obs[1].astype(int), axis=-1).max() == 0
    assert obs[1].any()


def test_torch_sees_the_memory_of_the_environment():
    env, numpy_env = cartpole(3, output="torch", **SMALL), cartpole(3, **SMALL)
    first = env.reset(seed=2)[0]
    assert first.dtype == torch.uint8
    assert first.data_ptr() == env.buffers.observations.ptr
    expected = numpy_env.reset(seed=2)[0]
    np.testing.assert_array_equal(first.numpy(), expected)
    for action in pushes(30, 3):
        obs, *_, infos = env.step(torch.from_numpy(action))
        expected, *_, numpy_infos = numpy_env.step(action)
        np.testing.assert_array_equal(obs.numpy(), expected)
        if "final_obs" in numpy_infos:
            ended = infos["_final_obs"].numpy()
            np.testing.assert_array_equal(infos["final_obs"].numpy()[ended], numpy_infos["final_obs"][ended])
    assert obs.data_ptr() == first.data_ptr()


def test_stage_on_the_host_with_pictures():
    class Even(CartPoleVision):
        def score(self, view: envs.HostView) -> None:
            view.reward[:] = view.obs[:, 0]
            view.terminated[:] = np.abs(view.obs[:, 2]) > math.radians(12.0)

    env, plain = envs.BatchedEnv(Even(**SMALL), 3, "cpu"), cartpole(3, **SMALL)
    np.testing.assert_array_equal(env.reset(seed=3)[0], plain.reset(seed=3)[0])
    for action in pushes(30, 3):
        np.testing.assert_array_equal(env.step(action)[0], plain.step(action)[0])


@pytest.mark.parametrize(
    "options",
    [
        {"screen_size": 0},
        {"screen_size": (84, 84, 3)},
        {"stack_size": 0},
        {"samples": 1.5},
        {"grayscale_obs": "yes"},
    ],
)
def test_wrong_options_are_named(options: dict):
    with pytest.raises(NewtonsimError, match=next(iter(options))):
        cartpole(1, **options)


def test_wrong_cameras_are_named():
    with pytest.raises(NewtonsimError, match="fov"):
        envs.CameraSensor((0.0, 0.0, 1.0), (0.0, 0.0, 0.0), fov=180.0)
    with pytest.raises(NewtonsimError, match="eye"):
        envs.CameraSensor((0.0, math.nan, 1.0), (0.0, 0.0, 0.0))
