"""One MJCF document from a file and all that it includes, attaches and replicates."""

import os
from pathlib import Path

from newtonsim.importers.files.faults import REFUSE, Faults
from newtonsim.importers.files.report import ImportReport
from newtonsim.importers.files.xml import Node
from newtonsim.importers.mjcf.attach import Attacher
from newtonsim.importers.mjcf.document import Document, read_document_tree
from newtonsim.importers.mjcf.replicate import expand_replicates

MAX_DEPTH = 16


def read_mjcf(source: str | bytes | os.PathLike, report: ImportReport, faults: Faults = REFUSE) -> Document:
    """Read a file or text with its includes, attached models and replicas in place."""
    document = read_document_tree(source, report, faults)
    report.path = document.root.path
    _compose(document, report, ())
    return document


def _compose(document: Document, report: ImportReport, above: tuple[str, ...]) -> None:
    above = (*above, document.root.path or "")

    def read(path: Path, node: Node) -> Document:
        other = read_document_tree(path.resolve(), report, document.faults)
        if other.root.path in above or len(above) >= MAX_DEPTH:
            raise node.error(f"file {path} attaches itself or is nested more than {MAX_DEPTH} files deep")
        _compose(other, report, above)
        return other

    Attacher(document, read, report).run()
    expand_replicates(document)
