"""One safe XML reader for all robot formats, with line numbers and typed attribute readers.

Documents become trees of `Node`. Nothing here recurses, so the nesting depth of a hostile file costs no
stack; a document type may be named, but declarations of entities and default attributes in it are refused
(billion laughs, external entities), nothing of it is loaded, and size, depth and element count are bounded.
"""

import functools
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike

from newtonsim.errors import ImportFileError, LimitError
from newtonsim.importers.files.clock import CHECK_EVERY, check_time, is_late
from newtonsim.importers.files.faults import REFUSE, Faults
from newtonsim.importers.files.limits import limits

MAX_NUMBER = 1.0e30
"""Even the fifth power of a length, which an inertia needs, stays finite in double precision."""

_JUNK_AFTER_DOCUMENT = 9  # expat's XML_ERROR_JUNK_AFTER_DOC_ELEMENT
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\Z", re.ASCII)
_NUMBER_AT_START = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)")
_INFINITY = re.compile(r"[+-]?inf(inity)?\Z", re.ASCII | re.IGNORECASE)
_NUMBER_CHARACTERS = re.compile(r"[0-9eE+\-.\s]*\Z", re.ASCII)
_LONG_LIST = 64  # numbers from which on NumPy's reader pays
_SHORT_TEXT = 256  # characters up to which words are remembered
_ENCODING = re.compile(rb"<\?xml[^>]*encoding\s*=\s*[\"'](?!utf-?8[\"'])", re.IGNORECASE)
_INTEGER = re.compile(r"[+-]?\d+\Z")


