"""PhysicsScene prims: which one counts, its gravity, and defaults that it carries."""

import dataclasses
from dataclasses import dataclass

import numpy as np

from newtonsim.errors import ModelError
from newtonsim.geometry.transforms import quat_rotate
from newtonsim.importers.files.arguments import ContactSettings, check_number
from newtonsim.importers.files.report import ImportReport
from newtonsim.importers.usd.element import Element
from newtonsim.importers.usd.stage import StageView

EARTH_GRAVITY = 9.81
"""[m/s^2], what a negative magnitude stands for."""

_WARP_SCHEMA = "warpsceneapi"
_RATES = ("newton:timeStepsPerSecond", "physxScene:timeStepsPerSecond")
"""Attributes with a number of steps in a second."""


@dataclass(frozen=True, slots=True)
class Defaults:
    """Arguments of `parse_usd` that prims and the PhysicsScene can replace by attributes "warp:<name>"."""

    density: float
    contact: ContactSettings
    joint_limit_ke: float
    joint_limit_kd: float
    armature: float
    joint_drive_gains_scaling: float
    collapse_fixed_joints: bool

    def __post_init__(self):
        for name in ("density", "joint_limit_ke", "joint_limit_kd", "armature", "joint_drive_gains_scaling"):
            check_number("default_density" if name == "density" else name, getattr(self, name))
        if self.density < 0.0:
            raise ModelError(f"default_density: expected a number of at least 0, got {self.density}")

    def on(self, element: Element | None) -> "Defaults":
        """The same with what the attributes of a prim say."""
        if element is None:
            return self
        contact = {
            field.name: element.number(f"warp:contact_{field.name}", getattr(self.contact, field.name))
            for field in dataclasses.fields(self.contact)
        }
        numbers = {
            name: element.number(f"warp:{name}", getattr(self, name))
            for name in ("joint_limit_ke", "joint_limit_kd", "armature", "joint_drive_gains_scaling")
        }
        collapse = element.flag("warp:collapse_fixed_joints", self.collapse_fixed_joints)
        return dataclasses.replace(
            self, contact=ContactSettings(**contact), collapse_fixed_joints=collapse, **numbers
        )


@dataclass(frozen=True, slots=True)
class Scenes:
    """The PhysicsScene prims of a stage.

    Attributes:
        chosen: The one whose gravity and defaults count, None if there is none.
        paths: Paths of all.
        warp: Paths of those that Warp simulates.
        gravity: Acceleration in the builder's world (3,) [m/s^2], None if no scene says.
    """

    chosen: Element | None
    paths: tuple[str, ...]
    warp: frozenset[str]
    gravity: np.ndarray | None

    def owner_of(self, element: Element) -> str | None:
        """Path of the scene that simulates a prim: the one that it names, otherwise the first one."""
        name = "physics:simulationOwner"
        targets = [str(target) for target in element.targets(name)]
        if len(targets) > 1:
            raise element.error(f"relationship '{name}' names {len(targets)} scenes, expected one")
        if targets and targets[0] not in self.paths:
            raise element.error(f"relationship '{name}' names {targets[0]}, which is not a PhysicsScene")
        return targets[0] if targets else next(iter(self.paths), None)

    @property
    def reference_angle(self) -> float:
        """What one unit of MuJoCo's reference angles is [rad]."""
        if self.chosen is None:
            return np.pi / 180.0
        unit = self.chosen.token("mjc:compiler:angle", "degree", ("degree", "radian"))
        return 1.0 if unit == "radian" else np.pi / 180.0

    @property
    def timestep(self) -> float | None:
        """Step that the scene is made for [s], None if it does not say."""
        if self.chosen is None:
            return None
        rates = [self.chosen.number(name) for name in _RATES]
        step = self.chosen.number("mjc:option:timestep")
        found = [step, *(1.0 / rate for rate in rates if rate)]
        return next((one for one in found if one is not None and one > 0.0), None)

    def attributes(self) -> dict[str, object]:
        """Values of all attributes of the chosen scene."""
        if self.chosen is None:
            return {}
        time = self.chosen.time
        return {attribute.GetName(): attribute.Get(time) for attribute in self.chosen.prim.GetAttributes()}


def read_scenes(view: StageView, report: ImportReport, only_warp: bool) -> Scenes:
    """Find the scenes anywhere on the stage: the first one counts, with `only_warp` the first of Warp's."""
    found = [
        Element(prim, str(prim.GetPath()), view.path, view.time)
        for prim in view.stage.Traverse()
        if prim.GetTypeName() == "PhysicsScene"
    ]
    warp = [element for element in found if _is_warp(element)]
    candidates = warp if only_warp else found
    chosen = candidates[0] if candidates else None
    gravity = None if chosen is None else _gravity(chosen, view)
    for element in found:
        if element is not chosen and chosen is not None:
            same = np.allclose(_gravity(element, view), gravity, rtol=1.0e-6, atol=1.0e-9)
            report.unsupported(
                element,
                f"is a further PhysicsScene; {chosen.label} is used"
                + ("" if same else ", whose gravity differs"),
            )
    return Scenes(
        chosen,
        tuple(element.label for element in found),
        frozenset(element.label for element in warp),
        gravity,
    )


def _is_warp(element: Element) -> bool:
    """Whether Warp simulates a scene: it has the schema WarpSceneAPI or attributes "warp:..."."""
    named = any(name.lower() == _WARP_SCHEMA for name in element.schemas)
    return named or any(name.startswith("warp:") for name in element.prim.GetAuthoredPropertyNames())


def _gravity(element: Element, view: StageView) -> np.ndarray:
    """Gravity in the builder's world; direction zero is down, a negative magnitude that of the earth."""
    direction = element.vector("physics:gravityDirection", (0.0, 0.0, 0.0))
    if not np.any(direction):
        direction = -np.eye(3)["XYZ".index(view.up_axis)]
    magnitude = element.number("physics:gravityMagnitude", -np.inf, endless=True)
    if not all(element.flag(name, True) for name in ("newton:gravityEnabled", "mjc:flag:gravity")):
        magnitude = 0.0
    if magnitude == np.inf:
        raise element.error("attribute 'physics:gravityMagnitude' is infinite")
    size = EARTH_GRAVITY if magnitude < 0.0 else magnitude * view.units.length
    return quat_rotate(view.turn, direction / np.linalg.norm(direction)) * size
