"""Environments that a stage holds many times: one is read, the others are copies of it."""

import copy
import dataclasses
from dataclasses import dataclass

import numpy as np

from newtonsim.builder import ModelBuilder
from newtonsim.errors import ImportFileError, ModelError
from newtonsim.geometry.transforms import quat_conjugate, quat_multiply
from newtonsim.importers.files.report import ImportReport
from newtonsim.importers.geometry.pose import Pose
from newtonsim.importers.usd.frames import split
from newtonsim.importers.usd.records import Content
from newtonsim.importers.usd.walk import Walker

KEYS = ("body_key", "joint_key", "shape_key", "constraint_key", "articulation_key")
"""The builder's lists of names."""


@dataclass(frozen=True, slots=True)
class Clones:
    """An environment and its siblings.

    Attributes:
        path: Path of the environment that is read.
        poses: By path of each copy, itself included, the pose relative to it in the builder's world.
    """

    path: str
    poses: dict[str, Pose]

    def holds(self, label: str) -> bool:
        """Whether a prim is part of one of the copies."""
        return any(label == path or label.startswith(path + "/") for path in self.poses)


def find_clones(walker: Walker, path: str, root_path: str) -> Clones:
    """Find the siblings of an environment: prims of the same type under the same parent.

    Raises:
        ImportFileError: There is no such prim, or a copy is not just placed elsewhere.
    """
    prim = prim_at(walker, path, "cloned_env")
    path = str(prim.GetPath())
    if not path.startswith(root_path.rstrip("/") + "/"):
        raise walker.element(prim).error(f"cloned_env lies outside root_path {root_path}")
    origin = split(walker.matrix_of(prim))
    poses = {}
    for sibling in prim.GetParent().GetChildren():
        if sibling.GetTypeName() != prim.GetTypeName():
            continue
        frame = split(walker.matrix_of(sibling))
        if frame.is_flat or frame.is_sheared or not np.allclose(frame.scale, origin.scale, rtol=1.0e-4):
            raise walker.element(sibling).error(
                f"its scale {frame.scale.tolist()} is not {origin.scale.tolist()}, as that of {path}"
            )
        poses[str(sibling.GetPath())] = _relative(frame.pose, origin.pose)
    return Clones(path, poses)


def _relative(pose: Pose, origin: Pose) -> Pose:
    """Motion of the world that takes one frame to another."""
    q = quat_multiply(pose.q, quat_conjugate(origin.q))
    turn = Pose(np.zeros(3), q)
    return Pose(pose.p - turn.apply(origin.p), q)


def prim_at(walker: Walker, path: str, argument: str) -> object:
    """Return the prim at a path that an argument names."""
    from pxr import Sdf

    if not isinstance(path, str):
        raise ModelError(f"{argument}: expected the path of a prim, got {path!r}")
    path = path.rstrip("/") or "/"
    prim = walker.view.stage.GetPrimAtPath(path) if Sdf.Path.IsValidPathString(path) else None
    if not prim or not path.startswith("/"):
        raise ImportFileError(f"{argument} {path!r} is not a prim of the stage", walker.view.path)
    return prim


def part(content: Content, is_in: object) -> Content:
    """The places for whose label `is_in` is true; all places stay known as targets of joints."""
    fields_in = {}
    for field in dataclasses.fields(content):
        values = getattr(content, field.name)
        if field.name == "places":
            fields_in[field.name] = values
        elif isinstance(values, dict):
            fields_in[field.name] = {label: value for label, value in values.items() if is_in(label)}
        else:
            fields_in[field.name] = [place for place in values if is_in(place.element.label)]
    return Content(**fields_in)


def renamed(report: ImportReport, old: str, new: str) -> ImportReport:
    """A report of a copy: the same under the names of the copy, without remarks."""

    def rename(values: dict) -> dict:
        return {new + name[len(old) :]: value for name, value in values.items()}

    return ImportReport(
        report.path,
        report.name,
        report.format,
        *(rename(getattr(report, name)) for name in ("bodies", "joints", "joint_dofs", "joint_coords")),
        constraints=rename(report.constraints),
        shapes=rename(report.shapes),
    )


def named_after(scratch: ModelBuilder, old: str, new: str) -> ModelBuilder:
    """A builder with the contents of another, whose elements are named after the prims of a copy."""
    twin = copy.copy(scratch)
    for name in KEYS:
        keys = [new + key[len(old) :] if key.startswith(old) else key for key in getattr(scratch, name)]
        setattr(twin, name, keys)
    return twin