@dataclass(slots=True, eq=False)
class Node:
    """One XML element.

    Attributes:
        tag: Element name; a namespace appears as `{uri}name`.
        attrib: Attributes as text.
        path: File that the element stands in, None for text without a file.
        line: Line of the start tag, from 1.
        children: Child elements in document order.
        text: Character data directly inside the element, stripped.
    """

    tag: str
    attrib: dict[str, str]
    path: str | None = None
    line: int | None = None
    children: list["Node"] = field(default_factory=list)
    text: str = ""

    def find(self, tag: str) -> "Node | None":
        """Return the first child with this tag."""
        for child in self.children:  # a generator takes three times as long
            if child.tag == tag:
                return child
        return None

    def findall(self, tag: str) -> "list[Node]":
        """Return all children with this tag."""
        return [child for child in self.children if child.tag == tag]

    def walk(self) -> "Iterator[Node]":
        """Yield this element and all below it in document order."""
        stack = [self]
        while stack:
            node = stack.pop()
            yield node
            stack.extend(reversed(node.children))

    @property
    def label(self) -> str:
        """Element name with its `name` attribute, for messages."""
        name = self.attrib.get("name")
        return f"{self.tag} name={name!r}" if name else self.tag

    def error(self, message: str) -> ImportFileError:
        """Build (not raise) an error that names file, line and element."""
        return ImportFileError(message, path=self.path, line=self.line, element=self.label)

    def limit_error(self, message: str) -> LimitError:
        """Build (not raise) an error of something larger than is read."""
        return LimitError(message, path=self.path, line=self.line, element=self.label)

    def check_time(self) -> None:
        """Raise a LimitError if reading takes too long already, see `clock.check_time`."""
        if is_late():  # labels take longer than the clock
            check_time(self.path, self.line, self.label)

    # -- attributes ------------------------------------------------------------------------------------------

    @overload
    def text_of(self, name: str, default: str) -> str: ...

    @overload
    def text_of(self, name: str, default: str | None = None) -> str | None: ...

    def text_of(self, name: str, default: str | None = None) -> str | None:
        """Return an attribute as text."""
        return self.attrib.get(name, default)

    def required(self, name: str) -> str:
        """Return an attribute as text; missing or empty is an error."""
        value = self.attrib.get(name)
        if not value:
            raise self.error(f"attribute '{name}' is missing")
        return value

    @overload
    def floats(
        self,
        name: str,
        count: int | None = None,
        default: None = None,
        at_least: int | None = None,
        faults: Faults = REFUSE,
    ) -> np.ndarray | None: ...

    @overload
    def floats(
        self,
        name: str,
        count: int | None = None,
        default: ArrayLike = ...,
        at_least: int | None = None,
        faults: Faults = REFUSE,
    ) -> np.ndarray: ...

    def floats(
        self,
        name: str,
        count: int | None = None,
        default: ArrayLike | None = None,
        at_least: int | None = None,
        faults: Faults = REFUSE,
    ) -> np.ndarray | None:
        """Return an attribute as float64 array.

        Args:
            name: Attribute.
            count: Number of values that must be there; None takes any number.
            default: Returned (as array) when the attribute is missing; None returns None.
            at_least: With it, `count` is the largest and this the smallest number of values.
            faults: Where these are forgiven, surplus values are left out, too few are taken as zero, and a
                word counts as the number that it begins with.
        """
        text = self.attrib.get(name)
        if text is None:
            return None if default is None else np.asarray(default, dtype=np.float64)
        words = text.split()
        if len(words) == count <= _LONG_LIST and len(text) <= _SHORT_TEXT:
            values = [_faultless(word) for word in words]
            if None not in values:  # nothing to find fault with
                return np.array(values)
        low = count if at_least is None else at_least
        if (count is not None and len(words) > count) or (low is not None and len(words) < low):
            expected = (
                str(count) if low == count else f"{low} to {count if count is not None else 'any number'}"
            )
            message = f"attribute '{name}' has {len(words)} values, expected {expected}: {text[:80]!r}"
            enough = low is None or len(words) >= low
            faults.meet(self.error(message), "the surplus is left out" if enough else "zeros are used")
            words = words[:count] if enough else ["0"] * low
        if len(words) > _LONG_LIST and _NUMBER_CHARACTERS.match(text):
            try:
                values = np.array(words, dtype=np.float64)
            except ValueError:  # found again below, with a message that says where
                values = np.array([np.inf])
            if (np.abs(values) <= MAX_NUMBER).all():
                return values
        return np.array([self._number(name, word, faults) for word in words], dtype=np.float64)

    def bounds(self, name: str) -> "tuple[float, float] | None":
        """Return an attribute as lower and upper bound, which may be infinite, unlike other numbers."""
        words = self.attrib.get(name, "").split()
        if len(words) != 2 or not any(map(_INFINITY.match, words)):
            values = self.floats(name, 2)
            return None if values is None else (float(values[0]), float(values[1]))
        low, high = (
            float(word) if _INFINITY.match(word) else self._number(name, word, REFUSE) for word in words
        )
        return low, high

    @overload
    def float(self, name: str, default: "float", faults: Faults = REFUSE) -> "float": ...

    @overload
    def float(self, name: str, default: "float | None" = None, faults: Faults = REFUSE) -> "float | None": ...

    def float(self, name: str, default: "float | None" = None, faults: Faults = REFUSE) -> "float | None":
        """Return an attribute as one finite number, or the default; see `floats` for faults."""
        text = self.attrib.get(name)
        return default if text is None else self._number(name, text.strip(), faults)

    def positive(self, name: str, faults: Faults = REFUSE) -> "float":
        """Return a required attribute that must be a number above zero; see `floats` for faults."""
        text = self.attrib.get(name)
        if not text:
            missing = self.error(f"attribute '{name}' is missing")
            if text is None:
                raise missing
            faults.meet(missing, "the shape is left out")
            return 0.0
        value = self._number(name, text.strip(), faults)
        if value <= 0.0:
            fault = self.error(f"attribute '{name}' must be positive, got {value:g}")
            faults.meet(fault, "the shape is left out")
        return value

    @overload
    def int(self, name: str, default: "int") -> "int": ...

    @overload
    def int(self, name: str, default: "int | None" = None) -> "int | None": ...

    def int(self, name: str, default: "int | None" = None) -> "int | None":
        """Return an attribute as integer, or the default."""
        text = self.attrib.get(name)
        if text is None:
            return default
        if not _INTEGER.match(text.strip()) or len(text) > 18:
            raise self.error(f"attribute '{name}' is not an integer: {text[:80]!r}")
        return int(text)

    def bool(self, name: str, default: "bool | None" = None, also: dict[str, object] | None = None) -> object:
        """Return an attribute as boolean; `also` maps further keywords to values."""
        text = self.attrib.get(name)
        if text is None:
            return default
        words = {"true": True, "false": False, "1": True, "0": False, **(also or {})}
        if text.strip() not in words:
            raise self.error(f"attribute '{name}' is {text[:80]!r}, expected one of {', '.join(words)}")
        return words[text.strip()]

    def keyword(self, name: str, words: tuple[str, ...], default: str | None = None) -> str | None:
        """Return an attribute that must be one of the given words."""
        text = self.attrib.get(name, default)
        if text is not None and text not in words:
            raise self.error(f"attribute '{name}' is {text[:80]!r}, expected one of {', '.join(words)}")
        return text

    def _number(self, name: str, word: str, faults: Faults) -> "float":
        known = _faultless(word) if len(word) <= _SHORT_TEXT else None
        if known is not None:
            return known
        if not _NUMBER.match(word):
            start = _NUMBER_AT_START.match(word)
            value = float(start[1]) if start else 0.0
            fault = self.error(f"attribute '{name}' is not a finite number: {word[:80]!r}")
            faults.meet(fault, f"{value:g} is used")
            return value
        value = float(word)
        if abs(value) > MAX_NUMBER:
            if not np.isfinite(value):
                raise self.error(f"attribute '{name}' is too large: {word[:80]!r}")
            faults.meet(self.error(f"attribute '{name}' is too large: {word[:80]!r}"), "it is used as it is")
        return value


