"""A robot file as it comes back from MJCF, URDF and USD: what is compared, and how far apart it is."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from engines.export_readers import InMujoco, InPinocchio, InUsd, NotPlacedError, faults_of
from engines.import_facts import UNLIMITED
from newtonsim.builder import ModelBuilder
from newtonsim.errors import NewtonsimError, UnsupportedElementWarning
from newtonsim.fidelity.comparison import joint_space_inertia
from newtonsim.geometry.transforms import quat_conjugate, quat_multiply
from newtonsim.importers import parse_mjcf, parse_urdf
from newtonsim.testing import random_state
from newtonsim.utils import export_mjcf, export_urdf, export_usd

STATES = 3
TOLERANCES = {"mass": 1.0e-5, "M(q)": 1.0e-4, "frames": 1.0e-4, "limits": 1.0e-5, "settings": 1.0e-5}
"""Largest differences; those of lengths and angles in m and rad, those of masses and settings relative."""

LEAST = 1.0e-3
"""Settings that are smaller than this in their unit differ by so much relative to it."""

FORMATS: dict[str, tuple[str, Callable, Callable]] = {
    "mjcf": (".xml", export_mjcf, InMujoco),
    "urdf": (".urdf", export_urdf, InPinocchio),
    "usd": (".usda", export_usd, InUsd),
}


@dataclass
class Export:
    """A file as it comes back in one format.

    Attributes:
        format: "mjcf", "urdf" or "usd".
        error: Why it was not written, "" if it was.
        refused: Why the engine of the format does not read it, "" if it does.
        unplaced: Why it could not be compared, "" if it could.
        items: Largest differences by name, each with its place.
        remarks: What the writer left out or approximates.
        faults: What OpenUSD's validators say of it, None where they are not asked.
    """

    format: str
    error: str = ""
    refused: str = ""
    unplaced: str = ""
    items: dict[str, tuple[float, str]] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    faults: list[str] | None = None


def read(kind: str, path: Path) -> Any:
    """Read a file as it stands."""
    builder = ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    common = {"ignore_inertial_definitions": False, "ensure_nonstatic_links": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnsupportedElementWarning)
        if kind == "mjcf":
            parse_mjcf(path, builder, floating=None, mujoco_defaults=True, **common)
        else:
            parse_urdf(path, builder, density=0.0, floating=False, **common)
    return builder.finalize("cpu")


def write_all(kind: str, path: Path, folder: Path) -> list[Export]:
    """Write a file in all formats into a folder, and compare what engines make of it."""
    model = read(kind, path)
    return [write(model, name, folder) for name in FORMATS]


def write(model: Any, name: str, folder: Path) -> Export:
    """Write a model in one format into a folder, and compare what its engine reads."""
    suffix, export, engine = FORMATS[name]
    found = Export(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnsupportedElementWarning)
        try:
            written = export(model, folder / f"out{suffix}")
        except NewtonsimError as error:
            found.error = str(error)
            return found
        entries = [entry for entry in written.entries if entry.kind != "ignored"]
        found.remarks = [f"{entry.element}: {entry.message}" for entry in entries]
        found.faults = faults_of(written.path) if name == "usd" else None
        try:
            oracle = engine(model, written)
        except (ValueError, NewtonsimError) as error:
            found.refused = str(error)
            return found
    try:
        found.items = compare(model, oracle, armature=name != "urdf")
    except NotPlacedError as error:
        found.unplaced = str(error)
    return found


def compare(model: Any, oracle: Any, armature: bool) -> dict[str, tuple[float, str]]:
    """Largest difference of each item, with its place, between a model and what an engine read."""
    mass = float(model.body_mass.numpy().sum()) if model.body_count else 0.0
    items = {"mass": (abs(oracle.mass() - mass) / max(mass, 1.0e-6), f"{oracle.mass():.6g} for {mass:.6g}")}
    items |= {"limits": _limits(model, oracle), "settings": _settings(oracle)}
    if not model.joint_dof_count:
        return items
    worst = {"M(q)": (0.0, ""), "frames": (0.0, "")}
    for seed in range(STATES):
        state = random_state(model, seed)
        q, poses = (array.numpy().astype(np.float64) for array in (state.joint_q, state.body_q))
        M, bodies = oracle.place(state, q, poses)
        worst["M(q)"] = max(
            worst["M(q)"], _inertia_error(model, M, joint_space_inertia(model, state, armature))
        )
        worst["frames"] = max(worst["frames"], _frame_error(model, poses, bodies))
    return items | worst


def _limits(model: Any, oracle: Any) -> tuple[float, str]:
    if not model.joint_axis_count:
        return 0.0, ""
    low, high = (getattr(model, f"joint_limit_{end}").numpy().astype(float) for end in ("lower", "upper"))
    theirs, worst = oracle.limits(), (0.0, "")
    axes = oracle.axes() if isinstance(oracle, InUsd) else oracle.pairs.axes()
    for name, axis, *_ in axes:
        if name not in theirs:
            return np.inf, f"{name} is missing"
        for mine, other in zip((low[axis], high[axis]), theirs[name], strict=True):
            if abs(mine) > UNLIMITED and abs(other) > UNLIMITED:
                continue
            error = abs(mine - other) / max(1.0, abs(mine))
            worst = max(worst, (error, f"{name}, {other:.6g} for {mine:.6g}"))
    return worst


def _settings(oracle: Any) -> tuple[float, str]:
    worst = (0.0, "")
    for name, mine, other in oracle.settings():
        if not (abs(mine) > UNLIMITED and abs(other) > UNLIMITED):
            error = abs(mine - other) / max(abs(mine), LEAST)
            worst = max(worst, (error, f"{name}, {other:.6g} for {mine:.6g}"))
    return worst


def _inertia_error(model: Any, theirs: np.ndarray, ours: np.ndarray) -> tuple[float, str]:
    """Largest difference of entries, each degree of freedom scaled to unit inertia, and its joint."""
    diagonal = np.maximum(np.diag(ours), 1.0e-9 * np.diag(ours).max())
    off = np.abs(theirs - ours) / np.sqrt(np.outer(diagonal, diagonal))
    place = int(np.nan_to_num(off, nan=np.inf).max(axis=0).argmax())
    joint = int(np.searchsorted(model.joint_qd_start.numpy(), place, side="right")) - 1
    worst = float(np.nan_to_num(off, nan=np.inf).max())
    return worst, model.joint_key[joint]


def _frame_error(model: Any, poses: np.ndarray, bodies: dict[int, np.ndarray]) -> tuple[float, str]:
    worst = (0.0, "")
    for body, pose in bodies.items():
        away = np.linalg.norm(pose[:3] - poses[body, :3]) / max(1.0, np.linalg.norm(poses[body, :3]))
        turn = quat_multiply(pose[3:], quat_conjugate(poses[body, 3:]))
        angle = 2.0 * np.arctan2(np.linalg.norm(turn[:3]), abs(turn[3]))
        worst = max(worst, (float(max(away, angle)), model.body_key[body]))
    return worst
