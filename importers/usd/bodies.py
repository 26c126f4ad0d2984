"""Rigid bodies: frames, velocities and mass properties.

Precedence is that of the UsdPhysics schemas: a mass of the body, then the sum of its enabled colliders. A
collider weighs what its own mass says, otherwise volume times density: its own, else the body's, else that of
the material, else the default.
"""

import numpy as np

from newtonsim.geometry.inertia import shift_inertia
from newtonsim.geometry.transforms import quat_matrix, quat_rotate
from newtonsim.importers.building.masses import note_impossible, usable_mass
from newtonsim.importers.files.report import ImportReport
from newtonsim.importers.files.usd_names import NAMESPACE
from newtonsim.importers.geometry import massprops
from newtonsim.importers.geometry.massprops import MassProps, combine
from newtonsim.importers.geometry.pose import Pose
from newtonsim.importers.usd import vendors
from newtonsim.importers.usd.colliders import ShapeReader
from newtonsim.importers.usd.element import Element
from newtonsim.importers.usd.frames import Frame, inverse_rigid, split
from newtonsim.importers.usd.materials import Materials
from newtonsim.importers.usd.records import BodyRecord, Collider
from newtonsim.importers.usd.stage import Units
from newtonsim.importers.usd.walk import Place

UNKNOWN_RADIUS = 0.1
"""Radius [m] of the ball whose inertia a body of unknown form has, as the UsdPhysics proposal suggests."""


