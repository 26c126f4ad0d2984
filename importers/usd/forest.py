"""Kinematic trees: which joints carry bodies and which close loops.

The world and kinematic bodies carry trees. A joint that would connect two bodies that are connected already
closes a loop; joints with drives come first into the trees, as drives of loops are not simulated.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import cast

import numpy as np

from newtonsim.geometry.transforms import quat_conjugate, quat_multiply, quat_rotate
from newtonsim.importers.geometry.pose import Pose
from newtonsim.importers.usd.records import AxisRecord, JointRecord

_TOGETHER = 1.0e-5
"""Distance [m] up to which the anchors of stacked hinges are one point."""


@dataclass(slots=True, eq=False)
class Edge:
    """A joint in a tree; `turned` if its second body carries its first."""

    joint: JointRecord
    parent: str | None
    child: str
    turned: bool


@dataclass(slots=True, eq=False)
class Tree:
    """Joints in an order in which parents come first.

    Attributes:
        root: Label of the floating body, None if the world or a kinematic body carries the tree.
        anchor: Label of that kinematic body.
        edges: The joints.
    """

    root: str | None
    anchor: str | None = None
    edges: list[Edge] = field(default_factory=list)


@dataclass(slots=True)
class Forest:
    """All trees, in the order of the stage, and the joints that close loops."""

    trees: list[Tree] = field(default_factory=list)
    loops: list[JointRecord] = field(default_factory=list)


def grow(
    bodies: Iterable[str], anchors: set[str | None], joints: list[JointRecord], preferred: set[str]
) -> Forest:
    """Choose trees.

    Args:
        bodies: Labels of all bodies in the order of the stage.
        anchors: None for the world, and labels of kinematic bodies.
        joints: Joints that hold bodies together.
        preferred: Labels of bodies that are to be roots of their trees.
    """
    bodies = [body for body in bodies if body not in anchors]
    forest = Forest()
    inside = _spanning(joints, anchors)
    forest.loops = [joint for joint, is_inside in zip(joints, inside) if not is_inside]
    held = [joint for joint, is_inside in zip(joints, inside) if is_inside]
    links: dict[str | None, list[JointRecord]] = {}
    for joint in held:
        for body in joint.bodies:
            links.setdefault(body, []).append(joint)
    reached: set[str] = set()
    for anchor in sorted(anchors, key=lambda label: label or ""):
        grown = [_climb(anchor, [_edge(joint, anchor)], links, reached) for joint in links.get(anchor, ())]
        if anchor is not None and grown:
            grown = [Tree(None, anchor, [edge for tree in grown for edge in tree.edges])]
        forest.trees += grown
    seconds = {joint.bodies[1] for joint in held}
    # A root that the file names comes first, then bodies that no joint has as its second one.
    for body in sorted(bodies, key=lambda label: (label not in preferred, label in seconds)):
        if body not in reached:
            reached.add(body)
            first = [_edge(joint, body) for joint in reversed(links.get(body, ()))]
            tree = _climb(None, first, links, reached)
            tree.root = body
            forest.trees.append(tree)
    order = {body: number for number, body in enumerate(bodies)}
    forest.trees.sort(key=lambda tree: order[tree.root or tree.edges[0].child])
    return forest


def merge_stacked(
    joints: list[JointRecord], adds_mobility: Callable[[JointRecord], bool]
) -> list[JointRecord]:
    """Make one joint of those that each add an axis between the same two bodies, as in MuJoCo.

    The first moves the body and the others with it. A stack becomes one joint if its slides come before its
    hinges and these turn about one point; others stay as they are.

    Args:
        joints: All joints.
        adds_mobility: Whether a joint may be one of several of its body.
    """
    stacks: dict[tuple[str | None, str | None], list[JointRecord]] = {}
    for joint in joints:
        if len(joint.axes) == 1 and not joint.excluded and adds_mobility(joint):
            stacks.setdefault(joint.bodies, []).append(joint)
    merged = {id(stack[0]): _merged(stack) for stack in stacks.values() if len(stack) > 1}
    gone = {
        id(joint)
        for stack in stacks.values()
        if len(stack) > 1 and merged[id(stack[0])] is not None
        for joint in stack[1:]
    }
    return [merged.get(id(joint)) or joint for joint in joints if id(joint) not in gone]


def _merged(stack: list[JointRecord]) -> JointRecord | None:
    """A joint with the axes of several, in the frame of its last hinge; None if no joint has them."""
    slides = [joint for joint in stack if joint.linear]
    hinges = stack[len(slides) :]
    if any(joint.linear for joint in hinges) or max(len(slides), len(hinges)) > 3:
        return None
    last = stack[-1]
    frame = last.frames[1]
    if any(np.linalg.norm(joint.frames[1].p - frame.p) > _TOGETHER for joint in hinges):
        return None
    axes = [_turned_axis(joint, frame) for joint in stack]
    closed = stack[0].frames[0] @ stack[0].frames[1].inverse()
    return replace(
        stack[0],
        kind="d6",
        frames=(closed @ frame, frame),
        linear=axes[: len(slides)],
        angular=axes[len(slides) :],
        stacked=True,
    )


def _turned_axis(joint: JointRecord, frame: Pose) -> AxisRecord:
    """The axis of a joint in another frame of its second body."""
    turn = quat_multiply(quat_conjugate(frame.q), joint.frames[1].q)
    (axis,) = joint.axes
    return replace(axis, direction=quat_rotate(turn, axis.direction))


def _spanning(joints: list[JointRecord], anchors: set[str | None]) -> list[bool]:
    """Which joints belong to a spanning forest (Kruskal 1956), driven ones first."""
    group: dict[str | None, str | None] = {}

    def find(body: str | None) -> str | None:
        body = None if body in anchors else body
        while body in group:
            body = group[body]
        return body

    inside = [False] * len(joints)
    for number in sorted(range(len(joints)), key=lambda k: (not joints[k].is_driven, k)):
        joint = joints[number]
        if joint.excluded or joint.kind == "distance":
            continue
        first, second = (find(body) for body in joint.bodies)
        if first != second:
            inside[number] = True
            # The world stays the name of its group.
            if first is None:
                first, second = second, first
            group[first] = second
    return inside


def _edge(joint: JointRecord, parent: str | None) -> Edge:
    turned = joint.bodies[0] != parent
    child = joint.bodies[0] if turned else joint.bodies[1]
    return Edge(joint, parent, cast("str", child), turned)


def _climb(
    anchor: str | None,
    stack: list[Edge],
    links: dict[str | None, list[JointRecord]],
    reached: set[str],
) -> Tree:
    """Collect the joints in a stack and all above them."""
    tree = Tree(None, anchor)
    while stack:
        edge = stack.pop()
        tree.edges.append(edge)
        reached.add(edge.child)
        for joint in reversed(links.get(edge.child, ())):
            if joint is not edge.joint:
                stack.append(_edge(joint, edge.child))
    return tree
