"""What formats leave to their reader: values that all shapes or all axes share become its arguments."""

from collections.abc import Iterable

from newtonsim.importers.writers.records import AxisRecord, Scene
from newtonsim.importers.writers.report import ExportReport

CONTACT = ("ke", "kd", "kf", "ka", "restitution")
LIMIT = ("limit_ke", "limit_kd")


def shared(elements: Iterable[tuple[str, float]], what: str, report: ExportReport) -> float | None:
    """Return the value that most elements have, None without elements; the others are reported.

    Args:
        elements: Name and value of each.
        what: What the value is, for the remark.
        report: Receives the remark.
    """
    groups: dict[float, list[str]] = {}
    for name, value in elements:
        groups.setdefault(value, []).append(name)
    if not groups:
        return None
    common = max(groups, key=lambda value: len(groups[value]))
    for value, names in groups.items():
        if value != common:
            for name in names:
                report.approximated(name, f"{what} is left to the reader, which uses {common:g} for all")
    return common


def contact_settings(scene: Scene, report: ExportReport, names: tuple[str, ...] = CONTACT) -> None:
    """Put the contact settings that the format has no place for into `report.read_with`."""
    colliders = [shape for shape in scene.shapes if shape.is_collider]
    for name in names:
        value = shared(((shape.key, shape.material[name]) for shape in colliders), name, report)
        if value is not None:
            report.read_with[f"contact_{name}"] = value


def limit_settings(axes: list[tuple[str, AxisRecord]], report: ExportReport) -> None:
    """Likewise for the stiffness and damping of joint limits."""
    for name in LIMIT:
        limited = ((key, getattr(axis, name)) for key, axis in axes if axis.limits is not None)
        value = shared(limited, name, report)
        if value is not None:
            report.read_with[name] = value


def report_references(scene: Scene, report: ExportReport) -> None:
    """Report parameters of rows by reference, which URDF does not hold."""
    for joint in scene.joints:
        if any(axis.limit_solref.any() for axis in joint.axes):
            report.approximated(joint.key, "solref, solimp and margin of its limits are left out")
        if joint.friction_solref.any() and joint.friction.any():
            report.approximated(joint.key, "solref and solimp of its dry friction are left out")
    for constraint in scene.constraints:
        if constraint.solref.any():
            report.approximated(constraint.key, "solref and solimp are left out")
    for shape in scene.shapes:
        if shape.solref.any() or shape.material["priority"] or shape.material["condim"]:
            report.approximated(shape.key, "solref, solimp, priority and condim are left out")


def report_tendons(scene: Scene, report: ExportReport) -> None:
    """Report what only MJCF holds: tendons, actuators that are no drives, and contact parameters of pairs."""
    if scene.tendons:
        report.unsupported(f"{len(scene.tendons)} tendons", "tendons are left out")
    if scene.actuators:
        count = len(scene.actuators)
        report.unsupported(f"{count} actuators", "actuators that are no drives are left out")
    if scene.contact_pairs:
        count = len(scene.contact_pairs)
        report.approximated(f"{count} pairs of shapes", "their own contact parameters are left out")


def report_lost(scene: Scene, report: ExportReport) -> None:
    """Report what no robot format holds, and what all formats hold differently."""
    for kind, count in scene.lost.items():
        report.unsupported(f"{count} of kind {kind}", "particles, soft bodies and muscles are left out")
    for joint in scene.joints:
        if any(joint.compliance):
            report.approximated(joint.key, "the compliance of joints is left out")
    for constraint in scene.constraints:
        if any(constraint.compliance):
            report.approximated(constraint.key, "the compliance of constraints is left out")
