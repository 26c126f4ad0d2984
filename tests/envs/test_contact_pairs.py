"""Contacts between patterns against what a box on the ground must feel."""

import numpy as np
import pytest
from sensor_bench import BOX_MASS, Bench, G, put_state, still

from newtonsim import envs
from newtonsim.errors import NewtonsimError
from newtonsim.solvers import XPBDSolver

FRICTION = 0.5


class Pushed(Bench):
    """The bench's box on ground of known friction."""

    name = "Pushed"

    def finish_scene(self, scene):
        scene.shape_material_mu[:] = [FRICTION] * len(scene.shape_material_mu)
        scene.set_ground_plane(mu=FRICTION)


def pushed(num_envs: int = 2, **mounted) -> envs.BatchedEnv:
    task = Pushed()
    task.mounted = mounted
    env = envs.BatchedEnv(task, num_envs, "cpu", threads=2)
    env.reset(seed=0)
    return env


def push(env: envs.BatchedEnv, force: float) -> None:
    """A force along x on the box of world 1, in the plane of the ground: it does not tilt."""
    torque = np.cross([0.0, 0.0, -0.1], [force, 0.0, 0.0])
    wrench = np.zeros((env.model.body_count, 6), np.float32)
    wrench[2] = [*torque, force, 0.0, 0.0]
    env.sim.state.body_f.assign(wrench)


@pytest.mark.parametrize(("force", "friction"), [(0.0, 0.0), (20.0, 20.0), (80.0, FRICTION * BOX_MASS * G)])
def test_weight_and_friction_of_a_box(force: float, friction: float):
    """Below the largest friction the ground holds what pushes, above it that; both patterns see it."""
    env = pushed(box=envs.ContactPairs([("box", "*ground*"), ("*ground*", "box"), ("box", "arm")]))
    np.testing.assert_array_equal(env.sensor("box"), 0.0)
    still(env, 30)
    push(env, force)
    still(env, 3)
    on_box, on_ground, on_arm = env.sensor("box")[1].reshape(3, 13)
    np.testing.assert_allclose(on_box[:3], [0.0, 0.0, BOX_MASS * G], atol=0.1)
    np.testing.assert_allclose(on_box[3:6], [-friction, 0.0, 0.0], atol=0.2)
    # push and friction act 0.1 m below the centre of mass, and weight turns back what they turn
    middle = env.sim.state.body_q.numpy()[2, 0]
    centre = middle - 0.1 * (force - friction) / (BOX_MASS * G)
    np.testing.assert_allclose(on_box[6:8], [centre, 0.0], atol=4e-3)
    assert abs(on_box[8]) < 1e-3
    np.testing.assert_allclose(on_box[9:12], [0.0, 0.0, 1.0], atol=1e-6)
    assert on_box[12] == 4.0
    np.testing.assert_allclose(on_ground[:6], -on_box[:6], atol=1e-5)
    np.testing.assert_allclose(on_ground[9:12], [0.0, 0.0, -1.0], atol=1e-6)
    np.testing.assert_array_equal(on_arm, 0.0)
    # the other world is not pushed
    np.testing.assert_allclose(env.sensor("box")[0, 3:6], 0.0, atol=1e-2)
    put_state(env, [0.0, 0.0, 5.0, 0.0, 0.0, 0.0, 1.0, 0.0], [0.0] * 7)
    still(env)
    np.testing.assert_array_equal(env.sensor("box"), 0.0)


class Swept(Pushed):
    name = "Swept"

    def make_solver(self, model):
        return XPBDSolver(model)


def test_wrong_pairs_are_refused():
    with pytest.raises(
        NewtonsimError, match=r"sensor 'a': 'hand\*' matches no bodies or shapes; there are 'box', 'arm'"
    ):
        pushed(a=envs.ContactPairs([("hand*", "box")]))
    with pytest.raises(NewtonsimError, match="expected pairs of patterns"):
        pushed(a=envs.ContactPairs([]))
    task = Swept()
    task.mounted = {"a": envs.ContactPairs([("box", "arm")])}
    with pytest.raises(NewtonsimError, match="it reads contact forces of pairs, which XPBDSolver does not"):
        envs.BatchedEnv(task, 1, "cpu")