class BodyReader:
    """Reads bodies and their colliders."""

    def __init__(
        self, shapes: ShapeReader, materials: Materials, units: Units, density: float, report: ImportReport
    ):
        self.shapes, self.materials, self.units = shapes, materials, units
        self.density, self.report = density, report
        self._impossible: set[str] = set()

    def collider(self, place: Place, body_place: Place | None, body: Pose) -> Collider:
        """Read a collider on a body, or on the world with the identity as pose."""
        element = place.element
        enabled = element.flag("physics:collisionEnabled", True) and not vendors.is_trigger(element)
        shapes = self.shapes.shapes(place, body, collides=True)
        material = self.materials.surface(element)
        props = MassProps.zero()
        if body_place is not None and enabled and shapes:
            props = self._collider_mass(element, place, body_place.element, body, shapes, material.density)
        thickness = vendors.thickness(element, self.units, self.report)
        fields = vendors.contact_fields(element, material.spin, self.units, self.report)
        return Collider(place, shapes, material, enabled, props, thickness, fields)

    def _collider_mass(
        self,
        element: Element,
        place: Place,
        carrier: Element,
        body: Pose,
        shapes: list,
        density: float | None,
    ) -> MassProps:
        own, above = (self._density(one) for one in (element, carrier))
        props = combine(
            [self.shapes.mass(element, shape, own or above or density or self.density) for shape in shapes]
        )
        if not element.has_api("PhysicsMassAPI"):
            return props
        return self._with_mass_api(element, props, split(inverse_rigid(body) @ place.matrix))

    def _density(self, element: Element) -> float:
        """Density that a prim's MassAPI gives, 0 for none."""
        if not element.has_api("PhysicsMassAPI"):
            return 0.0
        return element.number("physics:density", 0.0, least=0.0) * self.units.density

    def _with_mass_api(self, element: Element, props: MassProps, frame: Frame) -> MassProps:
        """Replace what a MassAPI states; the frame is that of its prim in the body.

        A centre of mass that stands elsewhere takes the inertia along by the parallel axis theorem, as
        `UsdPhysics.RigidBodyAPI.ComputeMassProperties` does.
        """
        mass = element.number("physics:mass", 0.0, least=0.0) * self.units.mass
        if mass > 0.0:
            props = (
                props.with_mass(mass) if props.mass > 0.0 else MassProps(mass, props.com, np.zeros((3, 3)))
            )
        com, inertia = props.com, props.inertia
        local = self._centre(element)
        if local is not None:
            com = frame.pose.p + frame.matrix @ local
            inertia = shift_inertia(inertia, props.mass, com - props.com) if inertia.any() else inertia
        stated = self._inertia(element)
        if stated is not None:
            self._note_impossible(stated, props.mass, element)
            rotation = quat_matrix(frame.pose.q)
            inertia = rotation @ stated @ rotation.T
        return MassProps(props.mass, com, inertia)

    def _note_impossible(self, inertia: np.ndarray, mass: float, element: Element) -> None:
        """Report an inertia that nothing has, once of a prim that is a body and its own collider."""
        if element.label in self._impossible:
            return
        before = len(self.report.entries)
        note_impossible(inertia, mass, element, self.report, "the prim")
        for entry in self.report.entries[before:]:
            self._impossible.add(element.label)
            entry.path, entry.line = element.place("physics:diagonalInertia")

    def _centre(self, element: Element) -> np.ndarray | None:
        value = element.value("physics:centerOfMass")
        if hasattr(value, "__len__") and any(component == -np.inf for component in value):
            return None
        return element.vector("physics:centerOfMass")

    def _inertia(self, element: Element) -> np.ndarray | None:
        """Inertia (3, 3) in the prim's axes; None where it says nothing."""
        stated = vendors.stated_inertia(element, self.units)
        if stated is not None:
            return stated
        diagonal = element.vector("physics:diagonalInertia", (0.0, 0.0, 0.0))
        if diagonal.min() < 0.0:
            raise element.error(
                f"attribute 'physics:diagonalInertia' is {diagonal.tolist()}, expected no negative values"
            )
        if not diagonal.any():
            return None
        axes = element.quaternion("physics:principalAxes")
        rotation = np.eye(3) if axes is None else quat_matrix(axes)
        return rotation @ np.diag(diagonal * self.units.torque) @ rotation.T

    # -- bodies ----------------------------------------------------------------------------------------------

    def body(self, place: Place) -> BodyRecord:
        """Read frame and velocities of a body."""
        element, frame = place.element, split(place.matrix)
        if frame.is_flat or frame.is_sheared:
            what = "has zero volume" if frame.is_flat else "is sheared"
            raise element.error(
                f"the transform of the rigid body {what}: attribute 'xformOpOrder' or a parent's"
            )
        kinematic = element.flag("physics:kinematicEnabled", False)
        angular = np.radians(element.vector("physics:angularVelocity", (0.0, 0.0, 0.0)))
        linear = element.vector("physics:velocity", (0.0, 0.0, 0.0))
        self._report_animation(element, kinematic)
        if element.flag("physics:startsAsleep", False):
            self.report.ignored(element, "bodies start awake; the solver lets resting bodies sleep")
        if kinematic and (angular.any() or linear.any()):
            self.report.unsupported(element, "the velocity of a kinematic body is not modelled")
        return BodyRecord(
            place,
            frame.pose,
            kinematic,
            quat_rotate(frame.pose.q, angular),
            frame.matrix @ linear,
            MassProps.zero(),
            carried=vendors.carried_weight(element),
        )

    def _report_animation(self, element: Element, kinematic: bool) -> None:
        """Tell that time samples of the transform are not followed."""
        from pxr import UsdGeom

        if not UsdGeom.Xformable(element.prim).TransformMightBeTimeVarying():
            return
        if kinematic:
            self.report.unsupported(element, "the animation of a kinematic body is not modelled")
        else:
            self.report.ignored(
                element, "the body is simulated from its first pose, and its animation is ignored"
            )

    def weigh(self, record: BodyRecord, colliders: list[Collider]) -> None:
        """Set the mass properties of a body from its MassAPI and its colliders."""
        element = record.place.element
        if record.kinematic:
            return
        massless = element.flag(f"{NAMESPACE}:massless", False)
        props = MassProps.zero() if massless else combine([collider.props for collider in colliders])
        if element.has_api("PhysicsMassAPI"):
            turned = split(inverse_rigid(record.pose) @ record.place.matrix)
            props = self._with_mass_api(element, props, turned)
        if massless:
            record.props = usable_mass(
                MassProps(0.0, props.com, props.inertia), element, self.report, False, 0.0
            )
            return
        if props.mass <= 0.0:
            self.report.approximated(element, "the body has no mass and no colliders; it receives 1 kg")
            props = MassProps(1.0, props.com, props.inertia)
        if not props.inertia.any():
            self.report.approximated(
                element, f"its inertia is unknown; it gets that of a ball of radius {UNKNOWN_RADIUS} m"
            )
            ball = massprops.sphere(UNKNOWN_RADIUS, 1.0).with_mass(props.mass)
            props = MassProps(props.mass, props.com, ball.inertia)
        props = MassProps(props.mass, props.com, props.inertia + record.armature * np.eye(3))
        record.props = usable_mass(props, element, self.report, False, 0.0)
