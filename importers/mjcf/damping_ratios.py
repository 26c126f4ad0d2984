"""Servos whose damping is given as a share of the critical one.

Source: MuJoCo's documentation, "XML reference", position/dampratio: kv = 2 ζ √(kp m). That m is the inertia
which a force along the actuator's length accelerates in the reference pose, 1 / (J M⁻¹ Jᵀ), and that general
actuators whose gain is the opposite of their second bias read a positive third one as ζ, was found by
compiling files.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from newtonsim.builder import ModelBuilder
from newtonsim.dynamics import Dynamics
from newtonsim.importers.files.report import ImportReport
from newtonsim.importers.files.xml import Node
from newtonsim.importers.mjcf.muscles import tendon_jacobian
from newtonsim.importers.mjcf.plan import JointPlace
from newtonsim.importers.mjcf.records import Actuator, Scene
from newtonsim.kinematics import reference_state
from newtonsim.scene.enums import JointType


def ratio_of(node: Node) -> float:
    """Return the damping ratio of an actuator, 0 for none."""
    if node.tag in ("position", "intvelocity"):
        return float(node.float("dampratio", 0.0) or 0.0)
    if node.tag != "general" or node.text_of("gaintype", "fixed") != "fixed":
        return 0.0
    gain = [*node.floats("gainprm", default=(1.0,)), 0.0][0]
    _, stiffness, third, *_ = [*node.floats("biasprm", default=()), 0.0, 0.0, 0.0]
    is_servo = node.text_of("biastype", "none") == "affine" and gain == -stiffness and gain > 0.0
    return float(third) if is_servo and third > 0.0 else 0.0


def set_damping_ratios(
    scene: Scene, places: list[JointPlace], builder: ModelBuilder, report: ImportReport
) -> None:
    """Set the damping of servos with a damping ratio, in a builder that holds the whole file.

    Args:
        scene: Holds the actuators, and their laws, which change with it.
        places: Where the joints are.
        builder: Holds the drives of axes and tendons.
        report: Knows the tendons; receives remarks.
    """
    nodes = [node for node in scene.actuator_order if ratio_of(node) > 0.0]
    drives = {id(one.node): one for one in scene.actuators}
    if not any(id(node) in drives or id(node) in scene.laws for node in nodes):
        return
    trial = ModelBuilder(up_vector=builder.up_vector)
    trial.add_builder(builder)
    inertia = _Inertia(trial)
    by_name = {place.record.name: place for place in places if place.record.name}
    for node in nodes:
        drive, law = drives.get(id(node)), scene.laws.get(id(node))
        if drive is not None and drive.on_tendon:
            _on_tendon(drive, inertia, builder, report)
            continue
        place = by_name.get(node.text_of("joint", ""))
        if place is None or place.axis is None or place.dof is None:
            continue
        if drive is not None:
            gear, stiffness = drive.gear, -drive.bias[1]
        elif law is not None:
            gear, stiffness = law["gear"], -law["bias"][1]
        else:
            continue
        damping = 2.0 * ratio_of(node) * math.sqrt(stiffness * gear**2 * inertia.of_dof(place.dof))
        if drive is not None:
            builder.joint_target_kd[place.axis] += damping
        if law is not None and gear != 0.0:
            first, second, third = law["bias"]
            law["bias"] = (first, second, third - damping / gear**2)


def _on_tendon(drive: Actuator, inertia: _Inertia, builder: ModelBuilder, report: ImportReport) -> None:
    tendon = report.tendons.get(drive.joint)
    if tendon is None:
        return
    if any(kind in (JointType.BALL, JointType.FREE) for kind in builder.joint_type):
        report.approximated(
            drive.node, "dampratio: what ball and free joints do to the tendon is not counted"
        )
    stiffness = -drive.bias[1] * drive.gear**2
    damping = 2.0 * ratio_of(drive.node) * math.sqrt(stiffness * inertia.of_tendon(tendon))
    builder.tendon_target_kd[tendon] += damping


class _Inertia:
    """Inertias that forces accelerate where all joints are 0, others free to move.

    Args:
        builder: Is finalized.
    """

    def __init__(self, builder: ModelBuilder):
        model = builder.finalize("cpu")
        self.inverse = np.zeros((model.joint_dof_count,) * 2)
        blocks = Dynamics(model).mass_matrix(reference_state(model)).numpy().astype(np.float64)
        starts: np.ndarray = model.articulation_start.numpy()
        ends: np.ndarray = model.joint_qd_start.numpy()[starts]
        for M, (first, last) in zip(blocks, pairwise(ends.tolist())):
            self.inverse[first:last, first:last] = np.linalg.inv(M[: last - first, : last - first])
        self.jacobian = tendon_jacobian(model) if model.tendon_count else np.zeros((0, model.joint_dof_count))

    def of_dof(self, dof: int) -> float:
        """Inertia along a degree of freedom."""
        return 1.0 / float(self.inverse[dof, dof])

    def of_tendon(self, tendon: int) -> float:
        """Inertia along the length of a tendon, 0 for one that no hinge or slide moves."""
        along = self.jacobian[tendon]
        response = float(along @ self.inverse @ along)
        return 1.0 / response if response > 0.0 else 0.0
