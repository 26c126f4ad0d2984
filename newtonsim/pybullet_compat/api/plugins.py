"""Plugins by name: those of PyBullet whose features are here, loaded without any foreign code.

| name | what it does here |
|---|---|
| pdControlPlugin | nothing more: PD_CONTROL is always there |
| collisionFilterPlugin | nothing more: setCollisionFilterPair and its relatives are always there |
| tinyRendererPlugin | nothing more: pictures come from our renderer |
| fileIOPlugin | zip files in which models are looked for |
| eglRendererPlugin | nothing more: our renderer needs no window |

Others are not loaded, as with PyBullet where a library is missing.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
import zipfile
from collections.abc import Sequence

from newtonsim.pybullet_compat.surface import constants as c
from newtonsim.pybullet_compat.surface.arguments import floats, ints
from newtonsim.pybullet_compat.world.client import Client

BUILT_IN = ("pdControlPlugin", "collisionFilterPlugin", "tinyRendererPlugin", "fileIOPlugin")
"""Plugins in the order of their ids."""
EGL_NAME = "eglRenderer"
"""In the file name or the postfix of the renderer for machines without a display."""
EGL_ID = len(BUILT_IN)
FILE_IO_ID = BUILT_IN.index("fileIOPlugin")
FAILED = -1
MOST_BYTES = 4 << 30
"""Size of the contents of a zip file that is still unpacked."""


class Plugins:
    """Plugins of one client.

    Attributes:
        loaded: Ids of plugins that are loaded; the built-in ones are from the start.
        archives: Folders that zip files of fileIOPlugin were unpacked into, by the number of their addition;
            None for what is no such folder.
    """

    def __init__(self, client: Client):
        self.loaded = set(range(len(BUILT_IN)))
        self.archives: dict[int, str | None] = {}
        self._additions = 0
        self._folder: str | None = None

    def find(self, name: str) -> str | None:
        """Return the file of a name in the zip files, None if none has it.

        Args:
            name: Relative path.
        """
        folders = [folder for folder in self.archives.values() if folder is not None]
        if os.path.isabs(name) or ".." in name.split("/"):
            return None
        places = (os.path.join(folder, name) for folder in folders)
        return next((place for place in places if os.path.isfile(place)), None)

    def add_archive(self, path: str) -> int:
        """Unpack a zip file, to look for models in it, and return its number.

        Args:
            path: The file, or its name in another such file. One that cannot be read is as good as empty.
        """
        self._additions += 1
        found = path if os.path.isfile(path) else self.find(path)
        self.archives[self._additions] = None
        if found is not None and zipfile.is_zipfile(found):
            with zipfile.ZipFile(found) as archive:
                if sum(entry.file_size for entry in archive.infolist()) <= MOST_BYTES:
                    if self._folder is None:
                        self._folder = tempfile.mkdtemp(prefix="newtonsim-zip-")
                        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
                    folder = os.path.join(self._folder, str(self._additions))
                    archive.extractall(folder)
                    self.archives[self._additions] = folder
        return self._additions

    def add_nothing(self) -> int:
        """Return the number of an addition of ordinary files, which are looked for anyway."""
        self._additions += 1
        self.archives[self._additions] = None
        return self._additions


def find_in_archives(client: Client, name: str) -> str | None:
    """Return the file of a name in the zip files of fileIOPlugin, None if there is none.

    Args:
        client: The client.
        name: Name that a script gives.
    """
    return client.part(Plugins).find(name)


def loadPlugin(client: Client, pluginPath: str, postFix: str = "") -> int:
    """Load a plugin by name; see the table of this module.

    Args:
        client: The client.
        pluginPath: Name, or of eglRendererPlugin the file that `pkgutil` finds.
        postFix: Ending of the names of its functions in PyBullet.

    Returns:
        Its id, -1 if there is none.
    """
    loaded = client.part(Plugins).loaded
    if pluginPath in BUILT_IN:
        uid = BUILT_IN.index(pluginPath)
        return uid if uid in loaded else FAILED
    if EGL_NAME in os.path.basename(pluginPath):
        loaded.add(EGL_ID)
        return EGL_ID
    return FAILED


def unloadPlugin(client: Client, pluginUniqueId: int) -> None:
    """Unload a plugin; ids of none do nothing. Built-in ones cannot be loaded again."""
    part = client.part(Plugins)
    part.loaded.discard(pluginUniqueId)
    if pluginUniqueId == FILE_IO_ID:
        part.archives.clear()


def executePluginCommand(
    client: Client,
    pluginUniqueId: int,
    textArgument: str = "",
    intArgs: Sequence[int] = (),
    floatArgs: Sequence[float] = (),
) -> int:
    """Let a plugin do something.

    fileIOPlugin takes a zip file and (AddFileIOAction, ZipFileIO), and looks for models in it from then on;
    (RemoveFileIOAction, number) ends that.

    Args:
        client: The client.
        pluginUniqueId: Id of a plugin.
        textArgument: Text for it.
        intArgs: Integers for it.
        floatArgs: Numbers for it.

    Returns:
        Of fileIOPlugin the number of an addition, of collisionFilterPlugin 0, otherwise -1.
    """
    part = client.part(Plugins)
    words = ints(intArgs, "executePluginCommand expects a sequence of integers.")
    floats(floatArgs, "executePluginCommand expects a sequence of numbers.")
    if pluginUniqueId not in part.loaded:
        return FAILED
    if pluginUniqueId == BUILT_IN.index("collisionFilterPlugin"):
        return 0
    if pluginUniqueId != FILE_IO_ID:
        return FAILED
    match words:
        case [c.AddFileIOAction, c.ZipFileIO, *_]:
            return part.add_archive(textArgument)
        case [c.AddFileIOAction, c.PosixFileIO, *_]:
            return part.add_nothing()
        case [c.RemoveFileIOAction, number, *_]:
            part.archives.pop(number, None)
            return number
    return FAILED
