"""Attributes that a format does not know: misspellings, which would otherwise be ignored in silence."""

from collections.abc import Iterable, Mapping

from newtonsim.errors import did_you_mean
from newtonsim.importers.files.faults import Faults
from newtonsim.importers.files.xml import Node


def meet_unknown_attributes(
    nodes: Iterable[Node], known: Mapping[str, frozenset[str]], faults: Faults
) -> None:
    """Meet attributes that a format does not know, as faults; each once for each kind of element.

    Args:
        nodes: The elements to look at.
        known: Attributes by element; those of other elements are not looked at.
        faults: Meets each, with file, line, element, name and value.
    """
    found: dict[tuple[str, str], list[Node]] = {}
    for node in nodes:
        for name in node.attrib.keys() - known.get(node.tag, node.attrib.keys()):
            # what has a namespace belongs to another format
            if not name.startswith("{"):
                found.setdefault((node.tag, name), []).append(node)
    for (tag, name), places in found.items():
        text = f"attribute '{name}', here {places[0].attrib[name][:80]!r}, is not one of <{tag}>"
        more = f", in {len(places)} elements" if len(places) > 1 else ""
        fault = places[0].error(text + more + did_you_mean(name, known[tag]))
        faults.meet(fault, "it is ignored")
