"""<attach>: a part of another MJCF file, or all of it, as a part of this one.

The other file keeps its own default classes, angle units, Euler sequence, limits and folders: they are worked
into its elements, which then mean the same in any file. Names get the prefix of <attach>.
Reference: https://mujoco.readthedocs.io/en/stable/XMLreference.html#body-attach
"""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from newtonsim.importers.files.report import ImportReport
from newtonsim.importers.files.resolve import FileResolver
from newtonsim.importers.files.xml import Node
from newtonsim.importers.mjcf.document import ORIENTATIONS, Document
from newtonsim.importers.mjcf.replicate import REFERENCES, REFERRING, copied

MAX_ATTACHED = 256

_ASSETS = ("mesh", "hfield", "material", "texture")
_POSED = ("body", "frame", "geom", "site", "inertial")
_LIMITS = {
    "range": "limited",
    "actuatorfrcrange": "actuatorfrclimited",
    "ctrlrange": "ctrllimited",
    "forcerange": "forcelimited",
}
_INERTIA_RULES = ("inertia_from_geom", "inertia_groups", "bound_mass", "bound_inertia", "balance_inertia")


class Attacher:
    """Replaces every <attach> of a document.

    Args:
        document: Changed in place.
        read: Reads another file with everything in it expanded.
        report: Receives remarks.
    """

    def __init__(self, document: Document, read: Callable[..., Document], report: ImportReport):
        self.document, self.read, self.report = document, read, report
        self.models = {
            node.text_of("name") or Path(node.text_of("file", "")).stem: node
            for section in document.sections("asset")
            for node in section.findall("model")
        }
        self.count = 0

    def run(self) -> None:
        """Expand all of them in the order of the document; what is attached has none left itself."""
        found = []
        for section in self.document.sections("worldbody"):
            parents = {id(child): parent for parent in section.walk() for child in parent.children}
            found += [(one, parents[id(one)]) for one in section.walk() if one.tag == "attach"]
        for node, parent in found:
            self.count += 1
            if self.count > MAX_ATTACHED:
                raise node.error(f"more than {MAX_ATTACHED} models are attached")
            at = next(k for k, child in enumerate(parent.children) if child is node)
            parent.children[at : at + 1] = [self._attached(node)]

    def _attached(self, node: Node) -> Node:
        """Return the part of the tree that stands in for <attach>, and add what belongs to it."""
        name = node.required("model")
        if name not in self.models:
            raise node.error(f"the model {name!r} is not defined in <asset>")
        asset = self.models[name]
        folder = Path(asset.path).parent if asset.path else self.document.folder
        other = self.read(FileResolver(folder).find(asset.required("file"), asset), node)
        part = _Part(other, self.document, node.text_of("prefix", ""), f"@{self.count}")
        self._note_rules(other, node)
        tree = part.tree(node)
        root = self.document.root
        root.children += part.sections(node.text_of("body") is not None, tree)
        known = {
            (one.tag, one.attrib.get("name"))
            for section in self.document.sections("asset")
            for one in section.children
        }
        assets = [one for one in part.assets() if (one.tag, one.attrib["name"]) not in known]
        root.children.append(Node("asset", {}, other.root.path, other.root.line, assets))
        for key in other.sections("keyframe"):
            self.report.ignored(key, "keyframes of an attached model")
        return tree

    def _note_rules(self, other: Document, node: Node) -> None:
        for rule in _INERTIA_RULES:
            if getattr(other.compiler, rule) != getattr(self.document.compiler, rule):
                self.report.approximated(
                    node, f"<compiler> of the attached model sets {rule}; that of this file is used"
                )


