"""XML that strict parsers refuse: unbound prefixes, bare ampersands, document types, text around the root."""

import re
from html import unescape

from newtonsim.errors import ImportFileError
from newtonsim.importers.files.faults import Faults
from newtonsim.importers.files.limits import limits
from newtonsim.importers.files.xml import Node, parse_xml

_TOKEN = re.compile(
    r"<!--.*?-->|<\?.*?\?>|<!\[CDATA\[(?P<cdata>.*?)\]\]>|<![^>]*>"
    r"|</(?P<close>[^\s>]+)\s*>|<(?P<open>[^\s/>!?]+)(?P<attributes>(?:\"[^\"]*\"|'[^']*'|[^\"'>])*?)(?P<empty>/?)>",
    re.DOTALL,
)
_ATTRIBUTE = re.compile(r"([^\s=\"'/]+)\s*=\s*(?:\"([^\"]*)\"|'([^']*)')", re.DOTALL)


def parse_tolerantly(data: bytes, path: str, faults: Faults) -> Node:
    """Parse XML, and where it is not well-formed what can be told from its tags; entities are left alone.

    Returns:
        The root element.

    Raises:
        ImportFileError: The elements do not nest, or are too many.
    """
    try:
        return parse_xml(data, path)[0]
    except ImportFileError as fault:
        faults.meet(fault)
    return _parse_tags(data.decode("utf-8", errors="replace"), path)


def _parse_tags(text: str, path: str) -> Node:
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
            if count > limits.elements or len(stack) >= limits.depth:
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
