"""XML documents that are read once as long as they do not change."""

import os
from functools import lru_cache
from pathlib import Path

from newtonsim.errors import ImportFileError
from newtonsim.importers.files.faults import Faults, Forgive
from newtonsim.importers.files.limits import limits
from newtonsim.importers.files.tolerant_xml import parse_tolerantly
from newtonsim.importers.files.xml import Node, read_bytes


def read_xml(path: str | os.PathLike, faults: Faults, use_cache: bool = True) -> Node:
    """Return the root element of a file, as far as PyBullet would understand it; it must not be changed.

    Args:
        path: The file.
        faults: Meets what is forgiven, at every call.
        use_cache: Whether the tree of an unchanged file is read once.

    Raises:
        ImportFileError: The file cannot be read, or its elements do not nest.
    """
    try:
        stat = os.stat(path)
    except (OSError, ValueError) as error:
        raise ImportFileError(f"cannot be read: {error}", path=str(path)[:300]) from error
    read = _read if use_cache else _read.__wrapped__
    root, forgiven = read(os.fspath(path), stat.st_mtime_ns, stat.st_size)
    for fault in forgiven:
        faults.meet(fault)
    return root


@lru_cache(maxsize=256)
def _read(path: str, changed: int, size: int) -> tuple[Node, list[ImportFileError]]:
    faults = Forgive()
    root = parse_tolerantly(read_bytes(Path(path), limits.text_bytes), path, faults)[0]
    return root, faults.forgiven
