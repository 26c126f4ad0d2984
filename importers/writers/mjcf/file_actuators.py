"""Actuators of the file that a model was read from, with all of their laws."""

from __future__ import annotations

import math
from collections.abc import Iterator
from xml.etree import ElementTree

import numpy as np

from newtonsim.builder import ActuatorLaw
from newtonsim.builder.tendons import MUSCLE_VMAX
from newtonsim.errors import ModelError
from newtonsim.importers.writers.mjcf.actuators import ActuatorWriter, law_attributes
from newtonsim.importers.writers.mjcf.controls import Control
from newtonsim.importers.writers.mjcf.drives import both_ways
from newtonsim.importers.writers.mjcf.file_parts import efforts_of, gains_of, law_of_drive, law_on_joint
from newtonsim.importers.writers.mjcf.tendons import TendonWriter
from newtonsim.importers.writers.names import Names, xml_name
from newtonsim.importers.writers.records import NO_LIMIT, AxisRecord, Scene, TendonRecord
from newtonsim.importers.writers.report import ExportReport
from newtonsim.importers.writers.xml_text import element, numbers
from newtonsim.scene.enums import JointMode

_ENDLESS = (-math.inf, math.inf)

_SAME_GAIN = 1.0e-5
"""Relative difference of gains in single precision that are the same."""


