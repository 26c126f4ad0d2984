"""The mirror image of a robot: which joint corresponds to which, and whether the model is symmetric."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from newtonsim.errors import NewtonsimError
from newtonsim.geometry.transforms import quat_matrix, transform_inverse, transform_multiply, transform_point
from newtonsim.kinematics import eval_fk
from newtonsim.scene.enums import GeoType, JointType
from newtonsim.scene.joint_types import least_effort

if TYPE_CHECKING:
    from newtonsim.scene.model import Model

_FLIP = np.array([1.0, -1.0, 1.0])
"""Takes vectors to their mirror images at the plane y = 0."""
_REFLECTION = np.outer(_FLIP, _FLIP)
"""Takes rotation matrices and inertias to their mirror images, entry by entry."""
_TURNS = (JointType.REVOLUTE, JointType.PRISMATIC)
_OF_AXIS = ("target_ke", "target_kd", "stiffness", "velocity_limit")
_OF_DOF = ("armature", "damping", "friction")
_DIRECTIONS = np.array([[x, y, z] for x in (-1, 0, 1) for y in (-1, 0, 1) for z in (-1, 0, 1) if x or y or z])
_SIDES = re.compile(
    r"(?<![a-zA-Z])(?i:([fhrb]?)([lr])([fhb]?))(?![a-zA-Z])|((?<![a-zA-Z])(?i:left|right)|Left|Right)"
)
"""Sides in names: "left" and "right", and l, r, fl, rr, hl, LF, ... as words of their own."""


def other_side(name: str) -> str:
    """Return a name with left and right exchanged: "fl_hip" for "fr_hip"; the same if it has no side."""
    return _SIDES.sub(_exchanged, name)


def _exchanged(found: re.Match[str]) -> str:
    before, letter, after, word = found.groups()
    if word is None:
        # of "rl" and "rr" the first letter is the rear
        swapped = {"l": "r", "r": "l", "L": "R", "R": "L"}[letter]
        return f"{before}{swapped}{after}"
    new = {"left": "right", "right": "left"}[word.lower()]
    return new.upper() if word.isupper() else new.capitalize() if word[0].isupper() else new


class RobotMirror:
    """Which joint of a robot is the mirror image of which, at the plane y = 0 of its root.

    The root is a floating base in its own frame, or the world for a robot that is fixed to it. Joints
    correspond by their names, unless `pairs` says otherwise. Signs follow from the axes in the home pose.
    Bodies that fixed joints hold together are one rigid body: fixed joints need no counterparts.

    Args:
        model: The model, whose first world is used.
        root: The body at the root of the robot's tree.
        pairs: Names of joints that correspond, in addition to those by name.
        tolerance: Largest difference, relative to the greater of two numbers, and of lengths relative to the
            size of the robot.

    Attributes:
        partners: Name of the counterpart of each joint that is not fixed.
        signs: Its sign: the coordinate of the counterpart from home, in the mirror image of a pose, is that
            of the joint times the sign.

    Raises:
        NewtonsimError: A joint has no counterpart, or the robot is not symmetric; the error names the joint.
    """

    def __init__(self, model: Model, root: int, pairs: Mapping[str, str], tolerance: float):
        self._model, self._tolerance = model, tolerance
        self._read(root)
        both = {**pairs, **{b: a for a, b in pairs.items()}}
        self.partners: dict[str, str] = {}
        self.signs: dict[str, int] = {}
        for name in both:
            if name not in self._names and name not in self._fixed:
                raise NewtonsimError(f"mirror: there is no joint {name!r} in {', '.join(self._names)}")
        for name in self._names:
            partner = both.get(name, other_side(name))
            if partner not in self._names:
                raise NewtonsimError(
                    f"symmetry: joint {name!r} has no counterpart {partner!r}{self._pairs_by_place(both)}"
                )
            self.partners[name] = partner
        self._check_root(root)
        self._differences: list[tuple[str, str, str, float]] = []
        for name, partner in self.partners.items():
            self.signs[name] = self._compare(name, partner)
        if self._differences:
            raise self._asymmetric()

    def map_of(self, names: Sequence[str], what: str) -> list[int]:
        """Return the signed places, from 1, of the counterparts of joints among themselves.

        Args:
            names: The joints.
            what: What they belong to, for errors.

        Raises:
            NewtonsimError: A counterpart is not one of them.
        """
        for name in names:
            if self.partners[name] not in names:
                raise NewtonsimError(
                    f"symmetry: {what}: joint {name!r} is there, but its counterpart "
                    f"{self.partners[name]!r} is not"
                )
        return [self.signs[name] * (names.index(self.partners[name]) + 1) for name in names]

    def check_central(self, body: int, what: str) -> None:
        """Check that a body of the robot is its own mirror image, as vectors in its frame or to it take.

        Args:
            body: The body; one that is not part of the robot is let through.
            what: What it belongs to, for errors.

        Raises:
            NewtonsimError: It is not, or its axes are not those of its image.
        """
        name = next((name for name in self._names if body in self._rigid_body(name)), None)
        if name is None:
            return
        pose = self._poses[body]
        turn = quat_matrix(pose[3:])
        aside = abs(pose[1]) > self._tolerance * self._size
        if self.partners[name] != name or aside or np.abs(_REFLECTION * turn - turn).max() > self._tolerance:
            raise NewtonsimError(
                f"symmetry: {what}: the body of joint {name!r} and its axes are not their own mirror image; "
                "give the term a `mirror`"
            )

    def _read(self, root: int) -> None:
        """Find the joints of the tree, and the poses of its bodies at home, seen from the root."""
        model = self._model
        state = model.state()
        eval_fk(model, model.joint_q, model.joint_qd, None, state)
        poses = state.body_q.numpy().astype(np.float64)
        parents, children = model.joint_parent.numpy(), model.joint_child.numpy()
        kinds = model.joint_type.numpy()
        self._names: dict[str, int] = {}
        self._fixed: set[str] = set()
        rigid = {root: [root]}
        bodies = {root}
        floats = False
        for joint in range(model.joint_count // model.world_count):
            child, parent = int(children[joint]), int(parents[joint])
            if child == root:
                floats = kinds[joint] == JointType.FREE
            elif parent not in bodies:
                continue
            bodies.add(child)
            if kinds[joint] not in (*_TURNS, JointType.FIXED) and not (child == root and floats):
                kind = JointType(kinds[joint]).name
                raise NewtonsimError(
                    f"symmetry: joint {model.joint_key[joint]!r}: joints of type {kind} have no mirror map"
                )
            if kinds[joint] == JointType.FIXED and child != root:
                self._fixed.add(model.joint_key[joint])
                rigid[child] = rigid[parent]
                rigid[child].append(child)
                continue
            rigid.setdefault(child, [child])
            self._names[model.joint_key[joint]] = joint
        self._rigid = rigid
        frame = poses[root] if floats else np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])
        self._poses = transform_multiply(transform_inverse(frame), poses)
        self._kinds, self._parents, self._children = kinds, parents, children
        self._size = max(np.linalg.norm(self._poses[sorted(bodies), :3], axis=1).max(), 1.0e-2)
        self._arrays = {
            name: getattr(model, name).numpy()
            for name in ("body_mass", "body_com", "body_inertia", "joint_X_p", "joint_axis", "joint_q")
        }

    def _rigid_body(self, name: str) -> list[int]:
        """Return the body that a joint moves, and those that are fixed to it."""
        return self._rigid[int(self._children[self._names[name]])]

    def _nearest(self, name: str) -> str:
        """Return the joint whose bodies have their centre nearest to the mirror image of a joint's."""
        image = _FLIP * self._mass_properties(name)[1]
        apart = {other: np.linalg.norm(self._mass_properties(other)[1] - image) for other in self._names}
        return min(apart, key=lambda other: apart[other])

    def _pairs_by_place(self, known: Mapping[str, str]) -> str:
        """Return the option that names all counterparts which names do not tell, by place; "" without any."""
        pairs: dict[str, str] = {}
        for name in self._names:
            nearest, partner = self._nearest(name), known.get(name, other_side(name))
            told = partner in self._names and partner != name
            if not told and nearest not in (name, *pairs) and self._nearest(nearest) == name:
                pairs[name] = nearest
        return f'; by place they would be --option "mirror={pairs}"' if pairs else ""

    def _mass_properties(self, name: str) -> tuple[float, np.ndarray, np.ndarray]:
        """Return mass [kg], centre [m] and inertia [kg m²] of what a joint moves, seen from the root."""
        bodies, a = self._rigid_body(name), self._arrays
        masses = a["body_mass"][bodies].astype(np.float64)
        centres = transform_point(self._poses[bodies], a["body_com"][bodies].astype(np.float64))
        turns = quat_matrix(self._poses[bodies, 3:])
        mass = float(masses.sum())
        centre = masses @ centres / mass if mass > 0.0 else centres[0]
        arms = centres - centre
        own = turns @ a["body_inertia"][bodies].astype(np.float64) @ turns.swapaxes(1, 2)
        across = (arms**2).sum(axis=1)[:, None, None] * np.eye(3) - arms[:, :, None] * arms[:, None, :]
        return mass, centre, (own + masses[:, None, None] * across).sum(axis=0)

    def _check_root(self, root: int) -> None:
        first = next(name for name, joint in self._names.items() if self._children[joint] == root)
        if self.partners[first] != first:
            raise NewtonsimError(
                f"symmetry: joint {first!r} is that of the root, which corresponds to itself"
            )

    def _compare(self, name: str, partner: str) -> int:
        """Compare a joint and its body with their counterparts; return the sign of the joint."""
        one, other = self._names[name], self._names[partner]
        if self._kinds[one] != self._kinds[other]:
            image, there = (JointType(self._kinds[joint]).name for joint in (one, other))
            self._differ(name, partner, "types", image, there, math.inf)
            return 1
        sign = 1
        if self._kinds[one] in _TURNS:
            sign = self._compare_axes(name, partner)
            self._compare_drives(name, partner, sign)
        self._compare_bodies(name, partner)
        return sign

    def _line(self, joint: int) -> tuple[np.ndarray, np.ndarray]:
        """Return a point on the axis of a joint at home, and its direction, seen from the root."""
        frame = self._arrays["joint_X_p"][joint].astype(np.float64)
        parent = int(self._parents[joint])
        if parent >= 0:
            frame = transform_multiply(self._poses[parent], frame)
        axis = self._arrays["joint_axis"][int(self._model.joint_axis_start.numpy()[joint])]
        return frame[:3], quat_matrix(frame[3:]) @ axis

    def _compare_axes(self, name: str, partner: str) -> int:
        one, other = self._names[name], self._names[partner]
        (point, axis), (there, wanted) = self._line(one), self._line(other)
        turns = self._kinds[one] == JointType.REVOLUTE
        image = (-1.0 if turns else 1.0) * _FLIP * axis
        sign = 1 if image @ wanted > 0.0 else -1
        off = np.abs(wanted - sign * image).max()
        self._differ(name, partner, "axes", image.round(4), wanted.round(4), off)
        if turns:
            apart = there - _FLIP * point
            off = np.linalg.norm(apart - (apart @ wanted) * wanted) / self._size
            self._differ(name, partner, "anchors", (_FLIP * point).round(4), there.round(4), off)
        return sign

    def _compare_drives(self, name: str, partner: str, sign: int) -> None:
        model = self._model
        joints = self._names[name], self._names[partner]
        axes = [int(model.joint_axis_start.numpy()[joint]) for joint in joints]
        dofs = [int(model.joint_qd_start.numpy()[joint]) for joint in joints]
        home = [self._arrays["joint_q"][int(model.joint_q_start.numpy()[joint])] for joint in joints]
        for keys, places in ((_OF_AXIS, axes), (_OF_DOF, dofs)):
            for key in keys:
                values = getattr(model, f"joint_{key}").numpy()[places]
                self._compare_numbers(name, partner, key, *values)
        low, high = (getattr(model, f"joint_limit_{end}").numpy()[axes] - home for end in ("lower", "upper"))
        most = model.joint_effort_limit.numpy()[axes]
        least = least_effort(model.joint_effort_lower.numpy()[axes], most)
        for what, lower, upper in (("limits from home", low, high), ("effort limits", least, most)):
            ends = (lower[0], upper[0]) if sign > 0 else (-upper[0], -lower[0])
            for end, other in zip(ends, (lower[1], upper[1])):
                self._compare_numbers(name, partner, what, end, other)

    def _compare_bodies(self, name: str, partner: str) -> None:
        masses, centres, inertias = zip(*map(self._mass_properties, (name, partner)))
        self._compare_numbers(name, partner, "masses", *masses)
        image = _FLIP * centres[0]
        off = np.abs(image - centres[1]).max() / self._size
        self._differ(name, partner, "centres of mass", image.round(4), centres[1].round(4), off)
        image = _REFLECTION * inertias[0]
        off = np.abs(image - inertias[1]).max() / max(np.abs(image).max(), 1.0e-12)
        self._differ(name, partner, "inertias", image.round(6), inertias[1].round(6), off)
        reach = self._reach(name, _DIRECTIONS * _FLIP), self._reach(partner, _DIRECTIONS)
        off = np.abs(reach[0] - reach[1]).max() / self._size
        self._differ(name, partner, "shapes", reach[0].round(4), reach[1].round(4), off)

    def _reach(self, name: str, directions: np.ndarray) -> np.ndarray:
        """Return how far the shapes that a joint moves reach, seen from the root [m]; 0 without."""
        model = self._model
        found = [np.zeros(len(directions))]
        kinds, scales = model.shape_geo.type.numpy(), model.shape_geo.scale.numpy()
        shapes = (
            (body, shape) for body in self._rigid_body(name) for shape in model.body_shapes.get(body, ())
        )
        for body, shape in shapes:
            pose = transform_multiply(
                self._poses[body], model.shape_transform.numpy()[shape].astype(np.float64)
            )
            local = directions @ quat_matrix(pose[3:])
            source = model.shape_geo_src[shape]
            far = _support(GeoType(kinds[shape]), scales[shape].astype(np.float64), source, local)
            found.append(directions @ pose[:3] + far)
        return np.max(found[1:], axis=0) if len(found) > 1 else found[0]

    def _compare_numbers(self, name: str, partner: str, what: str, one: float, other: float) -> None:
        if one == other:  # also of infinite limits
            return
        largest = max(abs(one), abs(other), 1.0e-6)
        off = abs(one - other) / largest if math.isfinite(largest) else math.inf
        self._differ(name, partner, what, f"{one:.6g}", f"{other:.6g}", off)

    def _differ(
        self, name: str, partner: str, what: str, image: object, there: object, off: float | np.floating
    ) -> None:
        """Note what differs by a share that is larger than the tolerance."""
        if off <= self._tolerance:
            return
        text = f"{what} of {{}}: the mirror image has {image}, the robot {there}"
        self._differences.append((name, partner, text, float(off)))

    def _asymmetric(self) -> NewtonsimError:
        """Return an error that describes the first difference, and says how large the largest is."""
        name, partner, text, _ = self._differences[0]
        pair = f"joint {name!r}" if name == partner else f"joints {name!r} and {partner!r}"
        most = max(off for *_, off in self._differences)
        return NewtonsimError(
            f"symmetry: the robot is not its mirror image: {text.format(pair)}; differences are up to "
            f"{_rounded_up(most):g}, and `mirror_tolerance` is {self._tolerance:g}"
            f"{self._pairs_by_place(self.partners) if name == partner else ''}"
        )


