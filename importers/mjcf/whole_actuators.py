"""Actuators that are more than a drive of a joint axis or a tendon: MuJoCo's whole law, wherever it acts.

The builder gets them as `ModelBuilder.add_actuator` takes them, which FeatherstoneSolver and MuJoCoSolver
simulate.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from newtonsim.builder import ActuatorLaw, ActuatorTarget, ModelBuilder
from newtonsim.errors import ModelError
from newtonsim.geometry.transforms import quat_rotate
from newtonsim.importers.files.report import ImportReport
from newtonsim.importers.files.xml import Node
from newtonsim.importers.geometry.pose import Pose
from newtonsim.importers.mjcf.damping_ratios import ratio_of
from newtonsim.importers.mjcf.document import Document
from newtonsim.importers.mjcf.laws import parts_of
from newtonsim.importers.mjcf.muscles import muscle_numbers
from newtonsim.importers.mjcf.plan import BuildState, MjcfOptions
from newtonsim.importers.mjcf.records import Scene

UNLESS = "FeatherstoneSolver or MuJoCoSolver steps the model"
UNLESS_MUJOCO = "MuJoCoSolver steps the model"
"""Solvers that have a law, or a law of which MuJoCo's compiler finds a number."""
TARGETS = ("joint", "jointinparent", "tendon", "site", "cranksite", "body")
"""Attributes of which an actuator has one."""


def law_of(node: Node, document: Document) -> ActuatorLaw | None:
    """Return the whole law of an actuator, None if it is of a kind that is not known.

    Raises:
        ImportFileError: A number is out of range.
    """
    gain, bias = node.text_of("gaintype", "fixed"), node.text_of("biastype", "none")
    gear = node.floats("gear", 6, (1.0,), at_least=1)
    lengths = node.floats("lengthrange", 2, (0.0, 0.0))
    options = {
        "gear": tuple(gear.tolist()),
        "early": node.text_of("actearly", "false") == "true",
        "crank_length": float(node.float("cranklength", 0.0) or 0.0),
        "length_range": None if lengths[0] == lengths[1] else (float(lengths[0]), float(lengths[1])),
    }
    for name, short in (("control", "ctrl"), ("force", "force"), ("activation", "act")):
        if document.is_limited(node, f"{short}limited", f"{short}range"):
            low, high = node.bounds(f"{short}range") or (0.0, 0.0)
            if low > -np.inf or high < np.inf:
                options[f"{name}_range"] = (low, high)
    try:
        if node.tag == "muscle":
            numbers, times = muscle_numbers(node)
            kinds = {"gain_type": "muscle", "bias_type": "muscle", "dynamics_type": "muscle"}
            return ActuatorLaw(**kinds, gain=numbers, bias=numbers, dynamics=times, **options)
        if node.tag == "adhesion":
            return ActuatorLaw(gain=(float(node.float("gain", 1.0) or 0.0),), **options)
        if node.tag == "general":
            numbers = {
                name: tuple(node.floats(f"{short}prm", default=default).tolist())
                for name, short, default in (
                    ("gain", "gain", (1.0,)),
                    ("bias", "bias", ()),
                    ("dynamics", "dyn", (1.0,)),
                )
            }
            dynamics = node.text_of("dyntype", "none")
            return ActuatorLaw(gain_type=gain, bias_type=bias, dynamics_type=dynamics, **numbers, **options)
        parts = parts_of(node)
        if parts is None:
            return None
        factors, offsets, dynamics, constant = parts
        if ratio_of(node) > 0.0:  # MuJoCo reads a positive third bias as the ratio
            offsets = (*offsets[:2], ratio_of(node))
        return ActuatorLaw(
            gain_type="affine" if any(factors[1:]) else "fixed",
            gain=factors,
            bias_type="affine" if any(offsets) else "none",
            bias=offsets,
            dynamics_type=dynamics,
            dynamics=(constant,),
            **options,
        )
    except ModelError as error:
        if "expected one of" in str(error):
            return None
        raise node.error(str(error)) from error


