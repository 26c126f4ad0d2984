"""Masses and inertias of bodies: what of a file can be used, and what bodies get that it gives no mass."""

from dataclasses import dataclass, field

import numpy as np

from newtonsim.builder import ModelBuilder
from newtonsim.builder.validate import LEAST_GYRATION, rigid_groups
from newtonsim.importers.files.report import ImportReport, ReportEntry, Told
from newtonsim.importers.files.xml import Node
from newtonsim.importers.geometry.massprops import MassProps, ball_of, principal_moments, sphere

POINT_RADIUS = 5.0e-5
"""Radius [m] of the ball that stands for a mass at a point, of which M(q) shows nothing."""

ROUNDING = 1.0e-6
"""Share of a moment of inertia that counts as rounding: files hold six digits or more."""

LEAST_SHARE = 2.0e-9
"""Share of the largest principal moment below which the smallest counts as zero."""

LEAST_MASS = 2.0e-15
"""Mass [kg] of a moving body that is to have none. With `LEAST_MOMENT`, it changes no digit of M(q) of a
robot in single precision, and MuJoCo accepts it, which takes 1e-15 for nothing."""

LEAST_MOMENT = 2.0e-15
"""Moment of inertia [kg m^2] of such a body about each axis."""


def check_moments(inertia: np.ndarray, node: Node) -> None:
    """Raise when an inertia (3, 3) of a file has a negative principal moment beyond rounding."""
    size = max(map(abs, inertia.ravel().tolist()))
    least = principal_moments(inertia / size)[0] if size > 0.0 else 0.0
    if least < -ROUNDING:
        raise node.error(f"the inertia matrix has a negative principal moment, {least * size:.6g} kg m^2")


def note_impossible(inertia: np.ndarray, mass: float, node: Told, report: ImportReport, whose: str) -> None:
    """Report an inertia (3, 3) of a file that no distribution of mass has, which a strict import refuses.

    The moments A <= B <= C about the principal axes of a body are the integrals of y² + z², x² + z² and
    x² + y² over its mass, so that A + B - C is twice the integral of z².

    Args:
        inertia: As the file gives it [kg m^2].
        mass: As the file gives it [kg].
        node: Its element, with place in the file.
        report: Receives the remark.
        whose: Kind and name of the body, such as "link 'arm'".
    """
    low, middle, high = principal_moments(inertia)
    if low + middle < high * (1.0 - ROUNDING) and high > mass * LEAST_GYRATION**2:
        moments = f"{low:.6g}, {middle:.6g} and {high:.6g} kg m^2"
        report.impossible(
            node,
            f"no distribution of mass has the principal moments of {whose}, {moments}: A + B < C; they are "
            "used as they are wherever this inertia is used",
        )


def left_out(defined: float, computed: float) -> str:
    """Say that `ignore_inertial_definitions` replaces a mass of the file [kg] by that of the geometry."""
    return (
        f"<inertial> with {defined:g} kg is ignored, and the geometry gives {computed:g} kg, as "
        "`ignore_inertial_definitions` says, which is on by default"
    )


def usable_mass(
    props: MassProps, node: Told, report: ImportReport, ensure_nonstatic: bool, static_mass: float
) -> MassProps:
    """Make mass properties that dynamics can use: no mass without inertia and, if asked for, none of zero.

    Where none of zero is asked for, inertia without mass stays, and a point is made a ball that is too small
    to be seen in the inertia of a robot, yet large enough for single precision.
    """
    if props.mass <= 0.0:
        if not ensure_nonstatic:
            if props.inertia.any():
                report.approximated(node, "inertia without mass acts in solvers in joint coordinates alone")
            return MassProps(0.0, props.com, props.inertia)
        ball = ball_of(static_mass)
        return MassProps(ball.mass, props.com, ball.inertia + props.inertia)
    moments = principal_moments(props.inertia)
    if not moments[0] > max(LEAST_SHARE * moments[2], props.mass * LEAST_GYRATION**2):
        ball, text = ball_of(props.mass), "a ball of water"
        if not ensure_nonstatic:
            ball, text = sphere(POINT_RADIUS, 1.0).with_mass(props.mass), "a ball of 0.1 mm"
        report.approximated(node, f"the body has mass but a singular inertia and receives that of {text}")
        least = max(ball.inertia[0, 0], LEAST_SHARE * moments[2])
        return MassProps(props.mass, props.com, props.inertia + least * np.eye(3))
    return props


