"""Tendons: lengths along joint coordinates or through points of bodies, and equalities between them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import warp as wp

from newtonsim.builder.lists import BuilderLists
from newtonsim.errors import ModelError
from newtonsim.geometry.transforms import as_vector, transform_point
from newtonsim.scene.arrays import SOLIMP, SOLREF
from newtonsim.scene.enums import AXIS, JOINT_MODE_FORCE, ON_AXIS, ON_BODY, PULLEY, SIDE, WRAP, JointMode

MUSCLE_NUMBERS, MUSCLE_FORCE, MUSCLE_VMAX = 13, 2, 5
"""Columns of `Model.tendon_muscle`, that of the largest force, and that of vmax, 0 without a muscle."""


@dataclass(frozen=True)
class TendonWrap:
    """A sphere or cylinder that a spatial tendon wraps around, between two points of its path.

    Attributes:
        body: The body that carries it, -1 for the world.
        position: Its centre in the frame of the body [m].
        radius: Its radius [m].
        axis: Axis of a cylinder without ends, in the frame of the body; None for a sphere.
        side: Body and position [m] of a point on the side that the path takes; a point inside makes the path
            run through the inside. None for the shorter side.
    """

    body: int
    position: npt.ArrayLike
    radius: float
    axis: npt.ArrayLike | None = None
    side: tuple[int, npt.ArrayLike] | None = None


@dataclass(frozen=True)
class TendonMuscle:
    """A muscle that pulls along a tendon: F0 (a FL(L) FV(V) + FP(L)), as MuJoCo has it.

    The length L is in units of the optimal one, and 1 there; the velocity V in units of `vmax` of them a
    second. The control input of the tendon is the activation a; how it follows a control is up to
    `newtonsim.actuators.Activation`.

    Source: MuJoCo's documentation, "Modeling", section "Muscles".

    Attributes:
        force: Largest active force at rest, F0 [N].
        length_range: Shortest and largest length of the tendon [m]; in the other order for a muscle that
            lengthens it, as one on the other side of a joint does.
        range: L at these lengths.
        lmin, lmax: L from which on, and to which, there is active force.
        vmax: Velocity of shortening without active force, in optimal lengths a second [1/s].
        fpmax: Twice the passive force half-way between L = 1 and `lmax`, in F0.
        fvmax: Active force of fast lengthening, in F0.
        time_constants: Time constants of a rising and of a falling activation [s].
        smoothing: Width of the band of controls in which one blends into the other.

    Raises:
        ModelError: A number is out of range.
    """

    force: float
    length_range: tuple[float, float]
    range: tuple[float, float] = (0.75, 1.05)
    lmin: float = 0.5
    lmax: float = 1.6
    vmax: float = 1.5
    fpmax: float = 1.3
    fvmax: float = 1.2
    time_constants: tuple[float, float] = (0.01, 0.04)
    smoothing: float = 0.0

    def __post_init__(self) -> None:
        wrong = not np.isfinite(self.numbers()).all() or self.force < 0.0
        wrong |= self.range[0] >= self.range[1] or self.length_range[0] == self.length_range[1]
        wrong |= not 0.0 <= self.lmin < 1.0 < self.lmax or self.vmax <= 0.0 or self.fvmax < 1.0
        wrong |= self.fpmax < 0.0 or min(self.time_constants) <= 0.0 or self.smoothing < 0.0
        if wrong:
            raise ModelError(
                "TendonMuscle: expected lmin < 1 < lmax, fvmax of at least 1, ranges that are not empty, "
                f"positive vmax and time_constants, and all other numbers at least 0, got {self}"
            )

    def numbers(self) -> tuple[float, ...]:
        """Its row of `Model.tendon_muscle`."""
        curves = (self.force, self.lmin, self.lmax, self.vmax, self.fpmax, self.fvmax)
        times = (*self.time_constants, self.smoothing)
        return tuple(map(float, (*self.range, *curves, *self.length_range, *times)))


def wrapped_length(
    start: np.ndarray,
    end: np.ndarray,
    centre: np.ndarray,
    axis: np.ndarray,
    radius: float,
    side: np.ndarray | None,
) -> float:
    """Return the length of a path [m], see `kernels.tendons.wrapping.wrap_around`."""
    from newtonsim.kernels.tendons.wrapping import wrap_around

    vectors = [wp.vec3(*vector) for vector in (start, end, centre, axis)]
    path = wrap_around(*vectors, radius, int(side is not None), wp.vec3(*(centre if side is None else side)))
    first, last = np.array(path.first), np.array(path.last)
    return float(np.linalg.norm(first - start) + path.arc + np.linalg.norm(end - last))


def belongings(path: Mapping[str, np.ndarray], i: int) -> tuple[int | None, int | None]:
    """Return the elements with the second axis point and the side point of what element i wraps around."""
    axis = i + 1 if path["kind"][i + 1] == AXIS else None
    side = i + 1 if axis is None else i + 2
    return axis, side if path["kind"][side] == SIDE else None


def path_length(path: Mapping[str, np.ndarray], span: range, poses: np.ndarray) -> float:
    """Return the length of the segments of a path in given poses [m].

    Args:
        path: Arrays of all elements, by name without "tendon_element_".
        span: Elements of the path.
        poses: Poses of all bodies (body_count, 7).
    """

    def place(i: int) -> np.ndarray:
        body, point = int(path["body"][i]), path["point"][i].astype(np.float64)
        return point if body < 0 else transform_point(poses[body], point)

    total, share, before, wrap = 0.0, 1.0, None, None
    for i in span:
        kind = int(path["kind"][i])
        if kind == PULLEY:
            share, before = 1.0 / float(path["factor"][i]), None
        elif kind == WRAP:
            wrap = i
        elif kind == ON_BODY:
            here = place(i)
            if wrap is not None and before is not None:
                axis, side = belongings(path, wrap)
                centre = place(wrap)
                along = np.zeros(3) if axis is None else place(axis) - centre
                by = None if side is None else place(side)
                total += share * wrapped_length(before, here, centre, along, float(path["factor"][wrap]), by)
            elif before is not None:
                total += share * float(np.linalg.norm(here - before))
            before, wrap = here, None
    return total


class TendonMethods(BuilderLists):
    """The part of ModelBuilder that adds tendons, which FeatherstoneSolver and MuJoCoSolver simulate.

    Both methods for tendons take these keyword arguments, lengths in m (in rad if all joints are hinges):

    - key: name.
    - stiffness [N/m], damping [N s/m]: f = -k (l - l0) - b l'.
    - spring_length: rest length l0, or the ends of a range within which no spring acts; None for the length
    at which the tendon is added (bodies at `body_q`, joint coordinates zero).
    - limit_lower, limit_upper, limit_margin, limit_solref, limit_solimp: limits of the length, as soft as
    those of a `JointAxis` with `limit_solref`.
    - friction: dry friction [N].
    - armature: inertia that resists changes of the length [kg], not for a path with a `TendonWrap`.
    - mode, target_ke, target_kd, effort_limit, action: the drive, as that of a `JointAxis`, with the length
      in place of the coordinate; its control input is the tendon's entry in `Control.tendon_act`.
    - muscle: a `TendonMuscle` in place of the drive, with the activation as control input.
    """

    def add_tendon_fixed(
        self, axes: Sequence[tuple[int, float]], offset: float = 0.0, key: str | None = None, **options
    ) -> int:
        """Add a tendon whose length is a sum of joint coordinates.

        Args:
            axes: Joint axes, each with the factor of its coordinate.
            offset: Length where all coordinates are zero.
            key: Name.
            **options: See the class.

        Returns:
            The index of the tendon.

        Raises:
            ModelError: There are no axes, or an index is negative.
        """
        key = self._tendon_key(key)
        if not len(axes):
            raise ModelError(f"tendon '{key}': it has no joint axis")
        self.tendon_start.append(self._count("tendon_element"))
        for axis, factor in axes:
            if axis < 0:
                raise ModelError(
                    f"tendon '{key}': {axis} is not a joint axis (there are {self.joint_axis_count})"
                )
            self._add_element(ON_AXIS, axis=axis, factor=factor)
        return self._add_tendon(key, offset, offset, options)

    def add_tendon_spatial(
        self,
        path: Sequence[tuple[int, npt.ArrayLike] | float | TendonWrap],
        offset: float = 0.0,
        key: str | None = None,
        **options,
    ) -> int:
        """Add a tendon that runs from point to point, straight or around obstacles between them.

        Args:
            path: Points as (body, position in its frame [m]), body -1 for the world; a number d between them
                is a pulley: lengths after it are divided by d, and no segment connects the point before it
                with the point after it. A `TendonWrap` is placed between two points.
            offset: Added to the length [m].
            key: Name.
            **options: See the class.

        Returns:
            The index of the tendon.

        Raises:
            ModelError: A part of the path has fewer than two points, a divisor or radius is not positive,
                a `TendonWrap` is not between two points, or a path with one has armature.
        """
        key = self._tendon_key(key)
        if options.get("armature") and any(isinstance(stop, TendonWrap) for stop in path):
            raise ModelError(f"tendon '{key}': armature is not available with a TendonWrap")
        pieces: list[list] = [[]]
        divisors = [1.0]
        elements = []
        for number, stop in enumerate(path):
            if isinstance(stop, TendonWrap):
                neighbours = [*path[number - 1 : number], *path[number + 1 : number + 2]]
                if len(neighbours) < 2 or any(isinstance(n, (int, float, TendonWrap)) for n in neighbours):
                    raise ModelError(f"tendon '{key}': a TendonWrap must be between two points")
                elements += self._wrap_elements(key, stop)
                pieces[-1].append(stop)
                continue
            if isinstance(stop, (int, float)):
                if not stop > 0.0:
                    raise ModelError(f"tendon '{key}': the divisor {stop:g} of a pulley is not positive")
                divisors.append(float(stop))
                pieces.append([])
                elements.append((PULLEY, -1, np.zeros(3), float(stop)))
                continue
            body, position = stop
            point = as_vector(position, 3, f"tendon '{key}': position")
            pieces[-1].append(self._in_world(body, point))
            elements.append((ON_BODY, body, point, 1.0))
        pieces_used = [piece for piece in pieces if piece or len(pieces) == 1]
        if min(map(len, pieces_used)) < 2:
            raise ModelError(f"tendon '{key}': a part of its path has fewer than two points")
        self.tendon_start.append(self._count("tendon_element"))
        for kind, body, point, factor in elements:
            self._add_element(kind, body=body, point=point, factor=factor)
        length = sum(self._length(piece) / divisor for piece, divisor in zip(pieces, divisors))
        return self._add_tendon(key, offset, offset + length, options)

    def _wrap_elements(self, key: str, wrap: TendonWrap) -> list[tuple[int, int, np.ndarray, float]]:
        """Return the elements of a path that represent a sphere or cylinder."""
        if not wrap.radius > 0.0:
            raise ModelError(f"tendon '{key}': the radius {wrap.radius:g} of a TendonWrap is not positive")
        centre = as_vector(wrap.position, 3, f"tendon '{key}': position")
        found = [(WRAP, wrap.body, centre, float(wrap.radius))]
        if wrap.axis is not None:
            axis = as_vector(wrap.axis, 3, f"tendon '{key}': axis")
            size = float(np.linalg.norm(axis))
            if not size > 0.0:
                raise ModelError(f"tendon '{key}': the axis of a TendonWrap has no direction")
            found.append((AXIS, wrap.body, centre + axis / size, 1.0))
        if wrap.side is not None:
            body, position = wrap.side
            found.append((SIDE, body, as_vector(position, 3, f"tendon '{key}': side"), 1.0))
        return found

    def _in_world(self, body: int, point: np.ndarray) -> np.ndarray:
        """Return the current position of a point of a body; `finalize` reports bodies that do not exist."""
        return transform_point(self.body_q[body], point) if 0 <= body < self.body_count else point

    def _length(self, piece: list) -> float:
        """Return the current length of a part of a path."""
        total = 0.0
        for place, here in enumerate(piece[1:], start=1):
            before = piece[place - 1]
            if isinstance(here, TendonWrap):
                total += self._wrapped_length(before, here, piece[place + 1])
            elif not isinstance(before, TendonWrap):
                total += float(np.linalg.norm(here - before))
        return total

    def _wrapped_length(self, start: np.ndarray, wrap: TendonWrap, end: np.ndarray) -> float:
        centre = self._in_world(wrap.body, as_vector(wrap.position, 3, "position"))
        axis = np.zeros(3)
        if wrap.axis is not None:
            tip = as_vector(wrap.position, 3, "position") + as_vector(wrap.axis, 3, "axis")
            axis = self._in_world(wrap.body, tip) - centre
        side = None
        if wrap.side is not None:
            side = self._in_world(wrap.side[0], as_vector(wrap.side[1], 3, "side"))
        return wrapped_length(start, end, centre, axis, wrap.radius, side)

    def add_tendon_equality(
        self,
        tendon: int,
        other: int = -1,
        coefficients: Sequence[float] = (0.0, 1.0, 0.0, 0.0, 0.0),
        lengths: tuple[float, float] = (0.0, 0.0),
        solref: Sequence[float] = SOLREF,
        solimp: Sequence[float] = SOLIMP,
        enabled: bool = True,
        key: str | None = None,
    ) -> int:
        """Make the length of a tendon a polynomial of another's: l - l0 = Σ c_k (m - m0)^k.

        Args:
            tendon: The tendon.
            other: The other one; -1 for none, then only the first coefficient is used.
            coefficients: Up to five coefficients.
            lengths: l0 and m0 [m].
            solref: Its softness, as `shape_solref`.
            solimp: Its impedance, as `shape_solimp`.
            enabled: Whether it is active at the start.
            key: Name.

        Returns:
            The index of the equality.

        Raises:
            ModelError: There are more than five coefficients.
        """
        if len(coefficients) > 5:
            raise ModelError(f"tendon equality: expected up to five coefficients, got {len(coefficients)}")
        index = self._count("tendon_equality")
        self.tendon_equality_tendons.append((tendon, other))
        padded = [*map(float, coefficients), 0.0, 0.0, 0.0, 0.0, 0.0]
        self.tendon_equality_coefficients.append(tuple(padded[:5]))
        self.tendon_equality_lengths.append(tuple(map(float, lengths)))
        self.tendon_equality_enabled.append(int(enabled))
        self.tendon_equality_solref.append(tuple(map(float, solref)))
        self.tendon_equality_solimp.append(tuple(map(float, solimp)))
        self.tendon_equality_key.append(key if key is not None else f"tendon_equality_{index}")
        return index

    def _tendon_key(self, key: str | None) -> str:
        return key if key is not None else f"tendon_{self.tendon_count}"

    def _add_element(
        self,
        kind: int,
        axis: int = -1,
        body: int = -1,
        point: npt.ArrayLike = (0.0, 0.0, 0.0),
        factor: float = 1.0,
    ) -> None:
        self.tendon_element_kind.append(kind)
        self.tendon_element_axis.append(axis)
        self.tendon_element_body.append(body)
        self.tendon_element_point.append(wp.vec3(*as_vector(point, 3, "tendon: position")))
        self.tendon_element_factor.append(float(factor))

    def _add_tendon(self, key: str, offset: float, length: float, options: dict) -> int:
        """Append what all tendons have; `length` is the length at which it is added."""
        index = self.tendon_count
        known = {
            "stiffness": 0.0,
            "damping": 0.0,
            "spring_length": None,
            "limit_lower": -math.inf,
            "limit_upper": math.inf,
            "limit_margin": 0.0,
            "limit_solref": SOLREF,
            "limit_solimp": SOLIMP,
            "friction": 0.0,
            "armature": 0.0,
            "mode": JOINT_MODE_FORCE,
            "target_ke": 0.0,
            "target_kd": 0.0,
            "effort_limit": math.inf,
            "action": 0.0,
            "muscle": None,
        }
        unknown = set(options) - set(known)
        if unknown:
            raise TypeError(f"tendon '{key}': unexpected argument {min(unknown)!r}")
        given = known | options
        rest = length if given["spring_length"] is None else given["spring_length"]
        low, high = (rest, rest) if isinstance(rest, (int, float)) else rest
        self.tendon_offset.append(float(offset))
        self.tendon_spring_lower.append(float(low))
        self.tendon_spring_upper.append(float(high))
        for name in (
            "stiffness",
            "damping",
            "friction",
            "armature",
            "target_ke",
            "target_kd",
            "effort_limit",
        ):
            getattr(self, f"tendon_{name}").append(float(given[name]))
        for name in ("limit_lower", "limit_upper", "limit_margin"):
            getattr(self, f"tendon_{name}").append(float(given[name]))
        self.tendon_limit_solref.append(tuple(map(float, given["limit_solref"])))
        self.tendon_limit_solimp.append(tuple(map(float, given["limit_solimp"])))
        self.tendon_mode.append(int(JointMode(given["mode"])))
        muscle = given["muscle"]
        self.tendon_muscle.append((0.0,) * MUSCLE_NUMBERS if muscle is None else muscle.numbers())
        self.tendon_act.append(float(given["action"]))
        self.tendon_key.append(key)
        return index
