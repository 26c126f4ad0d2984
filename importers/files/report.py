"""The result of an import: where elements went, and what was ignored or approximated."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from newtonsim.errors import DefaultsWarning, ImportFileError, UnsupportedElementWarning, place_in_file
from newtonsim.importers.files.faults import refuse_what_is_too_large
from newtonsim.importers.files.xml import Node

ELEMENT_KINDS = ("modelled", "approximated", "ignored", "mended", "deferred", "unsupported")
"""What can happen to an element, from best to worst."""


MOST_NAMED = 8
"""How many bodies a warning names."""

_NEEDS_A_CALL = "not in the model without a further call, which newtonsim.actuators.solver_from_report makes"


class Told(Protocol):
    """What a remark needs of its element: an XML `Node`, or an `Element` of USD."""

    @property
    def label(self) -> str:
        """Its name."""
        ...

    @property
    def path(self) -> str | None:
        """File that contains it, None without one."""
        ...

    @property
    def line(self) -> int | None:
        """Line in the file, None if there are no lines."""
        ...


@dataclass(slots=True)
class ReportEntry:
    """One remark about one element.

    Attributes:
        kind: "unsupported" (physics that is not modelled), "deferred" (physics that the model has after the
            call that the message names), "mended" (wrong in the file, and read as the message says),
            "approximated" (modelled differently) or "ignored" (without effect on the motion).
        element: Element name with its name attribute.
        message: What was done with it.
        path: File, None for text.
        line: Line, from 1.
        refused: Whether an import with `strict=True` refuses the file for it; it does so for all that is
            "unsupported".
        partly: Whether the rest of the element is modelled, with what is inside it.
        by_solver: Whether solvers that lack it warn of it, so that the import does not.
    """

    kind: str
    element: str
    message: str
    path: str | None = None
    line: int | None = None
    refused: bool = False
    partly: bool = False
    by_solver: bool = False

    def __str__(self) -> str:
        where = place_in_file(self.path, self.line)
        return f"{where + ': ' if where else ''}<{self.element}> {self.kind}: {self.message}"


@dataclass(slots=True)
class ImportReport:
    """Result of `parse_urdf`, `parse_mjcf` and `parse_sdf`; in that of `parse_usd` names are prim paths.

    Indices refer to the builder that was passed in, right after the import.

    Attributes:
        path: The file, None for text.
        name: Name of the robot or model in the file.
        format: "urdf", "mjcf", "sdf" or "usd".
        bodies: Body index by link or body name; -1 for bodies that became part of the world.
        joints: Joint index by joint name. Several MJCF joints of one body may share one index.
        joint_dofs: First entry in `joint_qd` by joint name, for joints with degrees of freedom.
        joint_coords: First entry in `joint_q` by joint name, for joints with degrees of freedom.
        gravcomp: Non-zero MJCF `gravcomp` by body index, with its point of application in the body frame (3,)
            [m], for the stage `GravityCompensation` of a solver.
        mujoco: What only MuJoCo models, for `MuJoCoSolver(model, element_args=report.mujoco)`: attributes of
            MjSpec by index of the "joint" (that of its first entry in `joint_qd`), "tendon" or "geom" (the
            shape), in a dict for each of the three that has some.
        joint_refs: Non-zero MJCF `ref` by joint name [rad or m]: file's coordinate = ours + ref.
        actuators: One dict per MJCF actuator, see `newtonsim.importers.mjcf.actuators`.
        constraints: Index of the constraint by name of the MJCF equality, or by kind and number.
        tendons: Index of the tendon by name of the MJCF tendon.
        shapes: Shape indices by name of body, in the order of the file.
        assumed_masses: Mass [kg] of each moving body to which the file and its format give none, and where it
            comes from, by name.
        entries: Remarks, in the order of the file.
        elements: How often each kind of element occurs in the file, by name and by what happened to it, one
            of `ELEMENT_KINDS`; "deferred" and "unsupported" may mean a part of it.
    """

    path: str | None = None
    name: str = ""
    format: str = ""
    bodies: dict[str, int] = field(default_factory=dict)
    joints: dict[str, int] = field(default_factory=dict)
    joint_dofs: dict[str, int] = field(default_factory=dict)
    joint_coords: dict[str, int] = field(default_factory=dict)
    gravcomp: dict[int, tuple[float, tuple[float, ...]]] = field(default_factory=dict)
    mujoco: dict[str, dict[int, dict[str, Any]]] = field(default_factory=dict)
    joint_refs: dict[str, float] = field(default_factory=dict)
    actuators: list[dict] = field(default_factory=list)
    constraints: dict[str, int] = field(default_factory=dict)
    tendons: dict[str, int] = field(default_factory=dict)
    shapes: dict[str, list[int]] = field(default_factory=dict)
    assumed_masses: dict[str, tuple[float, str]] = field(default_factory=dict)
    entries: list[ReportEntry] = field(default_factory=list)
    elements: dict[str, dict[str, int]] = field(default_factory=dict)

    def add(self, kind: str, node: Told | None, message: str, element: str | None = None) -> ReportEntry:
        """Record a remark about an element, and return it."""
        entry = ReportEntry(
            kind,
            element or (node.label if node is not None else "file"),
            message,
            node.path if node is not None else self.path,
            node.line if node is not None else None,
        )
        self.entries.append(entry)
        return entry

    def leave_to_mujoco(self, element: str, index: int, arguments: dict[str, Any]) -> None:
        """Record attributes of a "joint", "tendon" or "geom", see `mujoco`; none are no entry."""
        if arguments:
            self.mujoco.setdefault(element, {})[index] = arguments

    def unsupported(
        self,
        node: Told,
        message: str = "is not modelled",
        partly: bool = False,
        unless: str = "",
        by_solver: bool = False,
    ) -> None:
        """Record physics that the file requires and the model does not have.

        Args:
            node: The element.
            message: What is not modelled.
            partly: Whether that is one attribute of an element that contains others, which are modelled.
            unless: The further call that adds it, which makes the remark "deferred"; "" if there is none.
            by_solver: Whether solvers that lack it warn of it, so that the import does not.
        """
        kind, more = ("deferred", f", unless {unless}") if unless else ("unsupported", "")
        entry = self.add(kind, node, message + more)
        entry.partly, entry.by_solver = partly, by_solver

    def mended(self, fault: ImportFileError, assumed: str) -> None:
        """Record a fault of the file, and what was assumed instead."""
        message = f"{fault.message}; {assumed}"
        self.entries.append(
            ReportEntry("mended", fault.element or "file", message, fault.path or self.path, fault.line)
        )

    def approximated(self, node: Told | None, message: str) -> ReportEntry:
        """Record something that is modelled differently from what the file says, and return the remark."""
        return self.add("approximated", node, message)

    def impossible(self, node: Told, message: str) -> None:
        """Record what no robot can have, and is used as it is unless the import is strict."""
        self.approximated(node, message).refused = True

    def ignored(self, node: Told | None, message: str = "has no effect on the motion") -> None:
        """Record something that is skipped without effect on the motion."""
        self.add("ignored", node, message)

    def of_kind(self, kind: str) -> list[ReportEntry]:
        """Return the remarks of one kind."""
        return [entry for entry in self.entries if entry.kind == kind]

    def count(self, name: str, kind: str, times: int = 1) -> None:
        """Count elements of the file."""
        counts = self.elements.get(name)
        if counts is None:
            counts = self.elements[name] = dict.fromkeys(ELEMENT_KINDS, 0)
        counts[kind] += times

    def worst_by_element(self) -> dict[str, str]:
        """Return the worst remark about each element, by its name and, if it has one, its place."""
        worst: dict[str, str] = {}
        for entry in self.entries:
            # prims have paths of their own, also where a remark knows their line
            key = entry.element if self.format == "usd" else _key(entry.path, entry.line, entry.element)
            worst[key] = max(worst.get(key, "modelled"), entry.kind, key=ELEMENT_KINDS.index)
        return worst

    def count_elements(self, root: Node) -> None:
        """Count all elements of an XML document; elements below a skipped one are skipped too."""
        worst = self.worst_by_element()
        without = {
            _key(entry.path, entry.line, entry.element)
            for entry in self.entries
            if entry.kind in ("unsupported", "ignored") and not entry.partly
        }
        places = {(entry.line, entry.element.split(" ")[0]) for entry in self.entries}
        lines = {line for line, _ in places}
        counted: dict[tuple[str, str], int] = {}
        stack = [(root, "modelled")]
        while stack:
            parent, above = stack.pop()
            skipped = above in ("unsupported", "ignored")
            for node in parent.children:
                kind = inside = above if skipped else "modelled"
                if node.line in lines and not skipped and (node.line, node.tag) in places:
                    key = _key(node.path, node.line, node.label)
                    kind = worst.get(key, kind)
                    inside = kind if key in without else inside
                name = (node.tag, kind)
                counted[name] = counted.get(name, 0) + 1
                if node.children and node.tag != "default":  # defaults count where they are used
                    stack.append((node, inside))
        for (name, kind), count in counted.items():
            self.count(name, kind, count)

    def describe(self) -> str:
        """Return a readable summary."""
        head = f"{self.format.upper()} {self.name or self.path or 'text'}: {len(self.bodies)} bodies, "
        head += f"{len(self.joints)} joints, {sum(map(len, self.shapes.values()))} shapes"
        return "\n".join([head, *(f"  {entry}" for entry in self.entries)])

    def settle_unsupported(self, strict: bool, stacklevel: int) -> None:
        """Raise (strict) or warn once of everything that is unsupported, and once of what was repaired.

        A strict import refuses what is impossible as well. What a further call adds is never refused, but
        always named, since nothing tells whether that call follows, unless solvers do.
        """
        faults = self.of_kind("mended")
        if faults:
            text = f"{self._place}: {self._warning_text(faults, 'has faults that were repaired')}"
            warnings.warn(text, UnsupportedElementWarning, stacklevel=stacklevel + 1)
        refused = [entry for entry in self.entries if entry.refused or entry.kind == "unsupported"]
        if strict and refused:
            first = refused[0]
            what = "" if first.refused else "not supported: "
            more = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
            raise ImportFileError(f"{what}{first.message}{more}", first.path, first.line, first.element)
        kinds = {"read but not modelled": "unsupported", _NEEDS_A_CALL: "deferred"}
        told = [entry for entry in self.entries if not entry.by_solver]
        found = {what: [entry for entry in told if entry.kind == kind] for what, kind in kinds.items()}
        found = {what: entries for what, entries in found.items() if entries}
        if found:
            text = listed([self._warning_text(entries, what) for what, entries in found.items()])
            warnings.warn(f"{self._place}:{text}", UnsupportedElementWarning, stacklevel=stacklevel + 1)

    def warn_of_masses(self, stacklevel: int) -> None:
        """Warn once of moving bodies to which the file gives no mass, with those that they have instead."""
        count = len(self.assumed_masses)
        if not count:
            return
        by_source: dict[str, list[str]] = {}
        for name, (mass, source) in list(self.assumed_masses.items())[:MOST_NAMED]:
            by_source.setdefault(source, []).append(f"{name!r} {mass:.4g} kg")
        named = [f"{', '.join(names)}, {source}" for source, names in by_source.items()]
        if count > MOST_NAMED:
            named.append(f"{count - MOST_NAMED} more in `assumed_masses` of the report")
        one, many = ("body has", "bodies have") if self.format == "mjcf" else ("link has", "links have")
        text = (
            f"{self.path or 'XML text'}: {count} moving {one if count == 1 else many} no mass in the file, "
        )
        text += f"and newtonsim assumes one: {'; '.join(named)}. An <inertial> in the file takes its place"
        warnings.warn(text, DefaultsWarning, stacklevel=stacklevel + 1)

    def _warning_text(self, entries: list[ReportEntry], what: str) -> str:
        groups: dict[tuple[str, str], list[ReportEntry]] = {}
        for entry in entries:  # prims have names of their own, elements of XML those of their kind
            kind = "" if self.format == "usd" else entry.element.split(" ")[0]
            groups.setdefault((kind, entry.message), []).append(entry)
        parts = []
        for (_, message), members in groups.items():
            first = members[0].element
            tag = first.split(" ")[0] if len(members) > 1 or self.format == "usd" else first
            lines = ", ".join(str(entry.line) for entry in members[:5] if entry.line is not None)
            times = f" ({len(members)} times)" if len(members) > 1 else ""
            where = (
                f", line{'s' if len(members) > 1 else ''} {lines}{', ...' if len(members) > 5 else ''}"
                if lines
                else ""
            )
            parts.append(f"<{tag}>{times}{where}: {message}")
        return f"{what}:{listed(parts)}"

    @property
    def _place(self) -> str:
        return self.path or ("stage in memory" if self.format == "usd" else "XML text")


def listed(parts: Sequence[str]) -> str:
    """Return what follows a colon: one text on the same line, several on lines of their own."""
    if len(parts) == 1:
        return f" {parts[0]}"
    return "".join("\n  " + part.replace("\n", "\n  ") for part in parts)


class Mend:
    """Accepts all faults for which a reader has a replacement, and reports them.

    Args:
        report: Receives each fault with what was assumed.
    """

    def __init__(self, report: ImportReport):
        self.report = report

    def meet(self, fault: ImportFileError, assumed: str = "") -> None:
        """Record the fault; files that are too large are refused."""
        refuse_what_is_too_large(fault)
        self.report.mended(fault, assumed)


def _key(path: str | None, line: int | None, element: str) -> str:
    """Return a unique name of an element: prims have paths, XML elements their place in the file."""
    return element if line is None else f"{path}:{line} {element}"
