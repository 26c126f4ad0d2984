"""The build backend of setuptools, with editable installs that the folder of the clone does not hide.

For a Python that runs beside a clone, the clone itself is a namespace package `newtonsim`, a folder without
`__init__.py`. Python prefers it to the finder of an editable install, which is asked after the path.
"""

from __future__ import annotations

from setuptools import build_meta
from setuptools.build_meta import build_sdist as build_sdist
from setuptools.build_meta import build_wheel as build_wheel
from setuptools.build_meta import get_requires_for_build_editable as get_requires_for_build_editable
from setuptools.build_meta import get_requires_for_build_sdist as get_requires_for_build_sdist
from setuptools.build_meta import get_requires_for_build_wheel as get_requires_for_build_wheel
from setuptools.build_meta import prepare_metadata_for_build_editable as prepare_metadata_for_build_editable
from setuptools.build_meta import prepare_metadata_for_build_wheel as prepare_metadata_for_build_wheel
from setuptools.command import editable_wheel

_GUARD = """

class _NamespaceGuard:
    @classmethod
    def find_spec(cls, fullname, path=None, target=None):
        if path is not None or fullname not in MAPPING:
            return None
        found = PathFinder.find_spec(fullname)
        return _EditableFinder.find_spec(fullname) if found is not None and found.loader is None else None


_install_finder = install


def install():
    _install_finder()
    sys.meta_path.insert(0, _NamespaceGuard)
"""


def build_editable(
    wheel_directory: str, config_settings: dict | None = None, metadata_directory: str | None = None
) -> str:
    """Build the wheel of an editable install, whose finder is asked before namespace packages."""
    editable_wheel._FINDER_TEMPLATE += _GUARD
    return build_meta.build_editable(wheel_directory, config_settings, metadata_directory)