class FileActuators:
    """Writes actuators of a file, in its order; `ctrl` of each is what it is there.

    Args:
        entries: `ImportReport.actuators`.
        scene: The scene.
        joints: Elements of the joints by index of the axis in the model.
        tendons: Writes tendons.
        others: Writes actuators of the model.
        report: Receives what is left out.

    Attributes:
        axes: Axes of the model that need no other actuator.
        tendons_done: Places of tendons likewise.
        whole: Places of actuators of the scene that are written.
        controls: What each of them receives.
    """

    def __init__(
        self,
        entries: list[dict],
        scene: Scene,
        joints: dict[int, ElementTree.Element],
        tendons: TendonWriter,
        others: ActuatorWriter,
        report: ExportReport,
    ):
        self.entries, self.scene, self.joints, self.report = entries, scene, joints, report
        self.tendons, self.others = tendons, others
        self.axes: set[int] = set()
        self.tendons_done: set[int] = set()
        self.whole: set[int] = set()
        self.controls: list[Control] = []
        self._places = {axis.index: n for n, axis in enumerate(a for j in scene.joints for a in j.axes)}
        self._laws = [None if e["law"] is None else law_on_joint(e["law"]) for e in entries]
        self._targets = [self._axes_of(entry) for entry in entries]
        self._refused = self._changed_axes()

    def write(self, section: ElementTree.Element) -> None:
        """Write all of them."""
        taken = Names(xml_name)
        for number, entry in enumerate(self.entries):
            label = entry["name"] or entry["target"][1] or entry["type"]
            if entry["actuator"] is not None:
                self._write_whole(section, entry["actuator"], taken)
            elif entry["tendon"] is not None:
                self._write_on_tendon(section, entry, label, taken)
            elif self._targets[number]:
                for axis in self._targets[number]:
                    self._write_on_axis(section, number, axis, label, taken)
            else:
                self.report.unsupported(label, "an actuator of the file that the model has nothing of")
        for axis in (axis for joint in self.scene.joints for axis in joint.axes):
            self._bound(axis)

    # -- joints ----------------------------------------------------------------------------------------------

    def _axes_of(self, entry: dict) -> list[AxisRecord]:
        """Axes of the scene that an actuator of a joint acts on, one in each world.

        Raises:
            ModelError: There is no such joint.
        """
        if entry["key"] is None or entry["actuator"] is not None:
            return []
        found = [joint.axes[entry["place"]] for joint in self.scene.joints if joint.key == entry["key"]]
        if not found:
            raise ModelError(f"imported: the model has no joint {entry['key']!r}, which its file drives")
        return found if entry["law"] is not None or entry["axis"] is not None else []

    def _on_axis(self, index: int) -> list[int]:
        """Numbers of the actuators that the drive of an axis has."""
        return [n for n, e in enumerate(self.entries) if e["axis"] is not None and self._acts_on(n, index)]

    def _acts_on(self, number: int, index: int) -> bool:
        return any(axis.index == index for axis in self._targets[number])

    def _changed_axes(self) -> set[int]:
        """Axes whose drives have other gains than the file gives them; the model's are written."""
        changed: set[int] = set()
        for axis in {id(a): a for axes in self._targets for a in axes}.values():
            laws = [self._laws[n] for n in self._on_axis(axis.index)]
            if not laws or None in laws:
                continue
            mode, ke, kd = gains_of([law for law in laws if law is not None])
            given = np.array([axis.target_ke, axis.target_kd])
            if mode != axis.mode or not np.allclose(given, [ke, kd], rtol=_SAME_GAIN, atol=1.0e-9):
                changed.add(axis.index)
        return changed

    def _write_on_axis(
        self, section: ElementTree.Element, number: int, axis: AxisRecord, label: str, taken: Names
    ) -> None:
        entry, law = self.entries[number], self._laws[number]
        if axis.index in self._refused and entry["axis"] is not None:
            what = "the drive of the model is written, whose gains are not those of the file's actuator"
            self.report.approximated(label, what)
            return
        if law is None:
            count = len(self._on_axis(axis.index))
            drive = (axis.mode, axis.target_ke, axis.target_kd)
            law = law_of_drive(entry, drive, 1.0 / count, axis.efforts if count == 1 else _ENDLESS)
        name = {"name": taken.unique(label), "joint": self.joints[axis.index].get("name", "")}
        element(section, "general", name | law_attributes(law))
        if entry["axis"] is not None:
            self.axes.add(axis.index)
        alone = len(self._on_axis(axis.index)) == 1 and entry["axis"] is not None
        place = self._places[axis.index] if alone and entry["scale"] else None
        self.controls.append(Control(place, entry["scale"], entry["offset"]))

    def _bound(self, axis: AxisRecord) -> None:
        """Bound the sum of an axis' actuators where none of them is bounded as much."""
        laws = [self._laws[n] for n in self._on_axis(axis.index) if axis.index in self.axes]
        efforts, joint = [efforts_of(law) for law in laws if law is not None], self.joints[axis.index]
        if not efforts or "actuatorfrcrange" in joint.attrib:  # as the file has it
            return
        (least, most), (low, high) = axis.efforts, map(sum, zip(*efforts))
        room = 1.0 - _SAME_GAIN
        if most < min(NO_LIMIT, high * room) or least > max(-NO_LIMIT, low * room):
            joint.set("actuatorfrclimited", "true")
            joint.set("actuatorfrcrange", numbers([max(least, -NO_LIMIT), min(most, NO_LIMIT)]))

    # -- the rest --------------------------------------------------------------------------------------------

    def _write_on_tendon(self, section: ElementTree.Element, entry: dict, label: str, taken: Names) -> None:
        for place in self._tendons_of(entry):
            tendon, given = self.scene.tendons[place], self.scene.tendons[place].numbers
            sharing = [one for one in self.entries if one["tendon"] == entry["tendon"]]
            self.tendons_done.add(place)
            name = {"name": taken.unique(label), "tendon": self.tendons.names[place]}
            if tendon.muscle[MUSCLE_VMAX] > 0.0:
                law = law_of_drive(entry, (self._mode(tendon), 0.0, 0.0), 0.0, _ENDLESS)
                attributes = self.tendons.muscle_attributes(tendon) | _ranges(law)
                self.controls.append(Control(None, value=given["act"]))
            else:
                drive = (self._mode(tendon), given["target_ke"], given["target_kd"])
                efforts = both_ways(given["effort_limit"]) if len(sharing) == 1 else _ENDLESS
                law = law_of_drive(entry, drive, 1.0 / len(sharing), efforts).shifted(given["offset"])
                attributes = law_attributes(law)
                alone = len(sharing) == 1 and entry["scale"]
                value = (given["act"] - entry["offset"]) / entry["scale"] if alone else 0.0
                self.controls.append(Control(None, value=value))
            element(section, "general", name | attributes)

    def _tendons_of(self, entry: dict) -> Iterator[int]:
        """Places of the tendons with the name that an entry's has, one in each world."""
        keys = [one.key for one in self.scene.tendons if one.index == entry["tendon"]]
        wanted = keys[0] if keys else entry["target"][1]
        for place, one in enumerate(self.scene.tendons):
            if one.key == wanted:
                yield place

    @staticmethod
    def _mode(tendon: TendonRecord) -> JointMode:
        return JointMode(int(tendon.numbers["mode"]))

    def _write_whole(self, section: ElementTree.Element, index: int, taken: Names) -> None:
        keys = [one.key for one in self.scene.actuators if one.index == index]
        for place, one in enumerate(self.scene.actuators):
            if keys and one.key == keys[0] and place not in self.whole:
                self.whole.add(place)
                self.others.write_one(section, one, taken)
                self.controls.append(Control(None, value=one.ctrl))


def _ranges(law: ActuatorLaw) -> dict[str, str]:
    """Attributes of a law that bound control and activation, and say when the activation acts."""
    names = ("ctrllimited", "ctrlrange", "actlimited", "actrange", "actearly")
    return {name: value for name, value in law_attributes(law).items() if name in names}