@dataclass(slots=True)
class UnknownMasses:
    """Bodies of an import whose mass its file does not give, and what becomes of them.

    What a file leaves open matters for bodies that move. Those that others are welded to have the masses of
    all, so that frames without mass on them, such as `tool0`, need none.

    Attributes:
        report: Receives remarks.
        kind: What the format calls a body.
        given: Mass of bodies without one [kg], None for none.
        weighed: Remarks on bodies whose mass comes from shapes and a density that the file does not give,
            and what says so in few words.
        empty: Elements of bodies with neither.
        received: Remarks on those that received `given`.
    """

    report: ImportReport
    kind: str
    given: float | None
    weighed: dict[int, tuple[ReportEntry, str]] = field(default_factory=dict)
    empty: dict[int, Told] = field(default_factory=dict)
    received: dict[int, ReportEntry] = field(default_factory=dict)

    def note_shapes(self, body: int, mass: float, density: float, node: Told) -> None:
        """Note that the mass [kg] of a body is that of its shapes at a density [kg/m^3] of the caller."""
        source = f"from shapes of {density:g} kg/m^3"
        text = f"no <inertial> with a mass: {mass:.4g} kg {source}"
        self.weighed[body] = self.report.approximated(node, text), source

    def note_empty(self, body: int, node: Told) -> None:
        """Note that a body has no mass; it has `given` in the builder."""
        self.empty[body] = node
        if self.given is not None:
            text = f"the body has no mass and receives {self.given:g} kg"
            self.received[body] = self.report.approximated(node, text)

    def settle(self, builder: ModelBuilder) -> None:
        """Once all joints are there, tell which of these bodies move, and let all that moves have some mass.

        The report learns which masses of moving bodies are made up, for a warning or, in a strict import, an
        error. A moving body without mass that carries some needs none but for solvers in maximal coordinates:
        it receives next to nothing, unless `given` says otherwise.
        """
        kinds, children, parents = (
            np.array(values, np.int64)
            for values in (builder.joint_type, builder.joint_child, builder.joint_parent)
        )
        top = rigid_groups(builder.body_count, kinds, children, parents)
        mass = np.array(builder.body_mass, np.float64)
        own = mass.copy()
        own[list(self.empty)] = 0.0
        heavy = set(top[own > 0.0].tolist())
        for body, (entry, source) in self.weighed.items():
            if top[body] >= 0:
                self._assume(builder, body, entry, source)
        bare = [body for body in self.empty if top[body] >= 0 and int(top[body]) not in heavy]
        if self.given is not None:
            for body in bare:
                self._assume(builder, body, self.received[body], "by `static_link_mass`")
            return
        carrying = _carrying(np.flatnonzero(own > 0.0), children, parents)
        for body in bare:
            if body == top[body]:
                self._give_least(builder, body, body in carrying)

    def _assume(self, builder: ModelBuilder, body: int, entry: ReportEntry, source: str) -> None:
        entry.refused = True
        self.report.assumed_masses[str(builder.body_key[body])] = float(builder.body_mass[body]), source

    def _give_least(self, builder: ModelBuilder, body: int, carries: bool) -> None:
        """Let a body have a mass that changes nothing, and tell it apart where nothing else gives it one."""
        builder.body_mass[body] = LEAST_MASS
        inertia = np.array(builder.body_inertia[body], np.float64).reshape(3, 3)
        builder.body_inertia[body] = inertia + LEAST_MOMENT * np.eye(3)
        least = f"{LEAST_MASS:g} kg and {LEAST_MOMENT:g} kg m^2"
        text = f"the {self.kind} moves without mass; it receives {least}, which what it carries outweighs"
        if not carries:
            text = f"the {self.kind} moves without mass, and so does all that it carries; it receives {least}"
        entry = self.report.approximated(self.empty[body], text)
        if not carries:
            self._assume(builder, body, entry, "the least that works")


def _carrying(heavy: np.ndarray, children: np.ndarray, parents: np.ndarray) -> set[int]:
    """Return the bodies from which joints lead outwards to one of those that have mass."""
    above = dict(zip(children.tolist(), parents.tolist(), strict=True))
    found: set[int] = set()
    for body in heavy.tolist():
        while body >= 0 and body not in found:
            found.add(body)
            body = above.get(body, -1)
    return found
