"""Constraints as equalities and tendons."""

from collections.abc import Callable
from xml.etree import ElementTree

import numpy as np

from newtonsim.importers.geometry.pose import Pose
from newtonsim.importers.writers.mjcf.geoms import pose_attributes
from newtonsim.importers.writers.names import Names, xml_name
from newtonsim.importers.writers.records import NO_LIMIT, ConstraintRecord, JointRecord, Scene
from newtonsim.importers.writers.report import ExportReport
from newtonsim.importers.writers.xml_text import element, number, numbers
from newtonsim.scene.enums import ConstraintType, JointType

_HINGE_ARM = 0.1
"""Distance [m] of the two points of its axis at which a hinge that closes a loop is held."""

_LEAST_RANGE = 1.0e-9


class ConstraintWriter:
    """Writes constraints; anchors become sites of the bodies.

    Args:
        scene: The scene.
        root: The document, which receives <equality> and <tendon>.
        body_elements: Element of each body, -1 for the world.
        joint_names: Names of the joints of MJCF by number of the joint.
        site_names: Gives names of sites.
        report: Receives names and remarks.
    """

    def __init__(
        self,
        scene: Scene,
        root: ElementTree.Element,
        body_elements: dict[int, ElementTree.Element],
        joint_names: dict[int, list[str]],
        site_names: Names,
        report: ExportReport,
    ):
        self.scene, self.root, self.bodies, self.report = scene, root, body_elements, report
        self.joint_names, self.sites, self.names = joint_names, site_names, Names(xml_name)
        self._sections: dict[str, ElementTree.Element] = {}

    def write(self) -> None:
        """Write all constraints, and the ranges of distance joints."""
        for joint in self.scene.joints:
            if joint.kind == JointType.DISTANCE:
                self._joint_distance(joint)
        writers: dict[ConstraintType, Callable[[ConstraintRecord], list[str]]] = {
            ConstraintType.LOOP: self._loop,
            ConstraintType.DISTANCE: self._distance,
            ConstraintType.COUPLING: self._coupling,
        }
        for constraint in self.scene.constraints:
            names = writers[constraint.kind](constraint)
            if names:
                self.report.constraints[constraint.index] = names
            if np.isfinite(constraint.max_force):
                self.report.approximated(constraint.key, "the largest force of a constraint is left out")

    def _section(self, tag: str) -> ElementTree.Element:
        if tag not in self._sections:
            self._sections[tag] = element(self.root, tag)
        return self._sections[tag]

    def _site(self, body: int, name: str, pose: Pose) -> str:
        name = self.sites.unique(name)
        element(self.bodies[body], "site", {"name": name, **pose_attributes(pose)})
        return name

    def _ends(self, constraint: ConstraintRecord, offset: np.ndarray, name: str) -> dict[str, str]:
        """Sites at the anchors, moved by an offset in the anchor frames."""
        shift = Pose(offset, Pose.identity().q)
        first = self._site(constraint.parent, f"{name}_parent", constraint.X_p @ shift)
        second = self._site(constraint.child, f"{name}_child", constraint.X_c @ shift)
        return {"site1": first, "site2": second}

    def _common(self, constraint: ConstraintRecord) -> dict[str, str]:
        attributes = {} if constraint.enabled else {"active": "false"}
        if constraint.solref.any():
            attributes |= {"solref": numbers(constraint.solref), "solimp": numbers(constraint.solimp)}
        elif constraint.recovery_time > 0.0:
            attributes["solref"] = numbers([constraint.recovery_time, 1.0])
        return attributes

    def _loop(self, constraint: ConstraintRecord) -> list[str]:
        free = (len(constraint.linear), len(constraint.angular))
        name = self.names.unique(constraint.key)
        if free == (0, 1):
            self.report.approximated(name, "a hinge that closes a loop is held at two points of its axis")
            if np.abs(constraint.limits).min() < NO_LIMIT:
                self.report.approximated(name, "limits of a hinge that closes a loop are left out")
            arm = _HINGE_ARM * constraint.angular[0]
            return [self._connect("connect", constraint, at, name) for at in (np.zeros(3), arm)]
        if free == (0, 0):
            return [self._connect("weld", constraint, np.zeros(3), name)]
        if free == (0, 3):
            return [self._connect("connect", constraint, np.zeros(3), name)]
        self.report.unsupported(name, f"a loop with (linear, angular) free axes {free}")
        return []

    def _connect(self, tag: str, constraint: ConstraintRecord, offset: np.ndarray, name: str) -> str:
        if offset.any():
            name = self.names.unique(f"{name}_axis")
        ends = self._ends(constraint, offset, name)
        attributes = {"name": name, **ends, **self._common(constraint)}
        if tag == "weld" and constraint.torque_scale != 1.0:
            attributes["torquescale"] = number(constraint.torque_scale)
        element(self._section("equality"), tag, attributes)
        return name

    def _coupling(self, constraint: ConstraintRecord) -> list[str]:
        name = self.names.unique(constraint.key)
        attributes = {"name": name}
        for number_, place in enumerate(constraint.coupled, start=1):
            if place is not None:
                attributes[f"joint{number_}"] = self.joint_names[place[0]][place[1]]
        attributes["polycoef"] = numbers(constraint.coefficients)
        element(self._section("equality"), "joint", attributes | self._common(constraint))
        return [name]

    def _distance(self, constraint: ConstraintRecord) -> list[str]:
        name = self.names.unique(constraint.key)
        if not constraint.enabled:
            self.report.unsupported(name, "a distance that is switched off")
            return []
        self._tendon(name, self._ends(constraint, np.zeros(3), name), constraint.distance)
        return [name]

    def _joint_distance(self, joint: JointRecord) -> None:
        name = self.names.unique(joint.key)
        first = self._site(joint.parent, f"{name}_parent", joint.X_p)
        second = self._site(joint.child, f"{name}_child", joint.X_c)
        self._tendon(name, {"site1": first, "site2": second}, joint.distance)

    def _tendon(self, name: str, ends: dict[str, str], distance: tuple[float, float]) -> None:
        """A spatial tendon between two sites, whose range holds their distance."""
        self.report.approximated(name, "a distance becomes the range of a tendon, which parse_mjcf ignores")
        lower = max(distance[0], 0.0)
        upper = min(distance[1], NO_LIMIT) if distance[1] >= 0.0 else NO_LIMIT
        bounds = {"limited": "true", "range": f"{number(lower)} {number(max(upper, lower + _LEAST_RANGE))}"}
        tendon = element(self._section("tendon"), "spatial", {"name": name, **bounds})
        for site in ends.values():
            element(tendon, "site", site=site)