class WholeActuators:
    """Adds the whole actuators of a scene to the builder that holds what they act on.

    Args:
        scene: The records.
        state: Where bodies and joints are.
        options: Arguments of the importer.
        builder: Receives them.
        report: Holds the numbers of tendons.

    Attributes:
        numbers: Actuator of the builder by `id` of the node.
    """

    def __init__(
        self,
        scene: Scene,
        state: BuildState,
        options: MjcfOptions,
        builder: ModelBuilder,
        report: ImportReport,
    ):
        self.scene, self.state, self.options = scene, state, options
        self.builder, self.report = builder, report
        self.sites = {site.name: (n, site.pose) for n, one in enumerate(scene.bodies) for site in one.sites}
        self.bodies = {one.name: n for n, one in enumerate(scene.bodies) if one.name}
        self.joints = {place.record.name: place for place in state.joints if place.record.name}
        self.numbers: dict[int, int] = {}

    def add(self) -> None:
        """Add all of them.

        Raises:
            ImportFileError: One names what is not there.
        """
        for node, law in self.scene.whole_actuators:
            arguments = self._aim(node)
            if arguments is None:
                continue
            if "joint" in arguments:
                law = self._on_joint(node, law)
            if self.options.scale != 1.0:
                self.report.approximated(node, "the force of the actuator is not scaled")
            try:
                number = self.builder.add_actuator(law=law, key=node.text_of("name"), **arguments)
            except ModelError as error:
                raise node.error(str(error)) from error
            self.numbers[id(node)] = number

    def _aim(self, node: Node) -> dict | None:
        """What an actuator acts on, as arguments of `add_actuator`; None if that was replaced."""
        if "site" in node.attrib:
            return self._frames(ActuatorTarget.SITE, node, "site", "refsite")
        if "cranksite" in node.attrib:
            return self._frames(ActuatorTarget.CRANK, node, "cranksite", "slidersite")
        if "body" in node.attrib:
            number = self._find(node, "body", self.bodies)
            return {
                "target": ActuatorTarget.BODY,
                "bodies": (self.state.places[number].index, -1),
            }
        if "tendon" in node.attrib:
            tendon = self._find(node, "tendon", self.report.tendons)
            return {"target": ActuatorTarget.TENDON, "tendon": tendon}
        inside = "jointinparent" in node.attrib
        place = self._find(node, "jointinparent" if inside else "joint", self.joints)
        if place.index is None:
            return None
        target = ActuatorTarget.JOINT_IN_PARENT if inside else ActuatorTarget.JOINT
        return {"target": target, "joint": place.index, "axis": -1 if place.axis is None else place.axis}

    def _find(self, node: Node, attribute: str, known: dict):
        name = node.required(attribute)
        if name not in known:
            raise node.error(f"the {attribute} {name!r} is not defined")
        return known[name]

    def _frames(self, target: ActuatorTarget, node: Node, first: str, second: str) -> dict:
        body, frame = self._place(*self._find(node, first, self.sites))
        arguments = {"target": target, "bodies": (body, -1), "frame": frame.warp()}
        if second in node.attrib:
            other, reference = self._place(*self._find(node, second, self.sites))
            arguments |= {"bodies": (body, other), "reference": reference.warp()}
        return arguments

    def _place(self, number: int, pose: Pose) -> tuple[int, Pose]:
        place = self.state.places[number]
        return place.index, place.pose @ pose if place.index < 0 else pose

    def _on_joint(self, node: Node, law: ActuatorLaw) -> ActuatorLaw:
        """A law for our coordinates, which are zero at the reference of the file, and for a turned world."""
        inside = "jointinparent" in node.attrib
        place = self._find(node, "jointinparent" if inside else "joint", self.joints)
        if place.record.kind in ("hinge", "slide"):
            return law.shifted(law.gear[0] * place.record.ref)
        gear = np.array([*law.gear, *[0.0] * (6 - len(law.gear))])
        if self.scene.bodies[place.body].parent == 0:
            turn = self.options.xform.q
            if place.record.kind == "free" or inside:
                gear[:3] = quat_rotate(turn, gear[:3])
            if place.record.kind == "free" and inside:
                gear[3:] = quat_rotate(turn, gear[3:])
        return replace(law, gear=tuple(gear.tolist()))