@functools.lru_cache(maxsize=4096)
def _faultless(word: str) -> float | None:
    """Return a number that is used as it stands, None for anything else; files repeat their words."""
    # float() also accepts 'nan', 'inf', '1_000' and other alphabets' digits, which no robot format has.
    value = float(word) if _NUMBER.match(word) else np.inf
    return value if abs(value) <= MAX_NUMBER else None


class _TreeTarget:
    """Receives parser events and builds the Node tree within the limits."""

    def __init__(self, path: str | None, first_line: int):
        self.path, self.first_line = path, first_line
        self.root: Node | None = None
        self.stack: list[Node] = []
        self.count = 0
        self.expat: Any = None

    def hear(self, expat: Any) -> None:
        """Take the elements from expat itself, without a detour through ElementTree for each."""
        self.expat = expat
        expat.ordered_attributes = False  # a mapping at once
        expat.StartElementHandler, expat.EndElementHandler = self.begin, self.end

    def line(self) -> int:
        """Return the line that is being read."""
        return self.expat.CurrentLineNumber + self.first_line - 1

    def begin(self, tag: str, attributes: dict[str, str]) -> None:
        """Open an element; expat writes names as `uri}name`."""
        if "}" in tag:
            tag = "{" + tag
        if "}" in "".join(attributes):
            attributes = {"{" + name if "}" in name else name: text for name, text in attributes.items()}
        node = Node(tag, attributes, self.path, self.expat.CurrentLineNumber + self.first_line - 1, [])
        stack, count = self.stack, self.count + 1
        self.count = count
        if count > limits.elements:
            raise node.limit_error(f"more than {limits.elements} elements")
        if count % CHECK_EVERY == 0:
            node.check_time()
        if len(stack) >= limits.depth:
            raise node.limit_error(f"elements nested more than {limits.depth} deep")
        if stack:
            stack[-1].children.append(node)
        else:
            self.root = node
        stack.append(node)

    def end(self, tag: str) -> None:
        node = self.stack.pop()
        if node.text:
            node.text = node.text.strip()

    def data(self, text: str) -> None:
        if self.stack and not text.isspace():
            self.stack[-1].text += text

    def close(self) -> "Node | None":
        return self.root


def is_xml_text(source: object) -> bool:
    """Tell XML text from a file name: text holds a '<', a usable file name does not start with one."""
    if isinstance(source, bytes):
        return True
    return isinstance(source, str) and source.lstrip("\ufeff \t\r\n").startswith("<")


def source_of(source: str | bytes | os.PathLike) -> tuple[str | bytes, str | None, Path]:
    """Return XML, the file that it stands in, None for text, and the folder that relative names refer to.

    Args:
        source: File name, or the XML itself (text that starts with '<').
    """
    if isinstance(source, str | bytes) and not source.strip():
        raise ImportFileError("expected the name of a file or XML, got an empty text")
    if is_xml_text(source):
        return source, None, Path.cwd()  # pyright: ignore[reportReturnType]
    path = Path(os.fspath(source)) if not isinstance(source, str) else Path(source)
    return read_bytes(path, limits.text_bytes), str(path), path.resolve().parent


def read_document(source: str | bytes | os.PathLike) -> tuple[Node, Path, list[str]]:
    """Read XML from a file or from text.

    Args:
        source: File name, or the XML itself (text that starts with '<').

    Returns:
        The root element, the folder that relative names refer to (the working directory for text), and notes
        on what was tolerated.
    """
    text, path, folder = source_of(source)
    root, notes = parse_xml(text, path)
    return root, folder, notes


def read_bytes(path: Path, limit: int) -> bytes:
    """Read a regular file of at most `limit` bytes; anything else raises ImportFileError."""
    try:
        if not path.is_file():
            what = "a folder, expected a file" if path.is_dir() else "not a regular file"
            raise ImportFileError(what if path.exists() else "no such file", path=str(path))
        size = path.stat().st_size
        if size > limit:
            raise ImportFileError(
                f"the file has {size} bytes, more than the limit of {limit}", path=str(path)
            )
        return path.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the name; also ImportFileError itself
        if isinstance(error, ImportFileError):
            raise
        raise ImportFileError(f"cannot be read: {error}", path=str(path)[:300]) from error


