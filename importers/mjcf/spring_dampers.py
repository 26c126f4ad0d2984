"""Joints whose spring and damper are given by a time constant and a damping ratio."""

from __future__ import annotations

import numpy as np

from newtonsim.builder import ModelBuilder
from newtonsim.dynamics import Dynamics
from newtonsim.importers.files.report import ImportReport
from newtonsim.importers.mjcf.plan import JointPlace
from newtonsim.importers.mjcf.records import LEFT_TO_MUJOCO
from newtonsim.kinematics import reference_state


def set_spring_dampers(places: list[JointPlace], builder: ModelBuilder, report: ImportReport) -> None:
    """Set stiffness and damping of joints with `springdamper`, in a builder that holds the whole file.

    With the time constant T, the damping ratio ζ and the inertia m that a force along the joint accelerates
    in the reference pose, others free to move, they are m / (T ζ)² and 2 m / T.

    Source: MuJoCo's documentation, "XML reference", joint/springdamper; that m is one over dof_invweight0 was
    found by compiling files.
    """
    chosen = [
        (place, place.record.spring_damper, place.dof)
        for place in places
        if place.record.spring_damper is not None and place.dof is not None
    ]
    if not chosen:
        return
    trial = ModelBuilder(up_vector=builder.up_vector)
    trial.add_builder(builder)
    inertia = _inertias(trial)
    for place, (time, ratio), first in chosen:
        count = _DOFS[place.record.kind]
        m = 1.0 / float(np.mean(1.0 / inertia[first : first + count]))
        builder.joint_damping[first : first + count] = [2.0 * m / time] * count
        if place.axis is not None:
            builder.joint_stiffness[place.axis] = m / (time * ratio) ** 2
        else:
            record, stiffness = place.record, [m / (time * ratio) ** 2, 0.0, 0.0]
            report.unsupported(record.node, f"stiffness of {record.kind} joints", unless=LEFT_TO_MUJOCO)
            report.leave_to_mujoco("joint", first, {**record.mujoco, "stiffness": stiffness})


_DOFS = {"hinge": 1, "slide": 1, "ball": 3}


def _inertias(builder: ModelBuilder) -> np.ndarray:
    """Inertia that a force along each dof accelerates where all joints are 0 (joint_dof_count,)."""
    model = builder.finalize("cpu")
    blocks = Dynamics(model).mass_matrix(reference_state(model)).numpy().astype(np.float64)
    starts: np.ndarray = model.articulation_start.numpy()
    ends: np.ndarray = model.joint_qd_start.numpy()[starts]
    parts = [M[:n, :n] for M, n in zip(blocks, np.diff(ends).tolist())]
    return np.concatenate([1.0 / np.diag(np.linalg.inv(part)) for part in parts])
