"""XML as PyBullet reads it: what strict parsers refuse is accepted, and numbers are prefixes of words."""

import re
from functools import lru_cache
from html import unescape
from pathlib import Path

import numpy as np

from newtonsim.errors import ImportFileError
from newtonsim.importers.files.xml import MAX_BYTES, MAX_DEPTH, MAX_ELEMENTS, Node, parse_xml, read_bytes

_NUMBER = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)")
_TOKEN = re.compile(
    r"<!--.*?-->|<\?.*?\?>|<!\[CDATA\[(?P<cdata>.*?)\]\]>|<![^>]*>"
    r"|</(?P<close>[^\s>]+)\s*>|<(?P<open>[^\s/>!?]+)(?P<attributes>(?:\"[^\"]*\"|'[^']*'|[^\"'>])*?)(?P<empty>/?)>",
    re.DOTALL,
)
_ATTRIBUTE = re.compile(r"([^\s=\"'/]+)\s*=\s*(?:\"([^\"]*)\"|'([^']*)')", re.DOTALL)


def read_xml(path: Path, use_cache: bool = True) -> Node:
    """Return the root element of a file; the tree of an unchanged file is read once and must not be changed.

    Raises:
        ImportFileError: The file cannot be read, or its elements do not nest.
    """
    stat = path.stat()
    read = _read if use_cache else _read.__wrapped__
    return read(str(path), stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=256)
def _read(path: str, changed: int, size: int) -> Node:
    data = read_bytes(Path(path), MAX_BYTES)
    try:
        return parse_xml(data, path)[0]
    except ImportFileError:
        return _parse_leniently(data.decode("utf-8", errors="replace"), path)


def _parse_leniently(text: str, path: str) -> Node:
    """Read elements with a tolerance for unbound prefixes, bare ampersands and text outside the root."""
    stack: list[Node] = []
    count = 0
    for token in _TOKEN.finditer(text):
        if token["open"]:
            line = text.count("\n", 0, token.start()) + 1
            attributes = {
                name: unescape(one or other) for name, one, other in _ATTRIBUTE.findall(token["attributes"])
            }
            node = Node(token["open"], attributes, path, line)
            count += 1
            if count > MAX_ELEMENTS or len(stack) >= MAX_DEPTH:
                raise node.error("too many elements, or nested too deep")
            if stack:
                stack[-1].children.append(node)
            if token["empty"]:
                if not stack:
                    return node
            else:
                node.text = unescape(text[token.end() : text.find("<", token.end())]).strip()
                stack.append(node)
        elif token["close"]:
            if not stack or stack[-1].tag != token["close"]:
                raise ImportFileError(f"</{token['close']}> closes nothing", path)
            node = stack.pop()
            if not stack:
                return node
    raise ImportFileError("the document has no complete root element", path)


def number(text: str | None, default: float = 0.0) -> float:
    """The number that a text begins with; 0 when it begins with something else, `default` without a text."""
    if text is None:
        return default
    found = _NUMBER.match(text)
    return float(found[1]) if found else 0.0


def numbers(text: str) -> list[float]:
    """The numbers of a list separated by blanks."""
    return [number(word) for word in text.split()]


def vector3(text: str | None) -> np.ndarray | None:
    """Three numbers (3,), or None when there are fewer."""
    values = numbers(text) if text else []
    return np.array(values[:3]) if len(values) >= 3 else None
