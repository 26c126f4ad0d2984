"""A robot file as newtonsim reads it, as it stands: no mass is invented, no joint or drive added."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from newtonsim.builder import ModelBuilder
from newtonsim.errors import DefaultsWarning, NewtonsimError, UnsupportedElementWarning
from newtonsim.importers import ImportReport, parse_mjcf, parse_urdf
from newtonsim.importers.files.report import Mend
from newtonsim.importers.files.tolerant_xml import read_tolerantly
from newtonsim.importers.files.usd_names import USD_ENDINGS
from newtonsim.scene.enums import ShapeFlags

if TYPE_CHECKING:
    from newtonsim.scene.model import Model

_TOUCHES = int(ShapeFlags.COLLIDE_SHAPES) | int(ShapeFlags.COLLIDE_GROUND)


@dataclass
class Reading:
    """A file in a model of one world, whose shapes touch nothing.

    Attributes:
        path: The file.
        kind: "mjcf" or "urdf".
        model: The model, on the CPU.
        report: What the importer did.
        time_step: Time step that the file asks for [s], None if it does not.
    """

    path: str
    kind: str
    model: Model
    report: ImportReport
    time_step: float | None

    @property
    def dof_names(self) -> list[str]:
        """A name for each degree of freedom: of its joint, with its number where that has several."""
        starts = sorted((start, name) for name, start in self.report.joint_dofs.items())
        ends = [start for start, _ in starts[1:]] + [self.model.joint_dof_count]
        names = [f"dof {place}" for place in range(self.model.joint_dof_count)]
        for (start, name), end in zip(starts, ends, strict=True):
            for place in range(start, end):
                names[place] = name if end == start + 1 else f"{name} ({place - start})"
        return names


def kind_of(path: str) -> str:
    """Return "mjcf" or "urdf".

    Raises:
        NewtonsimError: The file is neither.
    """
    if path.lower().endswith(USD_ENDINGS):
        raise NewtonsimError(f"{path}: there is an oracle for MJCF and URDF, and none for USD")
    root = read_tolerantly(path, Mend(ImportReport()))[0]
    kind = {"mujoco": "mjcf", "robot": "urdf"}.get(root.tag)
    if kind is None:
        raise NewtonsimError(f"{path}: there is an oracle for MJCF and URDF, and its root is <{root.tag}>")
    return kind


def read(path: str | os.PathLike, kind: str) -> Reading:
    """Read a file.

    Raises:
        ImportFileError: The file is unusable.
    """
    builder = ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    as_it_stands = {"ignore_inertial_definitions": False, "ensure_nonstatic_links": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnsupportedElementWarning)  # the report has it all
        warnings.simplefilter("ignore", DefaultsWarning)
        if kind == "mjcf":
            options = {"floating": None, "stiffness": 0.0, "damping": 0.0, "mujoco_defaults": True}
            options["collapse_fixed_joints"] = None
            report = parse_mjcf(path, builder, **as_it_stands, **options)
        else:
            options = {"floating": False, "density": 0.0, "stiffness": 0.0, "damping": 0.0}
            report = parse_urdf(path, builder, **as_it_stands, **options)
        builder.shape_flags[:] = [int(flags) & ~_TOUCHES for flags in builder.shape_flags]
        step = builder.solver_hint.get("timestep")
        return Reading(os.fspath(path), kind, builder.finalize("cpu"), report, step)


def masses(reading: Reading) -> dict[str, tuple[float, np.ndarray, np.ndarray]]:
    """Return mass [kg], centre of mass (3,) [m] and inertia about it (3, 3) [kg m²] in the body frames.

    Of bodies that are merged the first one counts, which carries the others.
    """
    model = reading.model
    mass, com, inertia = model.body_mass.numpy(), model.body_com.numpy(), model.body_inertia.numpy()
    first: dict[int, str] = {}
    for name, body in reading.report.bodies.items():
        first.setdefault(body, name)
    return {
        name: (float(mass[body]), com[body].astype(np.float64), inertia[body].astype(np.float64))
        for body, name in first.items()
        if body >= 0
    }
