"""Finding the files that a robot file refers to: relative and absolute names, file:// and package://."""

import os
from collections.abc import Iterable, Mapping
from copy import copy
from pathlib import Path
from urllib.parse import unquote, urlsplit

from newtonsim.importers.files.xml import Node


class FileResolver:
    """Turns references in one document into paths of existing files.

    Args:
        folder: Folder of the document; relative names start there.
        package_paths: Where `package://name/...` is looked for first: folders that hold packages or are one,
            or a mapping from package name to folder. Then follow the folders of the environment variables
            and the parent folders of the document.
        variables: Environment variables with lists of folders.
    """

    def __init__(
        self,
        folder: Path,
        package_paths: Iterable[str | os.PathLike] | Mapping[str, str] = (),
        variables: Iterable[str] = ("ROS_PACKAGE_PATH",),
    ):
        self.folder = folder
        if isinstance(package_paths, str | os.PathLike):
            package_paths = (package_paths,)
        self.named = (
            {k: Path(v) for k, v in package_paths.items()} if isinstance(package_paths, Mapping) else {}
        )
        listed = (
            [] if isinstance(package_paths, Mapping) else [Path(os.fspath(entry)) for entry in package_paths]
        )
        known = [
            Path(entry) for name in variables for entry in os.environ.get(name, "").split(os.pathsep) if entry
        ]
        self.roots = [*listed, *known, folder, *folder.parents]

    def at(self, folder: Path) -> "FileResolver":
        """Return a resolver for a document in another folder that looks for packages where this one does."""
        other = copy(self)
        other.folder = folder
        other.roots = [*self.roots, *(one for one in (folder, *folder.parents) if one not in self.roots)]
        return other

    def find(self, reference: str, node: Node, prefixes: Iterable[Path] = ()) -> Path:
        """Return the file that `reference` names, or raise an error that names the element.

        Args:
            reference: As it stands in the document.
            node: Element that refers to it.
            prefixes: Folders tried before the document's own for relative names.
        """
        if "\0" in reference or len(reference) > 4096:
            raise node.error(f"not a file name: {reference[:80]!r}")
        tried = self._candidates(reference, node, prefixes)
        for path in tried:
            try:
                if path.is_file():
                    return path
            except OSError:
                continue
        places = ", ".join(str(path) for path in tried[:6]) + (", ..." if len(tried) > 6 else "")
        raise node.error(f"file {reference!r} not found; looked at {places or 'no place'}")

    def _candidates(self, reference: str, node: Node, prefixes: Iterable[Path]) -> list[Path]:
        scheme, separator, rest = reference.partition("://")
        if not separator:
            # Windows separators occur in files that are otherwise portable
            path = Path(
                reference if os.path.exists(self.folder / reference) else reference.replace("\\", "/")
            )
            if path.is_absolute():  # some mean the root of their own folder
                return [path, self.folder / path.relative_to(path.anchor)]
            # Files that are meant to be loaded from a folder above their own name it from there.
            return [folder / path for folder in (*prefixes, self.folder, self.folder.parent)]
        if scheme == "file":
            local = Path(unquote(urlsplit(reference).path))
            beside = self.folder / unquote(rest)  # two slashes: meant from the document's folder
            return [local, beside] if local.is_absolute() else [beside]
        if scheme in ("package", "model"):
            name, _, inside = unquote(rest).partition("/")
            return self._in_package(name, inside)
        raise node.error(f"cannot fetch {reference!r}; supported are plain names, file:// and package://")

    def _in_package(self, name: str, inside: str) -> list[Path]:
        candidates = [self.named[name] / inside] if name in self.named else []
        for root in self.roots:
            candidates.append(root / name / inside)
            if root.name == name:
                candidates.append(root / inside)
        # A robot that was copied out of its package often keeps the layout below the package's folder.
        return [*candidates, *(root / inside for root in self.roots)]
