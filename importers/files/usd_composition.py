"""What OpenUSD could not compose of a stage: missing layers, payloads, references and variants."""

import os
import re
from typing import TYPE_CHECKING, Any

from newtonsim.errors import ImportFileError
from newtonsim.importers.files.faults import Faults
from newtonsim.importers.files.usda_text import place_in_usda

if TYPE_CHECKING:
    from pxr import Usd

_INTRODUCED = re.compile(r"(?P<what>.*) introduced by @(?P<layer>[^@]*)@<(?P<prim>[^>]*)>\.?", re.DOTALL)
_SUBLAYER = re.compile(r"Could not load sublayer @(?P<what>[^@]*)@ of layer @(?P<layer>[^@]*)@")
_ASSET = re.compile(r"Could not open asset @(?P<asset>[^@]*)@ for (?P<arc>\w+)")
_FORGIVEN = ("InvalidAssetPath", "InvalidSublayerPath", "UnresolvedPrimPath")
"""Types of errors about what is not there, after the last underscore; the rest of such a stage is sound."""

MAX_SEARCHED = 1 << 26
"""Bytes of a layer up to which the place of an error is looked for."""


def meet_composition_errors(stage: "Usd.Stage", path: str | None, faults: Faults) -> None:
    """Meet sublayers, references and payloads of a stage that are not there; raise for other errors.

    Args:
        stage: The stage.
        path: Its file, None for one in memory.
        faults: Where these are forgiven, what is missing is left out, as OpenUSD does.

    Raises:
        ImportFileError: Arcs lead in a circle, or make no sense otherwise.
    """
    errors = stage.GetCompositionErrors()  # pyright: ignore[reportAttributeAccessIssue]  # not in the stubs
    for error in errors:
        if not str(error.errorType).endswith(_FORGIVEN):
            more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
            raise ImportFileError(f"the stage does not compose: {str(error)[:300]}{more}", path)
    for error in errors:
        faults.meet(_fault(error, path), "what it would bring is left out")
    _meet_unknown_variants(stage, path, faults)


def _meet_unknown_variants(stage: "Usd.Stage", path: str | None, faults: Faults) -> None:
    """Meet selections of variants, or of sets of variants, that are not there, which OpenUSD passes over."""
    from pxr import Usd

    told: set[tuple[str, str, str]] = set()  # copies of an instance share what they are composed of
    everything = Usd.TraverseInstanceProxies(Usd.PrimAllPrimsPredicate)
    for prim in Usd.PrimRange(stage.GetPseudoRoot(), everything):
        for name, value in (prim.GetMetadata("variantSelection") or {}).items():
            what = _unknown_variant(prim.GetVariantSets(), name, value)
            if what is None:
                continue
            spec = next(one for one in prim.GetPrimStack() if name in one.variantSelections)
            layer, place = str(spec.layer.realPath), str(spec.path)
            if (layer, place, name) not in told:
                told.add((layer, place, name))
                shown = _shown(layer, path) if layer else path
                fault = ImportFileError(what, shown, _line(layer, place, ""), str(prim.GetPath()))
                faults.meet(fault, "none of the set is used")


def _unknown_variant(sets: "Usd.VariantSets", name: str, value: str) -> str | None:
    """What a selection asks for that is not there, None for nothing."""
    known = sets.GetVariantSet(name).GetVariantNames() if name in sets.GetNames() else None
    if not value or (known is not None and value in known):
        return None
    there = ", ".join(map(repr, sorted(sets.GetNames() if known is None else known))) or "none"
    if known is None:
        return f"there is no variant set {name!r}, of which {value!r} is selected, only {there}"
    return f"the variant set {name!r} has no {value!r}, only {there}"


def _fault(error: Any, path: str | None) -> ImportFileError:
    """Name the place at which something is asked for that is not there."""
    text = " ".join(str(error).split())
    prim, asset = str(error.rootSite.path), ""
    if sublayer := _SUBLAYER.match(text):
        asset, layer, what = (
            sublayer["what"],
            sublayer["layer"],
            f"the sublayer {sublayer['what']!r} is missing",
        )
        return ImportFileError(what, _shown(layer, path), _line(layer, None, asset), "layer")
    layer, what = path or "", text[:300]
    if arc := _INTRODUCED.match(text):
        layer, prim, what = arc["layer"], arc["prim"], arc["what"][:300]
    if opened := _ASSET.match(what):
        asset, what = opened["asset"], f"the {opened['arc']} {opened['asset']!r} cannot be opened"
    return ImportFileError(what, _shown(layer, path), _line(layer, prim, asset), str(error.rootSite.path))


def _shown(layer: str, path: str | None) -> str | None:
    """Return the name of a layer as the caller knows it."""
    return path if path is None or os.path.abspath(path) == os.path.abspath(layer) else layer


def _line(layer: str, prim: str | None, asset: str) -> int | None:
    """Return the line of a layer of text on which a prim, or the layer, asks for an asset.

    Args:
        layer: The file.
        prim: Path of the prim in it, None for the layer's own metadata.
        asset: Path of what it asks for, "" for a prim.

    Returns:
        The first line from the prim on that names the file of the asset, else that of the prim; None where
        the layer is no text.
    """
    if not os.path.isfile(layer) or os.path.getsize(layer) > MAX_SEARCHED:
        return None
    with open(layer, "rb") as file:
        contents = file.read()
    if not contents.startswith(b"#usda"):
        return None
    text = contents.decode("utf-8", errors="replace")
    place = (1, 1) if prim is None else place_in_usda(text, prim, None)
    if place is None:
        return None
    for number, line in enumerate(text.splitlines()[place[0] - 1 :], start=place[0]):
        if asset and os.path.basename(asset) in line:
            return number
    return place[0]