def _rounded_up(number: float) -> float:
    """Return two digits of a positive number, not less than it."""
    if not math.isfinite(number):
        return number
    unit = 10.0 ** (math.floor(math.log10(number)) - 1)
    return math.ceil(number / unit) * unit


def _support(kind: GeoType, scale: np.ndarray, source: object, directions: np.ndarray) -> np.ndarray:
    """Return the support function of a shape in its own frame; 0 for kinds without a bound."""
    radius, half = scale[0], scale[1]
    length = np.linalg.norm(directions, axis=1)
    along, across = np.abs(directions[:, 1]), np.hypot(directions[:, 0], directions[:, 2])
    if kind == GeoType.SPHERE:
        return radius * length
    if kind == GeoType.BOX:
        return np.abs(directions) @ scale
    if kind == GeoType.ELLIPSOID:
        return np.linalg.norm(directions * scale, axis=1)
    if kind == GeoType.CAPSULE:
        return radius * length + half * along
    if kind == GeoType.CYLINDER:
        return radius * across + half * along
    if kind == GeoType.CONE:
        return np.maximum(half * directions[:, 1], radius * across - half * directions[:, 1])
    if kind == GeoType.MESH:
        return (directions @ (np.asarray(source.vertices) * scale).T).max(axis=1)  # pyright: ignore[reportAttributeAccessIssue]
    return np.zeros(len(directions))
