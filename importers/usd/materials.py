"""Physics materials and appearances that are bound to geometry."""

from dataclasses import dataclass

from newtonsim.importers.files.report import ImportReport
from newtonsim.importers.usd.element import Element
from newtonsim.importers.usd.records import SurfaceMaterial
from newtonsim.importers.usd.stage import StageView
from newtonsim.importers.usd.vendors import material_fields, spin_friction


@dataclass(frozen=True, slots=True)
class Appearance:
    """Colour (red, green, blue, alpha) and texture file of what is seen; None if nothing says."""

    color: tuple[float, float, float, float] | None = None
    texture: str | None = None


class Materials:
    """Reads each material once."""

    def __init__(self, view: StageView, report: ImportReport):
        self.view, self.report = view, report
        self._surfaces: dict[str, SurfaceMaterial] = {}
        self._appearances: dict[str, Appearance] = {}

    def surface(self, element: Element) -> SurfaceMaterial:
        """The physics material of a collider: bound for physics, otherwise for all purposes."""
        prim = _bound(element, "physics")
        if prim is None:
            return SurfaceMaterial()
        path = str(prim.GetPath())
        if path not in self._surfaces:
            self._surfaces[path] = self._read_surface(Element(prim, path, self.view.path, self.view.time))
        return self._surfaces[path]

    def _read_surface(self, element: Element) -> SurfaceMaterial:
        if not element.has_api("PhysicsMaterialAPI"):
            return SurfaceMaterial()
        static = element.number("physics:staticFriction", least=0.0)
        friction = element.number("physics:dynamicFriction", static, least=0.0)
        if static is not None and abs(static - friction) > 1.0e-6 * max(1.0, static):
            self.report.approximated(
                element,
                f"shapes have one coefficient of friction: the dynamic one {friction:g}, not the static"
                f" one {static:g}",
            )
        restitution = element.number("physics:restitution", least=0.0)
        if restitution is not None and restitution > 1.0:
            raise element.error(f"attribute 'physics:restitution' is {restitution:g}, expected 0 to 1")
        density = element.number("physics:density", 0.0, least=0.0) * self.view.units.density
        fields = material_fields(element, self.view.units, self.report)
        spin = spin_friction(element, self.view.units)
        return SurfaceMaterial(friction, restitution, density or None, fields, spin)

    def appearance(self, element: Element) -> Appearance:
        """Colour of a prim: of its bound material, otherwise its display colour."""
        prim = _bound(element, "")
        appearance = Appearance()
        if prim is not None:
            path = str(prim.GetPath())
            if path not in self._appearances:
                self._appearances[path] = _read_appearance(prim)
            appearance = self._appearances[path]
        if appearance.color is None and appearance.texture is None:
            return _display_appearance(element)
        return appearance


def _bound(element: Element, purpose: str) -> object | None:
    from pxr import UsdShade

    material = UsdShade.MaterialBindingAPI(element.prim).ComputeBoundMaterial(purpose)[0]
    return material.GetPrim() if material else None


def _read_appearance(prim: object) -> Appearance:
    """Diffuse colour, opacity and texture of a preview surface."""
    from pxr import UsdShade

    source = UsdShade.Material(prim).ComputeSurfaceSource()
    shader = source[0] if isinstance(source, tuple) else source
    if not shader or shader.GetIdAttr().Get() != "UsdPreviewSurface":
        return Appearance()
    color = _input(shader, "diffuseColor")
    opacity = _input(shader, "opacity")
    alpha = float(opacity) if isinstance(opacity, float) else 1.0
    if isinstance(color, str):
        return Appearance(None, color)
    channels = _channels(color)
    return Appearance() if channels is None else Appearance((*channels, alpha))


def _channels(color: object) -> tuple[float, float, float] | None:
    """Red, green and blue of a value; None if it is not a colour, whatever else the file says that it is."""
    try:
        red, green, blue = (float(channel) for channel in color)  # pyright: ignore[reportGeneralTypeIssues]
    except (TypeError, ValueError):
        return None
    return red, green, blue


def _input(shader: object, name: str) -> object:
    """Value of an input, or the file of the texture that it is connected to."""
    source = shader.GetInput(name)
    if not source:
        return None
    attributes = source.GetValueProducingAttributes()
    if not attributes:
        return None
    producer = attributes[0].GetPrim()
    if attributes[0].GetName().startswith("outputs:"):
        texture = producer.GetAttribute("inputs:file")
        asset = texture.Get() if texture else None
        return (asset.resolvedPath or asset.path) if hasattr(asset, "resolvedPath") else None
    return attributes[0].Get()


def _display_appearance(element: Element) -> Appearance:
    from pxr import UsdGeom

    gprim = UsdGeom.Gprim(element.prim)
    if not gprim:
        return Appearance()
    values = []
    for primvar in ("displayColor", "displayOpacity"):
        found = UsdGeom.PrimvarsAPI(element.prim).FindPrimvarWithInheritance(primvar)
        value = found.Get(element.time) if found and found.HasAuthoredValue() else None
        values.append(value[0] if value is not None and len(value) else None)
    color, opacity = values
    if color is None:
        return Appearance()
    return Appearance((*(float(c) for c in color), 1.0 if opacity is None else float(opacity)))
