"""SDFormat documents: files, includes, and where `model://` leads.

Reference: http://sdformat.org/spec and the proposals on model composition at http://sdformat.org/tutorials
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from newtonsim.errors import ImportFileError
from newtonsim.importers.files.report import ImportReport
from newtonsim.importers.files.resolve import FileResolver
from newtonsim.importers.files.xml import Node, read_document
from newtonsim.importers.sdf import text

MAX_INCLUDES = 256
MAX_NESTING = 32
PATH_VARIABLES = ("SDF_PATH", "GZ_SIM_RESOURCE_PATH", "IGN_GAZEBO_RESOURCE_PATH", "GAZEBO_MODEL_PATH")
"""Environment variables with folders of models."""

_POSED = ("link", "frame", "model")
_FRAME_ATTRIBUTES = ("relative_to", "attached_to", "expressed_in")


class Document:
    """One file with the files that it includes.

    Attributes:
        root: The <sdf> element.
        included: The models of other files, once for each <include>.
        report: Receives remarks.
    """

    def __init__(
        self,
        source: str | bytes | os.PathLike,
        package_paths: Iterable[str | os.PathLike] | Mapping[str, str],
        report: ImportReport,
    ):
        self.report = report
        self.root, folder, notes = read_document(source)
        report.path = self.root.path
        for note in notes:
            report.ignored(None, note)
        self.resolver = FileResolver(folder, package_paths, PATH_VARIABLES)
        self.resolvers: dict[str | None, FileResolver] = {self.root.path: self.resolver}
        self.versions: dict[str | None, tuple[int, int]] = {self.root.path: _version(self.root)}
        self.included: list[Node] = []

    def version(self, node: Node) -> tuple[int, int]:
        """Version of the format that the file of an element is written in."""
        return self.versions[node.path]

    def find(self, uri: str, node: Node) -> Path:
        """Return the file that an element refers to."""
        return self.resolvers[node.path].find(uri, node)

    def expand(self, node: Node, above: tuple[str, ...] = ()) -> list[Node]:
        """Return the children of a model or world with its includes replaced by the models they name.

        Args:
            node: The <model>, <world> or <sdf> element.
            above: Model files that enclose it.
        """
        children = []
        for child in node.children:
            if child.tag != "include":
                children.append(child)
                continue
            model = self._included(child, above)
            if child.bool("merge", False):
                children += _merged(model, self.expand(model, (*above, model.path)))
            else:
                children.append(model)
        return children

    def _included(self, node: Node, above: tuple[str, ...]) -> Node:
        """Return the model of an <include> with the name, pose and state that the include gives it."""
        if len(self.included) >= MAX_INCLUDES:
            raise node.error(f"more than {MAX_INCLUDES} includes")
        path = self._model_file(text.required(node, "uri"), node)
        if str(path) in above or len(above) >= MAX_NESTING:
            raise node.error(
                f"file {path} includes itself or is nested more than {MAX_NESTING} includes deep"
            )
        root = read_document(path)[0]
        self.versions[root.path] = _version(root)
        self.resolvers[root.path] = self.resolver.at(path.parent)
        model = root.find("model")
        if model is None:
            raise node.error(f"file {path} contains no <model>")
        self.included.append(model)
        given = {child.tag: child for child in node.children}
        for child in node.children:
            if child.tag not in ("uri", "name", "pose", "static", "placement_frame"):
                self.report.unsupported(child, f"<{child.tag}> of an include")
        attributes = dict(model.attrib)
        if "name" in given:
            attributes["name"] = text.required(node, "name")
        if "placement_frame" in given:
            attributes["placement_frame"] = text.required(node, "placement_frame")
            if "pose" not in given:
                raise node.error("<placement_frame> needs a <pose>")
        replaced = [given[tag] for tag in ("pose", "static") if tag in given]
        kept = [child for child in model.children if child.tag not in {one.tag for one in replaced}]
        return replace(model, attrib=attributes, children=[*replaced, *kept])

    def _model_file(self, uri: str, node: Node) -> Path:
        """Return the SDF file of a model: the newest one that its model.config lists, or model.sdf."""
        resolver = self.resolvers[node.path]
        if uri.endswith((".sdf", ".world", ".xml")):
            return resolver.find(uri, node).resolve()
        try:
            config = resolver.find(f"{uri}/model.config", node)
        except ImportFileError:
            return resolver.find(f"{uri}/model.sdf", node).resolve()
        listed = [part for part in read_document(config)[0].findall("sdf") if part.text]
        if not listed:
            raise node.error(f"{config} lists no <sdf> file")
        newest = max(listed, key=_version)
        return self.resolver.at(config.parent).find(newest.text, newest).resolve()


def _version(node: Node) -> tuple[int, int]:
    """Version attribute as numbers; files without one are taken for the oldest that is still common."""
    words = node.text_of("version", "1.4").split(".")
    if len(words) < 2 or not all(word.isdigit() and len(word) < 5 for word in words[:2]):
        raise node.error(
            f"attribute 'version' is {node.text_of('version')[:40]!r}, expected a version such as 1.9"
        )
    return int(words[0]), int(words[1])


def _merged(model: Node, children: list[Node]) -> list[Node]:
    """Return the parts of a model that are merged into the model that includes it.

    A frame stands for the frame of the model that is gone; what was given in that is now given in this one.
    """
    proxy = f"_merged__{model.text_of('name', '')}__model__"
    anchor = next((child.attrib.get("name", "") for child in children if child.tag == "link"), None)
    if anchor is None:
        raise model.error("a model without links cannot be merged")
    pose = model.find("pose")
    stands_for = Node(
        "frame", {"name": proxy, "attached_to": anchor}, model.path, model.line, [_at_model(pose, model)]
    )
    moved = [_in_frame(child, proxy) for child in children if child.tag in (*_POSED, "joint")]
    return [stands_for, *moved]


def _at_model(pose: Node | None, model: Node) -> Node:
    """Pose of the frame that stands for a merged model, in the frame of the model around it."""
    if pose is None:
        return Node("pose", {"relative_to": "__model__"}, model.path, model.line)
    return replace(pose, attrib={"relative_to": "__model__", **pose.attrib})


def _in_frame(node: Node, proxy: str) -> Node:
    """Return a part of a merged model with its own model's frame replaced by another frame."""
    children = []
    for child in node.children:
        attributes = {
            name: proxy if name in _FRAME_ATTRIBUTES and value == "__model__" else value
            for name, value in child.attrib.items()
        }
        own = proxy if child.tag in ("parent", "child") and child.text == "__model__" else child.text
        if child.tag in ("axis", "axis2"):
            child = _in_frame(child, proxy)
        children.append(replace(child, attrib={**child.attrib, **attributes}, text=own))
    attributes = dict(node.attrib)
    if attributes.get("attached_to") == "__model__":
        attributes["attached_to"] = proxy
    if node.tag in _POSED and "attached_to" not in attributes:
        children = [_posed(child, proxy) for child in children]
        if not any(child.tag == "pose" for child in children):
            children.append(Node("pose", {"relative_to": proxy}, node.path, node.line))
    return replace(node, attrib=attributes, children=children)


def _posed(node: Node, proxy: str) -> Node:
    """Return a <pose> without frame as one in the given frame, anything else as it is."""
    if node.tag != "pose" or node.attrib.get("relative_to"):
        return node
    return replace(node, attrib={**node.attrib, "relative_to": proxy})
