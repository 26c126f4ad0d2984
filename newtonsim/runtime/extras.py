"""Which packages of an extra are installed."""

from __future__ import annotations

import re
from importlib import metadata


def missing_packages(extra: str) -> list[str]:
    """Return the packages of an extra that are not installed."""
    return [name for name in _packages(extra) if not _installed(name)]


def _packages(extra: str) -> list[str]:
    """Return the packages that an extra requires, also by way of other extras."""
    found: list[str] = []
    for line in metadata.requires("newtonsim") or ():
        requirement, _, condition = line.partition(";")
        if not re.search(rf"extra == ['\"]{extra}['\"]", condition):
            continue
        name, *inner = re.findall(r"[\w-]+", re.split(r"[<>=!~ ]", requirement)[0])
        if name == "newtonsim":
            found += [package for part in inner for package in _packages(part)]
        else:
            found.append(name)
    return found


def _installed(package: str) -> bool:
    try:
        metadata.version(package)
    except metadata.PackageNotFoundError:
        return False
    return True
