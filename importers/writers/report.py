"""What an export did: names in the file, what a reader must be told, and what the format could not hold."""

import warnings
from dataclasses import dataclass, field

from newtonsim.errors import ModelError, UnsupportedElementWarning
from newtonsim.importers.files.report import ReportEntry, listed


@dataclass(slots=True)
class ExportReport:
    """Result of `export_usd`, `export_mjcf` and `export_urdf`.

    Attributes:
        path: The file.
        format: "usd", "mjcf" or "urdf".
        bodies: Name (path of the prim in USD) by body index.
        joints: Names by joint index, in the order of the axes; several where the format splits a joint.
        hinges: Names of the three hinges by which other readers of URDF know a ball joint, by joint index.
        shapes: Names by shape index; none for shapes that were left out.
        constraints: Names by constraint index, likewise.
        frames: Pose (7,) of the frame in the file in that of the body, by body index, where they differ.
        files: Mesh files written beside it.
        read_with: Arguments of the reader (`parse_usd`, `parse_mjcf`, `parse_urdf`) that bring back what the
            format leaves to it, such as contact stiffness or the pose of the root.
        entries: Remarks: "unsupported" (left out, the motion differs), "approximated" (written differently),
            "ignored" (left out without effect on the motion).
    """

    path: str
    format: str
    bodies: dict[int, str] = field(default_factory=dict)
    joints: dict[int, list[str]] = field(default_factory=dict)
    hinges: dict[int, list[str]] = field(default_factory=dict)
    shapes: dict[int, list[str]] = field(default_factory=dict)
    constraints: dict[int, list[str]] = field(default_factory=dict)
    frames: dict[int, tuple[float, ...]] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)
    read_with: dict[str, object] = field(default_factory=dict)
    entries: list[ReportEntry] = field(default_factory=list)

    def unsupported(self, element: str, message: str) -> None:
        """Record physics that the file will not have."""
        self.entries.append(ReportEntry("unsupported", element, message, self.path))

    def approximated(self, element: str, message: str) -> None:
        """Record something that the file says differently."""
        self.entries.append(ReportEntry("approximated", element, message, self.path))

    def ignored(self, element: str, message: str) -> None:
        """Record something that is left out without effect on the motion."""
        self.entries.append(ReportEntry("ignored", element, message, self.path))

    def of_kind(self, kind: str) -> list[ReportEntry]:
        """Return the remarks of one kind."""
        return [entry for entry in self.entries if entry.kind == kind]

    def settle(self, strict: bool, stacklevel: int) -> None:
        """Raise (strict) or warn once about what the format cannot hold; say nothing when it holds all."""
        groups: dict[str, list[str]] = {}
        for entry in self.entries:
            if entry.kind != "ignored":
                groups.setdefault(f"{entry.kind}: {entry.message}", []).append(entry.element)
        if not groups:
            return
        text = listed([f"{message} ({_some(elements)})" for message, elements in groups.items()])
        if strict:
            raise ModelError(f"{self.path}: {self.format.upper()} cannot hold all of the model:{text}")
        warnings.warn(f"{self.path}:{text}", UnsupportedElementWarning, stacklevel=stacklevel + 1)


def _some(elements: list[str]) -> str:
    shown = ", ".join(dict.fromkeys(elements[:8]))
    return f"{shown} and {len(elements) - 8} more" if len(elements) > 8 else shown
