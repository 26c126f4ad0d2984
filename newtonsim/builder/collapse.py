"""Merging of bodies that fixed joints weld together."""

import numpy as np
import warp as wp

from newtonsim.builder.bodies import BodyMethods
from newtonsim.builder.complete import CompletionMethods
from newtonsim.builder.placement import Unplaced
from newtonsim.errors import ModelError
from newtonsim.geometry.transforms import IDENTITY, transform_inverse, transform_multiply, transform_point
from newtonsim.scene.arrays import MODEL_ARRAYS
from newtonsim.scene.enums import JointType


class CollapseMethods(CompletionMethods, BodyMethods):
    """The part of ModelBuilder that merges bodies."""

    def collapse_fixed_joints(self, verbose: bool | None = None) -> dict:
        """Remove the fixed joints and merge the bodies they connect.

        The body above a fixed joint takes over the mass, inertia, shapes, joints, constraints, muscle points,
        tendon points and sites of the body below. A body fixed to the world becomes part of the world: its
        shapes become static.

        Args:
            verbose: Whether to print what was merged; None for `wp.config.verbose`.

        Returns:
            A dict whose values are indexed by old indices: "body_remap" and "joint_remap" (new indices of
            what remains), "body_merged_parent" (new index of the body that absorbed a merged one, -1 for the
            world), "body_merged_transform" (its pose in that body's frame) and "merged_body_data" (its "key",
            "mass", "com", "inertia" and "shapes").
        """
        verbose = getattr(wp.config, "verbose", False) if verbose is None else verbose
        target, place = self._merge_targets()
        merged = sorted(target)
        kept = [body for body in range(self.body_count) if body not in target]
        body_remap = {old: new for new, old in enumerate(kept)}
        remaining = [j for j in range(self.joint_count) if self.joint_type[j] != JointType.FIXED]
        joint_remap = {old: new for new, old in enumerate(remaining)}
        shapes = self.body_shapes
        data = {
            body: {
                "key": self.body_key[body],
                "mass": self.body_mass[body],
                "com": self.body_com[body],
                "inertia": self.body_inertia[body],
                "shapes": shapes.get(body, []),
            }
            for body in merged
        }
        for body in merged:
            com, inertia = (
                np.array(self.body_com[body], np.float64),
                np.array(self.body_inertia[body], np.float64),
            )
            self._add_body_mass(target[body], self.body_mass[body], com, inertia.reshape(3, 3), place[body])
        self._move_to_targets(target, place)
        self._renumber(kept, remaining, body_remap, joint_remap)
        self._unplaced = Unplaced()
        if verbose:
            for body in merged:
                print(f"merged body '{data[body]['key']}'")  # noqa: T201 - asked for by `verbose`
        return {
            "body_remap": body_remap,
            "joint_remap": joint_remap,
            "body_merged_parent": {body: body_remap.get(target[body], -1) for body in merged},
            "body_merged_transform": {body: wp.transform(*place[body]) for body in merged},
            "merged_body_data": data,
        }

    def _merge_targets(self) -> tuple[dict[int, int], dict[int, np.ndarray]]:
        """Return for each body that is merged the body that absorbs it and its pose there."""
        above: dict[int, tuple[int, np.ndarray]] = {}
        for joint in range(self.joint_count):
            if self.joint_type[joint] == JointType.FIXED:
                pose = transform_multiply(self.joint_X_p[joint], transform_inverse(self.joint_X_c[joint]))
                above[self.joint_child[joint]] = (self.joint_parent[joint], pose)
        target: dict[int, int] = {}
        place: dict[int, np.ndarray] = {}
        for body in above:
            at, pose, steps = body, IDENTITY, 0
            while at in above:
                at, relative = above[at]
                pose = transform_multiply(relative, pose)
                steps += 1
                if steps > len(above):
                    raise ModelError(f"body '{self.body_key[body]}': its fixed joints form a cycle")
            target[body], place[body] = at, pose
        return target, place

    def _move_to_targets(self, target: dict[int, int], place: dict[int, np.ndarray]) -> None:
        """Express what is attached to merged bodies in the frames of the bodies that absorbed them."""
        for shape, body in enumerate(self.shape_body):
            if body in target:
                self.shape_body[shape] = target[body]
                self.shape_transform[shape] = wp.transform(
                    *transform_multiply(place[body], self.shape_transform[shape])
                )
        for joint, body in enumerate(self.joint_parent):
            if body in target and self.joint_type[joint] != JointType.FIXED:
                self.joint_parent[joint] = target[body]
                self.joint_X_p[joint] = wp.transform(*transform_multiply(place[body], self.joint_X_p[joint]))
        for bodies, frames in (
            (self.constraint_parent, self.constraint_X_p),
            (self.constraint_child, self.constraint_X_c),
        ):
            for constraint, body in enumerate(bodies):
                if body in target:
                    bodies[constraint] = target[body]
                    frames[constraint] = wp.transform(*transform_multiply(place[body], frames[constraint]))
        for point, body in enumerate(self.muscle_bodies):
            if body in target:
                self.muscle_bodies[point] = target[body]
                self.muscle_points[point] = wp.vec3(*transform_point(place[body], self.muscle_points[point]))
        for element, body in enumerate(self.tendon_element_body):
            if body in target:
                point = transform_point(place[body], self.tendon_element_point[element])
                self.tendon_element_body[element] = target[body]
                self.tendon_element_point[element] = wp.vec3(*point)
        for column, frames in enumerate((self.actuator_frame, self.actuator_reference)):
            for actuator, bodies in enumerate(self.actuator_bodies):
                body = bodies[column]
                if body in target:
                    frames[actuator] = wp.transform(*transform_multiply(place[body], frames[actuator]))
                    moved = list(bodies)
                    moved[column] = target[body]
                    self.actuator_bodies[actuator] = tuple(moved)
        for index, site in enumerate(self.sites):
            if site["body"] in target:
                xform = wp.transform(*transform_multiply(place[site["body"]], site["xform"]))
                self.sites[index] = {**site, "body": target[site["body"]], "xform": xform}

    def _renumber(
        self, kept: list[int], remaining: list[int], body_remap: dict[int, int], joint_remap: dict[int, int]
    ) -> None:
        """Drop merged bodies and fixed joints from all lists; fixed joints have no axes or coordinates."""
        chosen = {"body": kept, "joint": remaining}
        before = np.searchsorted(remaining, np.arange(self.joint_count + 1)).tolist()
        bounds = zip(self.articulation_start, self._articulation_ends().tolist(), self.articulation_key)
        left = [
            (before[start], before[end], key) for start, end, key in bounds if before[start] < before[end]
        ]
        for spec in MODEL_ARRAYS:
            if spec.per in chosen:
                values = getattr(self, spec.name)
                values[:] = [values[i] for i in chosen[spec.per]]
        for name in (
            "joint_parent",
            "joint_child",
            "constraint_parent",
            "constraint_child",
            "shape_body",
            "muscle_bodies",
            "tendon_element_body",
        ):
            values = getattr(self, name)
            values[:] = [body_remap.get(body, body) for body in values]
        self.actuator_bodies[:] = [
            tuple(body_remap.get(body, body) for body in bodies) for bodies in self.actuator_bodies
        ]
        self.actuator_joint[:] = [joint_remap.get(joint, joint) for joint in self.actuator_joint]
        self.sites = [{**site, "body": body_remap.get(site["body"], site["body"])} for site in self.sites]
        self.joint_mimic = [
            (joint_remap[a], joint_remap[b], m, c)
            for a, b, m, c in self.joint_mimic
            if a in joint_remap and b in joint_remap
        ]
        self.articulation_start = [start for start, _, _ in left]
        self.articulation_end = [end for _, end, _ in left]
        self.articulation_key = [key for _, _, key in left]
