"""Merging of links that fixed joints hold together (URDF_MERGE_FIXED_LINKS), with PyBullet's rules.

Its treatment of masses was found by measurement: each link counts as a point mass at the origin of its frame,
regardless of its centre of mass in the file; its inertia is added without rotation; and each sum is replaced
by its principal moments, while the axes do not change.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from newtonsim.importers.geometry.pose import Pose
from newtonsim.pybullet_compat.descriptions.description import Geometry, Link, Visual
from newtonsim.pybullet_compat.descriptions.kinds import JointKind
from newtonsim.pybullet_compat.descriptions.mass import principal_axes


class Merger:
    """Merges the links of one robot in place.

    Args:
        links: Links by name.
        joints: Joint and name of the parent, by name of the child.
        below: Names of the children of each link, in order; changed like everything else.
        inertia: Inertia matrices (3, 3) of the file by name of the link.
        stand_ins: The look of links without visuals, by name.
        base_is_fixed: Whether the base is to stay without mass.
    """

    def __init__(
        self,
        links: dict[str, Link],
        joints: dict[str, tuple[Link, str]],
        below: dict[str, list[str]],
        inertia: dict[str, np.ndarray],
        stand_ins: dict[str, list[Visual]],
        base_is_fixed: bool,
    ):
        self.links, self.joints, self.below, self.inertia = links, joints, below, inertia
        self.stand_ins, self.base_is_fixed = stand_ins, base_is_fixed
        self.merged: set[str] = set()

    def merge(self, base: str) -> set[str]:
        """Merge everything below `base`; returns the names of the links that others were merged into."""
        stack = [base]
        while stack:
            name = stack.pop()
            static = name == base and (self.base_is_fixed or self.links[name].mass == 0.0)
            children = self.below[name]
            k = 0
            while k < len(children):
                child = children[k]
                if self.joints[child][0].joint_type != JointKind.FIXED:
                    k += 1
                    continue
                # the last child takes the place of the one that goes; those below it come at the end
                children[k] = children[-1]
                children.pop()
                self._absorb(name, child, static)
                for grandchild in self.below.pop(child):
                    joint, _ = self.joints[grandchild]
                    joint.joint_pose = self.joints[child][0].joint_pose @ joint.joint_pose
                    self.joints[grandchild] = (joint, name)
                    children.append(grandchild)
                del self.joints[child]
            stack.extend(reversed(children))
        return self.merged

    def _absorb(self, name: str, child: str, static: bool) -> None:
        link, other = self.links[name], self.links.pop(child)
        pose = self.joints[child][0].joint_pose
        if name not in self.merged:
            link.inertial_pose = Pose.identity()
            self.merged.add(name)
        if static:
            link.mass = 0.0
        else:
            self._add_mass(name, other.mass, self.inertia[child], pose.p)
        link.collisions = [*link.collisions, *(_moved(shape, pose) for shape in other.collisions)]
        link.visuals = [*link.visuals, *(_moved_visual(visual, pose) for visual in other.visuals)]
        shown = [_moved_visual(visual, pose) for visual in self.stand_ins.pop(child, [])]
        self.stand_ins[name] = [*self.stand_ins.get(name, []), *shown]

    def _add_mass(self, name: str, mass: float, inertia: np.ndarray, position: np.ndarray) -> None:
        link = self.links[name]
        total = link.mass + mass
        centre = link.inertial_pose.p
        joined = (link.mass * centre + mass * position) / total if total else np.zeros(3)
        moments, _ = principal_axes(
            self.inertia[name]
            + inertia
            + _parallel(link.mass, centre - joined)
            + _parallel(mass, position - joined)
        )
        self.inertia[name] = np.diag(moments)
        link.mass, link.inertial_pose = total, Pose(joined, Pose.identity().q)


def _parallel(mass: float, arm: np.ndarray) -> np.ndarray:
    return mass * (arm @ arm * np.eye(3) - np.outer(arm, arm))


def _moved(shape: Geometry, pose: Pose) -> Geometry:
    return replace(shape, pose=pose @ shape.pose)


def _moved_visual(visual: Visual, pose: Pose) -> Visual:
    return replace(visual, geometry=_moved(visual.geometry, pose))
