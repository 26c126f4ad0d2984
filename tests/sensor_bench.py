"""A box on the ground and a driven arm, for tests of sensors and actuators of environments."""

from typing import ClassVar

import numpy as np
import warp as wp
from scipy.spatial.transform import Rotation

from newtonsim import envs
from newtonsim.kernels.envs.views import EnvView
from newtonsim.kinematics import eval_fk

G = 9.81
TILT = Rotation.from_euler("xyz", [0.4, -0.7, 1.1])
BOX_MASS, ARM, OFFSET = 8.0, 0.5, 0.3
"""Box of 0.2 m edges; mount on the arm at this radius; mount above the box's centre [m]."""
POSE = (0.0, 0.0, OFFSET, *TILT.as_quat())


@wp.kernel
def observe_readings(first: int, env: EnvView, mask: wp.array(dtype=bool)):
    w = first + wp.tid()
    if mask[w]:
        for k in range(wp.min(env.sensed.shape[1], env.obs.shape[1])):
            env.obs[w, k] = env.sensed[w, k]


@wp.kernel
def score_nothing(first: int, env: EnvView):
    w = first + wp.tid()
    env.reward[w] = 0.0
    env.terminated[w] = False


class Bench(envs.Task):
    """A free box on the ground and a driven arm that turns about the vertical."""

    name, dt, frame_skip, observation_size = "Bench", 0.002, 5, 1
    observe, score = observe_readings, score_nothing
    mounted: ClassVar[dict[str, envs.Sensor]] = {}

    def build(self, builder):
        inertia = wp.mat33(*(BOX_MASS * 0.04 / 6.0 * np.eye(3)).ravel())
        box = builder.add_body(
            origin=wp.transform((0.0, 0.0, 0.1), wp.quat_identity()), mass=BOX_MASS, I_m=inertia, key="box"
        )
        builder.add_joint_free(box, key="root")
        builder.add_shape_box(box, hx=0.1, hy=0.1, hz=0.1, density=0.0)
        arm = builder.add_body(
            mass=2.0, com=(0.2, 0.0, 0.0), I_m=wp.mat33(*(0.1 * np.eye(3)).ravel()), key="arm"
        )
        place = wp.transform((3.0, 0.0, 1.0), wp.quat_identity())
        builder.add_joint_revolute(
            -1, arm, parent_xform=place, axis=(0.0, 0.0, 1.0), armature=0.0, key="turn"
        )
        return envs.Motors(axes=[0], gears=[5.0], low=[-1.0], high=[1.0])

    def finish_scene(self, scene):
        scene.set_ground_plane()

    def sensors(self):
        return self.mounted


def bench(num_envs: int = 2, threads: int = 1, output: str = "numpy", **mounted) -> envs.BatchedEnv:
    task = Bench()
    task.mounted = mounted
    return envs.BatchedEnv(task, num_envs, "cpu", threads=threads, output=output)


def put_state(env: envs.BatchedEnv, q: np.ndarray, qd: np.ndarray) -> None:
    state, worlds = env.sim.state, env.num_envs
    state.joint_q.assign(np.tile(q, worlds).astype(np.float32))
    state.joint_qd.assign(np.tile(qd, worlds).astype(np.float32))
    eval_fk(env.model, state.joint_q, state.joint_qd, None, state)


def still(env: envs.BatchedEnv, steps: int = 1) -> None:
    for _ in range(steps):
        env.step(np.zeros((env.num_envs, 1)))
