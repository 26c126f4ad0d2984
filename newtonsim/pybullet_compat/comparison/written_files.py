"""Files that a script has the engines write: those of each engine stay its own."""

from __future__ import annotations

import os
import tempfile
from inspect import Signature
from pathlib import Path
from typing import Any

_WRITTEN = {
    "saveBullet": ("bulletFileName",),
    "saveWorld": ("worldFileName",),
    "startStateLogging": ("fileName",),
    "vhacd": ("fileNameOut", "fileNameLogging"),
}
"""Arguments that name files which a function writes."""
_READ = (
    "fileName",
    "bulletFileName",
    "mjcfFileName",
    "sdfFileName",
    "simFileName",
    "textureFilename",
    "fileNameIn",
)
"""Arguments of other functions that name files."""


class WrittenFiles:
    """Copies of the files that a script has both engines write, for one of them.

    PyBullet's are where the script says; those of this engine are in a folder that goes with this object.
    """

    def __init__(self):
        self._folder = tempfile.TemporaryDirectory(prefix="newtonsim-compare-")
        self._copies: dict[str, str] = {}

    def redirect(
        self, name: str, signature: Signature, args: tuple, keywords: dict[str, Any]
    ) -> tuple[tuple, dict[str, Any]]:
        """Return the arguments of a call with the names of this engine's files.

        Args:
            name: Name of the function.
            signature: Its arguments.
            args: Arguments by place.
            keywords: Arguments by name.
        """
        written = _WRITTEN.get(name, ())
        if not written and not self._copies:
            return args, keywords
        own = list(args)
        for place, argument in enumerate([*signature.parameters][: len(args)]):
            own[place] = self._name_for(argument, args[place], written)
        return tuple(own), {key: self._name_for(key, value, written) for key, value in keywords.items()}

    def _name_for(self, argument: str, value: Any, written: tuple[str, ...]) -> Any:
        """What this engine gets in place of an argument."""
        is_file = argument in written or argument in _READ
        if not is_file or not isinstance(value, str) or not value:
            return value
        return self._copy_of(value, is_written=argument in written)

    def _copy_of(self, name: str, is_written: bool) -> str:
        """Name of this engine's file, which for one that was not written here is the script's."""
        path = os.path.abspath(name)
        if is_written and path not in self._copies:
            folder = Path(self._folder.name, str(len(self._copies)))
            folder.mkdir()
            self._copies[path] = str(folder / Path(path).name)
        return self._copies.get(path, name)
