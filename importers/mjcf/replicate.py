"""<replicate>: copies of a part of the kinematic tree along a chain of equal displacements.

Reference: https://mujoco.readthedocs.io/en/stable/XMLreference.html#replicate
"""

from collections.abc import Callable

import numpy as np

from newtonsim.geometry.transforms import quat_rotate
from newtonsim.importers.files.limits import limits
from newtonsim.importers.files.xml import Node
from newtonsim.importers.geometry.pose import quat_from_euler
from newtonsim.importers.mjcf.document import Document

REFERENCES = {
    **dict.fromkeys(("joint", "joint1", "joint2", "jointinparent"), "joint"),
    **dict.fromkeys(("body", "body1", "body2"), "body"),
    **dict.fromkeys(("geom", "geom1", "geom2"), "geom"),
    **dict.fromkeys(("site", "site1", "site2", "refsite", "slidersite", "cranksite"), "site"),
    **dict.fromkeys(("tendon", "tendon1", "tendon2"), "tendon"),
}
"""Attributes that name an element of the model, and the kind of element."""

REFERRING = ("tendon", "contact", "equality", "actuator")
"""Sections whose elements refer to the kinematic tree; tendons come first, as others refer to them, too."""


def expand_replicates(document: Document) -> None:
    """Put copies in the place of every <replicate>, inner ones first, and copy what refers to them."""
    found = [
        (child, parent)
        for section in document.sections("worldbody")
        for parent in section.walk()
        for child in parent.children
        if child.tag == "replicate"
    ]
    room = limits.elements
    for node, parent in reversed(found):
        count = node.int("count", 0)
        if count < 1:
            raise node.error(f"attribute 'count' must be a positive number, got {node.text_of('count')!r}")
        room -= count * sum(1 for _ in node.walk())
        if room < 0:
            raise node.limit_error(f"the copies make more than {limits.elements} elements")
        suffixes = [f"{node.text_of('sep', '')}{k:0{len(str(count - 1))}d}" for k in range(count)]
        at = next(k for k, child in enumerate(parent.children) if child is node)
        parent.children[at : at + 1] = _copies(node, suffixes, document)
        names = {(_kind(one), one.attrib["name"]) for one in node.walk() if one.attrib.get("name")}
        names.discard(("replicate", node.attrib.get("name", "")))
        for section in (part for tag in REFERRING for part in document.sections(tag)):
            _copy_referring(section, names, suffixes)


def _copies(node: Node, suffixes: list[str], document: Document) -> list[Node]:
    """The copies in frames of their own: turned by multiples of the angles, displaced one after the other."""
    compiler = document.compiler
    turn = np.array([compiler.angle(value) for value in node.floats("euler", 3, (0.0, 0.0, 0.0))])
    offset, place, frames = node.floats("offset", 3, (0.0, 0.0, 0.0)), np.zeros(3), []
    for k, suffix in enumerate(suffixes):
        q = quat_from_euler(k * turn, compiler.eulerseq)
        x, y, z, w = q.tolist()
        pose = {"pos": " ".join(map(repr, place.tolist())), "quat": f"{w!r} {x!r} {y!r} {z!r}"}
        if "childclass" in node.attrib:
            pose["childclass"] = node.attrib["childclass"]
        inside = copied(node, lambda one, suffix=suffix: _suffixed(one, suffix)).children
        frames.append(Node("frame", pose, node.path, node.line, inside))
        place = place + quat_rotate(q, offset)
    return frames


def copied(root: Node, attributes: Callable[[Node], dict[str, str]]) -> Node:
    """A copy of an element and all below it, each with the attributes that a function gives it."""
    top = Node(root.tag, attributes(root), root.path, root.line, [], root.text)
    stack = [(root, top)]
    while stack:
        source, target = stack.pop()
        for child in source.children:
            copy = Node(child.tag, attributes(child), child.path, child.line, [], child.text)
            target.children.append(copy)
            stack.append((child, copy))
    return top


def _suffixed(node: Node, suffix: str) -> dict[str, str]:
    name = node.attrib.get("name")
    return {**node.attrib, "name": name + suffix} if name else dict(node.attrib)


def _kind(node: Node) -> str:
    return "joint" if node.tag == "freejoint" else node.tag


def _copy_referring(section: Node, names: set[tuple[str, str]], suffixes: list[str]) -> None:
    """Replace elements that refer to copied ones by one for each copy, after all others, as MuJoCo does."""
    kept, moved = [], []
    for child in section.children:
        refers = any(
            (kind, one.attrib[attribute]) in names
            for one in child.walk()
            for attribute, kind in REFERENCES.items()
            if attribute in one.attrib
        )
        (moved if refers else kept).append(child)
        if refers and child.attrib.get("name"):
            names.add(("tendon" if section.tag == "tendon" else child.tag, child.attrib["name"]))
    section.children = kept + [
        copied(child, lambda one, suffix=suffix: _redirected(one, names, suffix))
        for suffix in suffixes
        for child in moved
    ]


def _redirected(node: Node, names: set[tuple[str, str]], suffix: str) -> dict[str, str]:
    """Attributes with the names of copied elements replaced by those of one copy."""
    attributes = _suffixed(node, suffix)
    for attribute, kind in REFERENCES.items():
        if (kind, attributes.get(attribute)) in names:
            attributes[attribute] += suffix
    return attributes
