"""Actuators that are no drives as MJCF."""

from collections.abc import Collection
from xml.etree import ElementTree

import numpy as np

from newtonsim.builder import ActuatorLaw, ActuatorTarget
from newtonsim.importers.files.xml import MAX_NUMBER
from newtonsim.importers.writers.mjcf.geoms import pose_attributes
from newtonsim.importers.writers.names import Names, xml_name
from newtonsim.importers.writers.records import ActuatorRecord, Scene
from newtonsim.importers.writers.xml_text import element, number, numbers


class ActuatorWriter:
    """Writes the actuators of a scene.

    Args:
        scene: The scene.
        elements: Bodies of the document by number; the world by -1.
        joint_names: Names of joints in the document, by joint.
        tendon_names: Names of tendons in the document.
        sites: Names of sites in use.
    """

    def __init__(
        self,
        scene: Scene,
        elements: dict[int, ElementTree.Element],
        joint_names: dict[int, list[str]],
        tendon_names: list[str],
        sites: Names,
    ):
        self.scene, self.elements, self.joint_names = scene, elements, joint_names
        self.tendon_names, self.sites = tendon_names, sites

    def write(self, section: ElementTree.Element, done: Collection[int] = ()) -> None:
        """Write all but those at some places into a section that holds those of drives."""
        taken = Names(xml_name, {one.get("name", "") for one in section})
        for place, one in enumerate(self.scene.actuators):
            if place not in done:
                self.write_one(section, one, taken)

    def write_one(self, section: ElementTree.Element, one: ActuatorRecord, taken: Names) -> None:
        """Write one of them, by a name that is not taken."""
        law, target = one.law, self._target(one)
        if one.tendon is not None:
            law = law.shifted(law.gear[0] * self.scene.tendons[one.tendon].numbers["offset"])
        element(section, "general", {"name": taken.unique(one.key)} | target | law_attributes(law))

    def _target(self, one: ActuatorRecord) -> dict[str, str]:
        """What an actuator acts on."""
        if one.joint is not None:
            inside = one.target == ActuatorTarget.JOINT_IN_PARENT
            joint, place = one.joint
            return {"jointinparent" if inside else "joint": self.joint_names[joint][place]}
        if one.tendon is not None:
            return {"tendon": self.tendon_names[one.tendon]}
        if one.target == ActuatorTarget.BODY:
            return {"body": self.elements[one.frames[0][0]].get("name", "world")}
        words = ("cranksite", "slidersite") if one.target == ActuatorTarget.CRANK else ("site", "refsite")
        found = {}
        for word, (body, pose) in zip(words, one.frames):
            found[word] = self.sites.unique(f"{one.key}_{word}")
            element(self.elements[body], "site", {"name": found[word], **pose_attributes(pose)})
        return found


def law_attributes(law: ActuatorLaw) -> dict[str, str]:
    """Return the attributes of a <general> with this law."""
    found = {"gear": numbers(law.gear), "gaintype": law.gain_type, "gainprm": numbers(law.gain)}
    found |= {"biastype": law.bias_type, "dyntype": law.dynamics_type}
    for name, values in (("biasprm", law.bias), ("dynprm", law.dynamics)):
        if values:
            found[name] = numbers(values)
    for name, short in (("control", "ctrl"), ("force", "force"), ("activation", "act")):
        span = getattr(law, f"{name}_range")
        if span is not None:
            span = np.clip(span, -MAX_NUMBER, MAX_NUMBER)
            found |= {f"{short}limited": "true", f"{short}range": numbers(span)}
    if law.early:
        found["actearly"] = "true"
    if law.crank_length:
        found["cranklength"] = number(law.crank_length)
    if law.length_range is not None:
        found["lengthrange"] = numbers(law.length_range)
    return found