def parse_xml(source: str | bytes, path: str | None) -> tuple[Node, list[str]]:
    """Parse XML text to a tree of nodes.

    Blanks before the XML declaration and text after the root element are tolerated, as other simulators do.

    Returns:
        The root node and notes on what was tolerated.
    """
    from xml.parsers.expat import ErrorString

    from defusedxml.common import DefusedXmlException
    from defusedxml.ElementTree import DefusedXMLParser, ParseError

    if len(source) > limits.text_bytes:
        raise LimitError(f"the text is longer than the limit of {limits.text_bytes}", path=path)
    body = source.lstrip("\ufeff \t\r\n") if isinstance(source, str) else source.lstrip(b" \t\r\n")
    skipped = source[: len(source) - len(body)]
    first_line = 1 + (skipped.count("\n") if isinstance(skipped, str) else skipped.count(b"\n"))
    target = _TreeTarget(path, first_line)
    notes = ["blank text before the XML declaration"] if first_line > 1 else []
    try:
        parser = DefusedXMLParser(target=target)
        parser.parser.AttlistDeclHandler = _refuse_default
        parser.parser.StartDoctypeDeclHandler = _refuse_other_files
        target.hear(parser.parser)
        parser.feed(body)
        parser.close()
    except DefusedXmlException as error:
        raise ImportFileError(_refusal(error), path, target.line(), "!DOCTYPE") from error
    except ParseError as error:
        if error.code == _JUNK_AFTER_DOCUMENT and target.root is not None:
            notes.append("text after the root element")
        else:
            line = error.position[0] + first_line - 1
            what = f"not well-formed XML: {ErrorString(error.code)}{_foreign_byte(body, error.position[0])}"
            if body[:1] not in ("<", b"<"):
                what = f"not XML, which URDF, MJCF and SDF are written in: {_beginning(body)}"
            raise ImportFileError(what, path, line, _open_element(target)) from error
    except ImportFileError:
        raise
    except (LookupError, ValueError) as error:  # an unknown or wrong encoding
        raise ImportFileError(f"cannot be decoded: {error}", path, element=_open_element(target)) from error
    if target.root is None:
        raise ImportFileError("the document is empty", path)
    return target.root, notes


def _refuse_other_files(name: str, system: str | None, public: str | None, inside: int) -> None:
    """Refuse document types of which a part stands elsewhere, in which it could declare entities."""
    from defusedxml.common import ExternalReferenceForbidden

    if system is not None or public is not None:
        raise ExternalReferenceForbidden(name, None, system, public)


def _refuse_default(element: str, name: str, kind: str, default: str | None, required: int) -> None:
    """Refuse default values of attributes, of which many elements would make very much text."""
    from defusedxml.common import DefusedXmlException

    if default is not None:
        raise DefusedXmlException(f"attribute {name!r} of <{element}> with the default {default[:40]!r}")


def _refusal(error: Exception) -> str:
    """Return what of a document type is refused, with name and value."""
    from defusedxml.common import EntitiesForbidden, ExternalReferenceForbidden

    if isinstance(error, EntitiesForbidden):
        value = "" if error.value is None else f" with the value {error.value[:40]!r}"
        source = "" if error.sysid is None else f" from {error.sysid[:80]!r}"
        return f"it declares the entity {error.name!r}{value}{source}; declarations of entities are refused"
    if isinstance(error, ExternalReferenceForbidden):
        return f"it refers to {str(error.sysid)[:80]!r}; references to other files are refused"
    return f"it declares the {error}; default values of attributes are refused"


def _foreign_byte(body: str | bytes, line: int) -> str:
    """Say which byte of a line, from 1, is not UTF-8; "" if all are, or the text is in another encoding.

    Args:
        body: The document.
        line: Where the parser stopped.
    """
    if isinstance(body, str) or _ENCODING.search(body[:200]):
        return ""
    try:
        body.decode("utf-8")
    except UnicodeDecodeError as error:
        at = error.start
        if body.count(b"\n", 0, at) + 1 == line:
            column = at - body.rfind(b"\n", 0, at)
            return (
                f"; byte {column} of the line, 0x{body[at]:02x}, is not UTF-8, as files without encoding are"
            )
    return ""


def _beginning(body: str | bytes) -> str:
    """Return how a document begins that has no element."""
    text = body[:200].decode("utf-8", errors="replace") if isinstance(body, bytes) else body[:200]
    first = text.split("\n", maxsplit=1)[0].rstrip()[:60]
    return f"it begins with {first!r}" if first else "it is empty"


def _open_element(target: _TreeTarget) -> str | None:
    return target.stack[-1].label if target.stack else None
