"""XML that strict parsers refuse: unbound prefixes, bare ampersands, document types, text around the root."""

import os
import re
from html import unescape
from pathlib import Path
from xml.etree.ElementTree import ParseError

from newtonsim.errors import ImportFileError
from newtonsim.importers.files.clock import CHECK_EVERY
from newtonsim.importers.files.faults import Faults
from newtonsim.importers.files.limits import limits
from newtonsim.importers.files.xml import Node, parse_xml, source_of

_TOKEN = re.compile(
    r"<!--.*?-->|<\?.*?\?>|<!\[CDATA\[(?P<cdata>.*?)\]\]>|<![^>]*>"
    r"|</(?P<close>[^\s>]+)\s*>|<(?P<open>[^\s/>!?]+)(?P<attributes>(?:\"[^\"]*\"|'[^']*'|[^\"'>])*?)(?P<empty>/?)>",
    re.DOTALL,
)
_ATTRIBUTE = re.compile(r"([^\s=\"'/]+)\s*=\s*(?:\"([^\"]*)\"|'([^']*)')", re.DOTALL)


class _NoTree(ImportFileError):
    """The tags of a document do not make a tree."""


def parse_tolerantly(data: str | bytes, path: str | None, faults: Faults) -> tuple[Node, list[str]]:
    """Parse XML, and where it is not well-formed what can be told from its tags; entities are left alone.

    Returns:
        The root element, and notes on what was tolerated.

    Raises:
        ImportFileError: The elements do not nest, or are too many.
    """
    try:
        return parse_xml(data, path)
    except ImportFileError as fault:
        faults.meet(fault, "the elements are read by their tags only")
    return _parse_tags(data if isinstance(data, str) else data.decode("utf-8", errors="replace"), path), []


def read_tolerantly(source: str | bytes | os.PathLike, faults: Faults) -> tuple[Node, Path, list[str]]:
    """Read XML from a file or from text as `read_document` does, but for what is not well-formed.

    Document types stay refused.

    Args:
        source: File name, or the XML itself (text that starts with '<').
        faults: Meets what is not well-formed.

    Returns:
        The root element, the folder that relative names refer to, and notes on what was tolerated.
    """
    text, path, folder = source_of(source)
    try:
        root, notes = parse_xml(text, path)
    except ImportFileError as fault:
        if not isinstance(fault.__cause__, ParseError):
            raise
        try:
            root, notes = parse_tolerantly(text, path, faults)
        except _NoTree as worse:
            raise fault from worse  # fault has the line
    return root, folder, notes


def _parse_tags(text: str, path: str | None) -> Node:
    stack: list[Node] = []
    count, line, counted = 0, 1, 0
    for token in _TOKEN.finditer(text):
        if token["open"]:
            line, counted = line + text.count("\n", counted, token.start()), token.start()
            attributes = {
                name: unescape(one or other) for name, one, other in _ATTRIBUTE.findall(token["attributes"])
            }
            node = Node(token["open"], attributes, path, line)
            count += 1
            if count > limits.elements or len(stack) >= limits.depth:
                raise node.limit_error("too many elements, or nested too deep")
            if count % CHECK_EVERY == 0:
                node.check_time()
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
                raise _NoTree(f"</{token['close']}> has no opening tag", path)
            node = stack.pop()
            if not stack:
                return node
    raise _NoTree("the document has no complete root element", path)
