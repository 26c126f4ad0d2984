"""Frames of SDFormat: which pose is given in which frame, and what each frame is attached to.

Every model and every world is a scope. Its frames are its links, joints, <frame>s and nested models; a name
`a::b` is the frame b of the nested model a. Poses form a graph by `relative_to`, which must end at the frame
of the scope itself; frames are attached to links by `attached_to`.
Reference: http://sdformat.org/tutorials?tut=pose_frame_semantics_proposal
"""

from dataclasses import dataclass, field
from itertools import count

from newtonsim.importers.files.xml import Node
from newtonsim.importers.geometry.pose import Pose
from newtonsim.importers.sdf import text
from newtonsim.importers.sdf.document import MAX_NESTING, Document
from newtonsim.importers.sdf.records import WORLD

MODEL_FRAME, WORLD_FRAME = "__model__", "world"
_RESERVED = ("__root__", MODEL_FRAME, WORLD_FRAME)


@dataclass(slots=True)
class Frame:
    """A frame as it is declared: its pose in another frame, and the frame that it is attached to."""

    node: Node
    local: Pose
    relative_to: str
    attached_to: str | None


@dataclass(slots=True, eq=False)
class Scope:
    """A model or a world.

    Attributes:
        node: The element.
        children: Its children with includes expanded.
        prefix: What stands before the names of its links in the report.
        static: Whether its links cannot move.
        base: Name of the frame that its poses are in.
        frames: Declared frames by name.
        nested: Scopes of nested models by name.
        canonical: Name of the link that its own frame is attached to; None without links.
        placed: Poses in the scope's frame that are known already.
    """

    node: Node
    children: list[Node]
    prefix: str
    static: bool
    base: str
    frames: dict[str, Frame] = field(default_factory=dict)
    nested: dict[str, "Scope"] = field(default_factory=dict)
    canonical: str | None = None
    placed: dict[str, Pose] = field(default_factory=dict)

    def locate(self, name: str, node: Node) -> Pose:
        """Pose of a frame in the frame of this scope.

        Args:
            name: Of the frame.
            node: Element that refers to it, for errors.
        """
        chain: list[tuple[str, Pose]] = []
        seen: set[str] = set()
        while name != self.base and name not in self.placed:
            if name in seen:
                raise node.error(f"the frame {name!r} is given relative to itself")
            seen.add(name)
            if "::" in name:
                local, onward = self._inside(name, node)
            else:
                frame = self._frame(name, node)
                local, onward = frame.local, frame.relative_to
            chain.append((name, local))
            name = onward
        pose = self.placed.get(name, Pose.identity())
        for member, local in reversed(chain):
            pose = pose @ local
            self.placed[member] = pose
        return pose

    def link_of(self, name: str, node: Node) -> str:
        """Scoped name of the link that a frame is attached to, or WORLD."""
        seen: set[str] = set()
        while True:
            if name == WORLD_FRAME and name not in self.frames:
                return WORLD
            if name == self.base:
                name = self._canonical(node)
            if name in seen:
                raise node.error(f"the frame {name!r} is attached to itself")
            seen.add(name)
            if "::" in name:
                first, _, rest = name.partition("::")
                return self._nested(first, node).link_of(rest, node)
            if name in self.nested:
                return self.nested[name].link_of(MODEL_FRAME, node)
            frame = self._frame(name, node)
            if frame.node.tag == "link":
                return self.prefix + name
            name = frame.attached_to or self.base

    def _inside(self, name: str, node: Node) -> tuple[Pose, str]:
        first, _, rest = name.partition("::")
        return self._nested(first, node).locate(rest, node), first

    def _nested(self, name: str, node: Node) -> "Scope":
        if name not in self.nested:
            raise node.error(f"the model {name!r} is not there")
        return self.nested[name]

    def _frame(self, name: str, node: Node) -> Frame:
        if name not in self.frames:
            raise node.error(f"the frame {name!r} is not there")
        return self.frames[name]

    def _canonical(self, node: Node) -> str:
        if self.canonical is None:
            raise node.error("the model has no link to which its frame could be attached")
        return self.canonical


def read_scope(
    node: Node,
    document: Document,
    prefix: str,
    static: bool = False,
    above: tuple[str, ...] = (),
    depth: int = 0,
) -> Scope:
    """Read the frames of a model or world and of all models inside.

    Args:
        node: The <model>, <world> or <sdf> element.
        document: The file.
        prefix: What stands before the names of its links.
        static: Whether a model around it is static.
        above: Model files that enclose it.
        depth: Number of models around it.
    """
    if depth > MAX_NESTING:
        raise node.error(f"models are nested more than {MAX_NESTING} deep")
    is_model = node.tag == "model"
    static = static or (is_model and text.flag(node, "static", False))
    above = (*above, node.path) if node.path else above
    children = document.expand(node, above)
    scope = Scope(node, children, prefix, static, MODEL_FRAME if is_model else WORLD_FRAME)
    for child in children:
        if child.tag not in ("link", "joint", "frame", "model"):
            continue
        name = _free_name(child, scope, document)
        if child.tag == "model":
            scope.nested[name] = read_scope(child, document, f"{prefix}{name}::", static, above, depth + 1)
        scope.frames[name] = _read_frame(child, scope)
    scope.canonical = node.text_of("canonical_link") or _first_link(scope)
    for name, inner in scope.nested.items():
        # the pose of a model is that of its placement frame
        placement = inner.node.text_of("placement_frame") or MODEL_FRAME
        frame = scope.frames[name]
        frame.local = frame.local @ inner.locate(placement, inner.node).inverse()
    return scope


def _free_name(node: Node, scope: Scope, document: Document) -> str:
    """Name of a new frame; before 1.7 no name was reserved, and models could share one."""
    name, strict = node.required("name"), document.version(node) >= (1, 7)
    if "::" in name or (strict and name in _RESERVED):
        raise node.error(f"the name {name!r} is reserved")
    if name not in scope.frames:
        return name
    if strict or node.tag != "model":
        raise node.error(f"a second element has the name {name!r}")
    free = next(f"{name}_{k}" for k in count(1) if f"{name}_{k}" not in scope.frames)
    document.report.approximated(node, f"the name is taken by another model; this one is called {free!r}")
    return free


def _read_frame(node: Node, scope: Scope) -> Frame:
    pose = node.find("pose")
    attached, default = None, scope.base
    if node.tag == "joint":
        attached = text.required(node, "child")
        default = scope.base if attached == WORLD_FRAME and attached not in scope.frames else attached
    elif node.tag == "frame":
        attached = node.text_of("attached_to") or None
        default = attached or scope.base
    given = pose.text_of("relative_to") if pose is not None else None
    return Frame(node, text.pose(pose), given or default, attached)


def _first_link(scope: Scope) -> str | None:
    """Name of the first link, in nested models after the model's own."""
    for name, frame in scope.frames.items():
        if frame.node.tag == "link":
            return name
    for name, inner in scope.nested.items():
        if inner.canonical is not None:
            return f"{name}::{inner.canonical}"
    return None