class _Part:
    """Elements of another document in the terms of the one that they go into."""

    def __init__(self, other: Document, document: Document, prefix: str, mark: str):
        self.other, self.document, self.prefix, self.mark = other, document, prefix, mark
        defaults = document.defaults
        for name, above in other.defaults.parents.items():
            # Nothing is left for these classes to fill in; they tell what the elements are.
            defaults.tables[name + mark] = {}
            defaults.parents[name + mark] = None if above is None else above + mark
            defaults.plain[name + mark] = other.defaults.plain.get(name, name)

    def tree(self, node: Node) -> Node:
        """The attached bodies in a frame."""
        holder = Node("worldbody", {}, node.path, node.line)
        for section in self.other.sections("worldbody"):
            holder.children += section.children
        inherited: dict[int, str | None] = {id(holder): None}
        body = node.text_of("body")
        start = holder
        for one in holder.walk():
            own = one.text_of("childclass", inherited[id(one)])
            inherited.update((id(child), own) for child in one.children)
            if body is not None and one.tag == "body" and one.attrib.get("name") == body:
                start = Node("worldbody", {}, node.path, node.line, [one])
        if body is not None and start is holder:
            raise node.error(f"the body {body!r} is not in the attached model")
        inherited.setdefault(id(start), None)
        result = copied(start, lambda one: self._attributes(one, inherited[id(one)]))
        return replace(result, tag="frame", attrib={"childclass": self.other.defaults.top + self.mark})

    def sections(self, partly: bool, tree: Node) -> list[Node]:
        """Contacts, constraints, tendons and actuators; of a part of the model those that stay in it."""
        inside = {one.attrib["name"] for one in tree.walk() if "name" in one.attrib}
        result = []
        for tag in REFERRING:
            for section in self.other.sections(tag):
                children = [
                    copied(child, lambda one, tag=tag: self._attributes(one, None, tag))
                    for child in section.children
                ]
                if partly:
                    children = [child for child in children if _refers_inside(child, inside)]
                if tag == "tendon":
                    inside |= {child.attrib["name"] for child in children if "name" in child.attrib}
                result.append(Node(tag, {}, section.path, section.line, children))
        return result

    def assets(self) -> list[Node]:
        """Meshes, height fields, materials and textures, with full file names."""
        result = []
        for section in self.other.sections("asset"):
            for child in section.children:
                if child.tag not in _ASSETS:
                    continue
                attributes = self._attributes(child, None)
                name = child.text_of("name") or Path(child.text_of("file", "")).stem
                if not name:
                    continue
                attributes["name"] = self.prefix + name
                if attributes.get("file"):
                    attributes["file"] = self._file(child.tag, attributes["file"])
                result.append(Node(child.tag, attributes, child.path, child.line, [], child.text))
        return result

    def _file(self, kind: str, name: str) -> str:
        """Where a file of the other model is; a missing one is found missing when it is used."""
        compiler = self.other.compiler
        if compiler.strip_path:
            name = name.replace("\\", "/").rpartition("/")[2]
        folder = compiler.texture_dir if kind == "texture" else compiler.mesh_dir
        places = [self.other.folder / folder / name, self.other.folder / name]
        return str(next((place for place in places if place.is_file()), places[0]))

    # -- attributes ------------------------------------------------------------------------------------------

    def _attributes(self, node: Node, inherited: str | None, section: str = "") -> dict[str, str]:
        """Attributes of an element with defaults, units and names worked in."""
        key = "equality" if section == "equality" else node.tag
        general = Node(key, node.attrib, node.path, node.line)
        resolved, class_name = self.other.defaults.resolve(general, inherited)
        attributes = dict(resolved.attrib)
        full = Node(node.tag, attributes, node.path, node.line)
        if node.tag in _POSED and section == "":
            self._rewrite_orientation(full, attributes)
        if node.tag == "joint" and section == "":
            self._rewrite_angles(full, attributes)
        if self.other.compiler.autolimits != self.document.compiler.autolimits:
            for name, flag in _LIMITS.items():
                if name in attributes:
                    attributes[flag] = str(self.other.is_limited(full, flag, name)).lower()
        self._rewrite_names(node, attributes)
        if node.tag not in ("body", "frame", "inertial", "freejoint"):
            attributes["class"] = (class_name or self.other.defaults.top) + self.mark
        return attributes

    def _rewrite_orientation(self, node: Node, attributes: dict[str, str]) -> None:
        if not any(name in attributes for name in ORIENTATIONS):
            return
        x, y, z, w = self.other.orientation_of(node).tolist()
        for name in ORIENTATIONS:
            attributes.pop(name, None)
        attributes["quat"] = f"{w!r} {x!r} {y!r} {z!r}"

    def _rewrite_angles(self, node: Node, attributes: dict[str, str]) -> None:
        if attributes.get("type", "hinge") not in ("hinge", "ball"):
            return
        for name in ("range", "ref", "springref"):
            values = node.bounds(name) if name == "range" else node.floats(name)
            if values is None or self.other.compiler.degrees == self.document.compiler.degrees:
                continue
            convert = math.degrees if self.document.compiler.degrees else math.radians
            attributes[name] = " ".join(repr(convert(value)) for value in map(float, values))

    def _rewrite_names(self, node: Node, attributes: dict[str, str]) -> None:
        if attributes.get("childclass"):
            attributes["childclass"] += self.mark
        for name in ("name", "mesh", "material", "hfield", "texture", *REFERENCES):
            if attributes.get(name) and attributes[name] != "world":
                attributes[name] = self.prefix + attributes[name]


def _refers_inside(node: Node, inside: set[str]) -> bool:
    """Whether all that an element refers to is in the attached part."""
    return all(one.attrib[name] in inside for one in node.walk() for name in REFERENCES if name in one.attrib)
