"""Motion clips made by formulas: a humanoid (file format of DeepMimic, Peng et al. 2018) and a Laikago."""

# ruff: noqa: TID253

from __future__ import annotations

import json

import numpy as np
from scipy.spatial.transform import Rotation

HUMANOID = ("chest", "neck", "right_hip", "right_knee", "right_ankle", "right_shoulder", "right_elbow",
            "left_hip", "left_knee", "left_ankle", "left_shoulder", "left_elbow")  # fmt: skip
"""Joints in the order of a frame: knees and elbows one angle, the others a quaternion w, x, y, z."""


def _frame(duration: float, place: tuple, root: float, angles: dict[str, float]) -> list[float]:
    """Return a frame; angles [rad] turn about z, to the right of the walker (x forward, y up)."""
    values = [duration, *place]
    values += np.roll(Rotation.from_euler("z", root).as_quat(), 1).tolist()
    for joint in HUMANOID:
        angle = angles.get(joint, 0.0)
        if joint.endswith(("knee", "elbow")):
            values.append(angle)
        else:
            values += np.roll(Rotation.from_euler("z", angle).as_quat(), 1).tolist()
    return [round(value, 6) + 0.0 for value in values]


def _clip(frames: list[list[float]], loop: str) -> str:
    rows = ",\n".join(json.dumps(frame) for frame in frames)
    return f'{{\n"Loop": "{loop}",\n"Frames":\n[\n{rows}\n]\n}}\n'


def gait(period: float, speed: float, swing: float, bend: float, height: float) -> str:
    """Return a cycle of walking or running."""
    frames = []
    for phase in np.linspace(0, 2 * np.pi, 31):
        angles = {}
        for side, shift in (("right", 0.0), ("left", np.pi)):
            angles[f"{side}_hip"] = swing * np.sin(phase + shift) + bend / 4
            angles[f"{side}_knee"] = -bend * (0.6 + 0.5 * np.cos(phase + shift))
            angles[f"{side}_ankle"] = 0.1 * np.sin(phase + shift)
            angles[f"{side}_shoulder"] = -swing * np.sin(phase + shift)
            angles[f"{side}_elbow"] = 0.3 + bend / 2
        place = (speed * period * phase / (2 * np.pi), height + 0.02 * np.cos(2 * phase), 0.0)
        frames.append(_frame(period / 30, place, 0.0, angles))
    return _clip(frames, "wrap")


def leap(turns: float, crouch: float, rise: float) -> str:
    """Return a crouch, a jump with so many turns backwards, and a landing."""
    frames, air, dt = [], 2 * np.sqrt(2 * rise / 9.81), 1 / 30
    ground = 0.5
    for time in np.arange(0.0, 2 * ground + air, dt):
        flight = np.clip((time - ground) / air, 0, 1)
        squat = np.sin(np.pi * time / ground) ** 2 if time < ground else 0.0
        if time > ground + air:
            squat = np.sin(np.pi * min((time - ground - air) / ground, 1.0)) ** 2
        tuck = np.sin(np.pi * flight) if turns else 0.3 * np.sin(np.pi * flight)
        fold = crouch * max(squat, tuck)
        height = 0.86 - 0.28 * crouch * squat / 1.2 + 4 * rise * flight * (1 - flight)
        leg = {"hip": fold, "knee": -1.6 * fold, "ankle": 0.5 * squat}
        arm = {"shoulder": 2 * fold - squat, "elbow": 0.4}
        angles = {f"{side}_{joint}": v for side in ("right", "left") for joint, v in (leg | arm).items()}
        angles["chest"] = -0.3 * fold
        frames.append(_frame(dt, (0.0, height, 0.0), 2 * np.pi * turns * flight, angles))
    return _clip(frames, "none")


ARGUMENTS = """--scene imitate

--num_update_substeps 10
--num_sim_substeps 2
--world_scale 4

--terrain_file data/terrain/plane.txt

--char_types general
--character_files data/characters/humanoid3d.txt
--enable_char_soft_contact false
--fall_contact_bodies 0 1 2 3 4 6 7 8 9 10 12 13 14

--char_ctrls ct_pd
--char_ctrl_files data/controllers/humanoid3d_ctrl.txt
--motion_file data/motions/humanoid3d_{clip}.txt
--sync_char_root_pos true
--sync_char_root_rot false
"""
"""Options that DeepMimicEnv reads; the clip is filled in."""


def laikago_steps(rows: int) -> str:
    """Return rows of number, time in ms and twelve joint angles: a trot on the spot of the Laikago."""
    lines = []
    for row in range(rows):
        time = row / 500
        angles = []
        for leg in range(4):
            phase = 2 * np.pi * 1.5 * time + (np.pi if leg in (1, 2) else 0.0)
            grow = min(time, 1.0)
            angles += [0.0, 0.67 + 0.12 * grow * np.sin(phase), -1.25 + 0.2 * grow * np.cos(phase)]
        lines.append(", ".join([f"{row + 1}", f"{2 * row}", *(f"{angle:.4f}" for angle in angles)]))
    return "\n".join([*lines, ""])


def laikago_walk() -> str:
    """Return a clip of a trot: duration, position, quaternion x, y, z, w, and three angles for each leg."""
    frames = []
    for phase in np.linspace(0, 2 * np.pi, 22):
        values = [0.0625, 0.3 * phase / (2 * np.pi), 0.0, 0.45, 0.0, 0.70710678, 0.70710678, 0.0]
        for leg in range(4):
            turn = phase + (np.pi if leg in (1, 2) else 0.0)
            values += [0.0, 0.7 + 0.2 * np.sin(turn), -1.3 + 0.2 * np.cos(turn)]
        frames.append([round(float(value), 5) for value in values])
    return _clip(frames, "wrap")
