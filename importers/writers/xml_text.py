"""Numbers and elements of XML files."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import numpy.typing as npt

from newtonsim.errors import ModelError


def number(value: float) -> str:
    """Return a finite number as text that reads back to the same single-precision value."""
    value = float(value)
    if not np.isfinite(value):
        raise ModelError(f"cannot write the number {value}")
    single = np.float32(value)
    text = str(single) if float(single) == value else f"{value:.12g}"
    return {"-0.0": "0", "-0": "0"}.get(text, text.removesuffix(".0"))


def numbers(values: npt.ArrayLike) -> str:
    """Return finite numbers as text, separated by blanks."""
    return " ".join(number(value) for value in np.asarray(values, np.float64).reshape(-1))


def element(
    parent: ElementTree.Element,
    tag: str,
    attributes: Mapping[str, str] | Iterable[tuple[str, str]] | None = None,
    **more: str,
) -> ElementTree.Element:
    """Append a child with these attributes, in this order."""
    return ElementTree.SubElement(parent, tag, {**dict(attributes or ()), **more})


def write_xml(root: ElementTree.Element, path: str | os.PathLike) -> None:
    """Write a document, indented.

    Raises:
        ModelError: The file cannot be written.
    """
    tree = ElementTree.ElementTree(root)
    ElementTree.indent(tree)
    try:
        tree.write(path, encoding="utf-8", xml_declaration=True)
        with open(path, "ab") as file:
            file.write(b"\n")
    except OSError as error:
        raise ModelError(f"cannot write {os.fspath(path)!r}: {error}") from error


def output_path(path: str | os.PathLike, suffixes: tuple[str, ...]) -> Path:
    """Check the name of a file to be written before anything is.

    Raises:
        ModelError: The name is none or has another ending, or its folder does not exist.
    """
    if not isinstance(path, str | os.PathLike):
        raise ModelError(f"path: expected a file name, got {type(path).__name__}")
    path = Path(os.fspath(path))
    if path.suffix.lower() not in suffixes:
        raise ModelError(f"the name must end in {' or '.join(suffixes)}, got {str(path)!r}")
    if not path.parent.is_dir():
        raise ModelError(f"cannot write {str(path)!r}: there is no folder {str(path.parent)!r}")
    return path
