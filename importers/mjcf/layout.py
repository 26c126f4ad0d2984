"""From the joints of one MJCF body to joints of newtonsim.

MuJoCo moves a body by its joints one after the other, each in the frame that the earlier ones have moved:
T = T_0 * J_1(q_1) * J_2(q_2) ..., with J = Trans(axis q) for a slide and Trans(pos) Rot(axis, q) Trans(-pos)
for a hinge. One joint of newtonsim does the same for up to three slides followed by up to three hinges with
one anchor. What goes beyond that (a slide after a hinge, hinges with different anchors, a ball after other
joints) becomes a chain of joints with bodies of negligible mass between them.
"""

from dataclasses import dataclass, field

import numpy as np

from newtonsim.importers.mjcf.records import Joint
from newtonsim.scene.enums import JointType

SAME_ANCHOR = 1.0e-9
"""Anchors closer than this [m] are one."""

_KINDS = {
    (1, 0): JointType.PRISMATIC,
    (0, 1): JointType.REVOLUTE,
    (0, 2): JointType.UNIVERSAL,
    (0, 3): JointType.COMPOUND,
}
"""Types of joints by their numbers of slides and hinges."""


@dataclass(slots=True)
class Segment:
    """One joint of newtonsim: its MJCF joints, slides before hinges."""

    slides: list[Joint] = field(default_factory=list)
    hinges: list[Joint] = field(default_factory=list)
    ball: Joint | None = None

    @property
    def joints(self) -> list[Joint]:
        """All joints in the order of the coordinates."""
        return [*self.slides, *self.hinges] if self.ball is None else [self.ball]

    @property
    def anchor(self) -> np.ndarray:
        """Origin of the joint frame in the body frame (3,) [m]."""
        return (self.ball or (self.hinges or self.slides)[0]).pos if self.ball or self.hinges else np.zeros(3)

    @property
    def kind(self) -> JointType:
        """Joint type with these axes."""
        if self.ball is not None:
            return JointType.BALL
        return _KINDS.get((len(self.slides), len(self.hinges)), JointType.D6)

    def accepts(self, joint: Joint) -> bool:
        """Whether the joint can follow in this segment."""
        if self.ball is not None or joint.kind == "ball":
            return False
        if joint.kind == "slide":
            return not self.hinges and len(self.slides) < 3
        if len(self.hinges) == 3:
            return False
        return not self.hinges or bool(np.linalg.norm(joint.pos - self.hinges[0].pos) < SAME_ANCHOR)


def segments(joints: list[Joint], single: bool = False) -> list[Segment]:
    """Split the joints of a body, without free joints, into as few segments as possible, or one for each."""
    result: list[Segment] = []
    for joint in joints:
        if single or not result or not result[-1].accepts(joint):
            result.append(Segment())
        if joint.kind == "ball":
            result[-1].ball = joint
        else:
            (result[-1].slides if joint.kind == "slide" else result[-1].hinges).append(joint)
    return result
