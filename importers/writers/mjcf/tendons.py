"""Tendons, their actuators and equalities as MJCF."""

from collections.abc import Mapping
from typing import Any
from xml.etree import ElementTree

import numpy as np

from newtonsim.builder import TendonWrap
from newtonsim.builder.tendons import MUSCLE_VMAX
from newtonsim.importers.writers.mjcf.drives import both_ways, drive_attributes
from newtonsim.importers.writers.mjcf.file_parts import spec_attributes
from newtonsim.importers.writers.names import Names, xml_name
from newtonsim.importers.writers.records import NO_LIMIT, Scene, TendonRecord
from newtonsim.importers.writers.report import ExportReport
from newtonsim.importers.writers.xml_text import element, number, numbers
from newtonsim.scene.enums import JointMode


class TendonWriter:
    """Writes what a scene holds of tendons.

    MuJoCo's lengths are without the offset of the model's; ranges, rest lengths and controls are so, too.

    Args:
        scene: The scene.
        root: The document.
        elements: Bodies of the document by number; the world by -1.
        joint_names: Names of joints in the document, by joint.
        sites: Names of sites in use.
        geoms: Names of geoms in use.
        report: Receives what MJCF holds differently.
        given: Attributes of MjSpec by tendon that the file says besides.
    """

    def __init__(
        self,
        scene: Scene,
        root: ElementTree.Element,
        elements: dict[int, ElementTree.Element],
        joint_names: dict[int, list[str]],
        sites: Names,
        geoms: Names,
        report: ExportReport,
        given: Mapping[int, Mapping[str, Any]],
    ):
        self.given = given
        self.scene, self.root, self.elements, self.joint_names = scene, root, elements, joint_names
        self.sites, self.report = sites, report
        taken = Names(xml_name)
        self.names = [taken.unique(tendon.key) for tendon in scene.tendons]
        self.geoms = geoms

    def write(self) -> None:
        """Write all of them, without actuators."""
        if not self.scene.tendons:
            return
        section = element(self.root, "tendon")
        for name, tendon in zip(self.names, self.scene.tendons):
            self._write_tendon(section, name, tendon)
        self._write_equalities()

    def write_drive(self, actuator: ElementTree.Element, place: int) -> None:
        """Write the actuator of a tendon into the section given."""
        self._write_drive(actuator, self.names[place], self.scene.tendons[place])

    def _write_tendon(self, section: ElementTree.Element, name: str, tendon: TendonRecord) -> None:
        given, offset = tendon.numbers, tendon.numbers["offset"]
        fixed = all(isinstance(one, tuple) and len(one) == 3 for one in tendon.elements)
        attributes = {
            "name": name,
            "stiffness": number(given["stiffness"]),
            "damping": number(given["damping"]),
        }
        rest = np.array([given["spring_lower"], given["spring_upper"]]) - offset
        if given["stiffness"] > 0.0:
            if (rest == -1.0).all():
                rest[1] += 1.0e-9  # to MuJoCo, -1 alone stands for the length in the reference pose
            attributes["springlength"] = numbers(rest)
        if given["friction"] > 0.0:
            attributes["frictionloss"] = number(given["friction"])
        if given["armature"] > 0.0:
            attributes["armature"] = number(given["armature"])
        limits = np.array([given["limit_lower"], given["limit_upper"]])
        if np.isfinite(limits).any():
            limits = np.clip(limits - offset, -NO_LIMIT, NO_LIMIT)
            attributes |= {
                "limited": "true",
                "range": numbers(limits),
                "margin": number(given["limit_margin"]),
            }
            if tendon.limit_solref.any():
                attributes["solreflimit"] = numbers(tendon.limit_solref)
                attributes["solimplimit"] = numbers(tendon.limit_solimp)
        attributes |= spec_attributes(self.given.get(tendon.index, {}), name, self.report)
        own = element(section, "fixed" if fixed else "spatial", attributes)
        for one in tendon.elements:
            if isinstance(one, TendonWrap):
                self._write_wrap(own, name, one)
            elif not isinstance(one, tuple):
                element(own, "pulley", divisor=number(one))
            elif len(one) == 3:
                joint, axis, factor = one
                element(own, "joint", joint=self.joint_names[joint][axis], coef=number(factor))
            else:
                element(own, "site", site=self._write_site(name, *one))

    def _write_site(self, name: str, body: int, point: np.ndarray) -> str:
        site = self.sites.unique(f"{name}_point")
        element(self.elements[body], "site", {"name": site, "pos": numbers(point)})
        return site

    def _write_wrap(self, own: ElementTree.Element, name: str, wrap: TendonWrap) -> None:
        """What a tendon wraps around, as a geom that touches and weighs nothing."""
        geom = self.geoms.unique(f"{name}_wrap")
        attributes = {"name": geom, "type": "sphere", "size": number(wrap.radius)}
        if wrap.axis is not None:
            axis = np.asarray(wrap.axis, np.float64)
            attributes |= {"type": "cylinder", "size": numbers([wrap.radius, wrap.radius])}
            attributes["zaxis"] = numbers(axis / np.linalg.norm(axis))
        attributes |= {"pos": numbers(np.asarray(wrap.position)), "contype": "0", "conaffinity": "0"}
        element(self.elements[wrap.body], "geom", attributes | {"mass": "0", "group": "5"})
        reference = {"geom": geom}
        if wrap.side is not None:
            reference["sidesite"] = self._write_site(name, wrap.side[0], np.asarray(wrap.side[1]))
        element(own, "geom", reference)

    def _write_drive(self, section: ElementTree.Element, name: str, tendon: TendonRecord) -> None:
        """The actuator of a tendon; its ctrl is the control input, of a position less the offset."""
        given = tendon.numbers
        mode = int(given["mode"])
        if tendon.muscle[MUSCLE_VMAX] > 0.0:
            self._write_muscle(section, name, tendon)
            return
        efforts = both_ways(given["effort_limit"])
        tag, gains = drive_attributes(mode, given["target_ke"], given["target_kd"], efforts)
        if mode == JointMode.TARGET_POSITION and given["offset"] != 0.0:
            self.report.approximated(name, f"ctrl is the control input minus {given['offset']:g}")
        element(section, tag, {"name": name, "tendon": name} | gains)

    def _write_muscle(self, section: ElementTree.Element, name: str, tendon: TendonRecord) -> None:
        element(section, "general", {"name": name, "tendon": name} | self.muscle_attributes(tendon))

    @staticmethod
    def muscle_attributes(tendon: TendonRecord) -> dict[str, str]:
        """Return those of a muscle with its activation; its ctrl is what the activation follows."""
        low, high, force, *curves, shortest, longest = tendon.muscle[:10]
        rise, fall, smoothing = tendon.muscle[10:]
        gear = 1.0 if shortest < longest else -1.0
        span = gear * (np.array([shortest, longest]) - tendon.numbers["offset"])
        law = numbers([low, high, force, 1.0, *curves])
        efforts = both_ways(tendon.numbers["effort_limit"])
        _, attributes = drive_attributes(int(JointMode.FORCE), 0.0, 0.0, efforts)
        attributes |= {"gear": number(gear), "dyntype": "muscle", "dynprm": numbers([rise, fall, smoothing])}
        attributes |= {"gaintype": "muscle", "gainprm": law, "biastype": "muscle", "biasprm": law}
        return {"lengthrange": numbers(span)} | attributes

    def _write_equalities(self) -> None:
        """Equalities of changes from the lengths that tendons have where coordinates are zero."""
        if not self.scene.tendon_equalities:
            return
        section = element(self.root, "equality")
        taken = Names(xml_name)
        for one in self.scene.tendon_equalities:
            first = self.scene.tendons[one.first]
            given = one.coefficients if one.second is not None else one.coefficients[:1]
            polynomial = np.polynomial.Polynomial(given)
            attributes = {"name": taken.unique(one.key), "tendon1": self.names[one.first]}
            if one.second is not None:
                attributes["tendon2"] = self.names[one.second]
                shift = self.scene.tendons[one.second].length - one.lengths[1]
                polynomial = polynomial(np.polynomial.Polynomial([shift, 1.0]))
            coefficients = np.zeros(5)
            coefficients[: len(polynomial.coef)] = polynomial.coef
            coefficients[0] += one.lengths[0] - first.length
            attributes |= {"polycoef": numbers(coefficients), "active": "true" if one.enabled else "false"}
            if one.solref.any():
                attributes |= {"solref": numbers(one.solref), "solimp": numbers(one.solimp)}
            element(section, "tendon", attributes)


def is_driven(tendon: TendonRecord) -> bool:
    """Whether the model drives a tendon."""
    given = tendon.numbers
    return tendon.muscle[MUSCLE_VMAX] > 0.0 or any(given[name] for name in ("target_ke", "target_kd", "act"))
