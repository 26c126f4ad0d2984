"""The robots that we ship, on the ground, from varied starts."""

from pathlib import Path

import numpy as np

import newtonsim
from newtonsim.scene.enums import JointType
from newtonsim.testing import random_coordinates, random_quaternion

ASSETS = Path(newtonsim.__file__).parent.parent / "examples" / "assets"


def load_robot(name: str) -> newtonsim.ModelBuilder:
    """Import `name`.xml with its own masses, free where the file says so, and without ground."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    newtonsim.utils.parse_mjcf(str(ASSETS / f"{name}.xml"), builder, floating=None)
    return builder


def varied_starts(model, worlds: int, seed: int, *, height: float = 0.8) -> tuple[np.ndarray, np.ndarray]:
    """Draw coordinates (worlds, ...) of equal worlds: random angles, speeds and orientations in the air.

    World 0 starts upright in its default pose; the others are turned at random.
    """
    joint_q, joint_qd = random_coordinates(model, seed, angle=0.5, speed=0.5)
    rng = np.random.default_rng(seed)
    starts, kinds = model.joint_q_start.numpy(), model.joint_type.numpy()
    for joint in np.flatnonzero(kinds == JointType.FREE):
        pose = joint_q[starts[joint] : starts[joint + 1]]
        pose[:3] = 0.0, 0.0, height
        pose[3:] = random_quaternion(rng)
    joint_q, joint_qd = joint_q.reshape(worlds, -1), joint_qd.reshape(worlds, -1)
    joint_q[0], joint_qd[0] = model.joint_q.numpy().reshape(worlds, -1)[0], 0.0
    return joint_q, joint_qd
