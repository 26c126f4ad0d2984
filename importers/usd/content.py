"""Sorting the prims of a stage by what they are; cameras and lights as data."""

from newtonsim.importers.files.report import ImportReport
from newtonsim.importers.usd.element import Element
from newtonsim.importers.usd.frames import split
from newtonsim.importers.usd.joints import KINDS
from newtonsim.importers.usd.records import Content
from newtonsim.importers.usd.scene import Scenes
from newtonsim.importers.usd.vocabulary import NOT_MODELLED, SCHEMAS, TYPES, report_properties
from newtonsim.importers.usd.walk import Place, Walker

_SILENT = ("MaterialBindingAPI", "GeomModelAPI", "ShapingAPI", "ShadowAPI", "SkelBindingAPI")
_MOVING = (
    "Mimic",
    "Tendon",
    "Deformable",
    "Particle",
    "Vehicle",
    "SurfaceVelocity",
    "ForceAPI",
    "Attachment",
)
"""Parts of the names of vendors' schemas that change the motion."""

_READ_TYPES = (
    "",
    "Xform",
    "Scope",
    "PointInstancer",
    "Material",
    "Shader",
    "PhysicsScene",
    "PhysicsCollisionGroup",
)
_READ_APIS = ("Physics", "MaterialBindingAPI", "CollectionAPI")


def collect(walker: Walker, root_path: str, report: ImportReport) -> Content:
    """Walk over everything below a path and sort it."""
    content = Content()
    for place in walker.walk(root_path):
        label = place.element.label
        content.places[label] = place
        if place.body == label:
            content.bodies[label] = place
        _sort(place, content, report)
        _report_foreign(place, report)
    report_properties(list(content.places.values()), report)
    return content


def _sort(place: Place, content: Content, report: ImportReport) -> None:
    from pxr import UsdGeom, UsdLux

    element, prim = place.element, place.element.prim
    kind = prim.GetTypeName()
    if kind in KINDS:
        content.joints.append(place)
    elif kind.startswith("Phys") and kind.endswith("Joint"):
        report.unsupported(element, f"a joint of type {kind} is not modelled")
    elif kind in ("MjcActuator", "NewtonActuator"):
        content.actuators.append(place)
    elif TYPES.get(kind):
        report.add(TYPES[kind], element, f"a prim of type {kind} is not read")
    elif element.has_api("PhysicsCollisionAPI"):
        content.colliders.append(place)
    elif kind == "Camera":
        content.cameras.append(place)
    elif prim.HasAPI(UsdLux.LightAPI):
        content.lights.append(place)
    elif kind == "TetMesh":
        report.unsupported(element, "soft bodies are not imported")
    elif prim.IsA(UsdGeom.Gprim):
        purpose = UsdGeom.Imageable(prim).ComputePurpose()
        if purpose in ("default", "render"):
            content.visuals.append(place)
        else:
            report.ignored(element, f"geometry of purpose {purpose} is not drawn")
    if element.has_api("PhysicsArticulationRootAPI"):
        content.roots.append(place)
    if element.has_api("PhysicsFilteredPairsAPI"):
        content.filtered.append(place)


def _report_foreign(place: Place, report: ImportReport) -> None:
    """Name the API schemas that neither OpenUSD nor the vocabulary knows, and those that are not modelled."""
    known = place.element.prim.GetAppliedSchemas()
    for name in place.element.schemas:
        base = name.partition(":")[0]
        whole = base in NOT_MODELLED
        if not whole and (base in SCHEMAS or name in known or name.startswith(_SILENT)):
            continue
        moving = whole or any(part in name for part in _MOVING)
        kind, words = ("unsupported", "modelled") if moving else ("ignored", "read")
        element = _schema_label(place, name)
        entry = report.add(kind, place.element, f"the schema {name} is not {words}", element)
        entry.refused = not whole  # nobody says what it means, as where it is misspelt


def _schema_label(place: Place, schema: str) -> str:
    return f"{place.element.label} {schema}"


def count_prims(content: Content, report: ImportReport) -> None:
    """Count prims by type and by API schema, and what was made of them."""
    worst = report.worst_by_element()
    read = {id(place) for group in (content.joints, content.colliders, content.visuals) for place in group}
    for label, place in content.places.items():
        kind = str(place.element.prim.GetTypeName())
        known = id(place) in read or place.body == label or kind in _READ_TYPES
        report.count(kind or "(no type)", worst.get(label, "modelled" if known else "ignored"))
        for schema in place.element.schemas:
            base = schema.partition(":")[0]
            made = SCHEMAS.get(base, "modelled" if schema.startswith(_READ_APIS) else "ignored")
            report.count(base, worst.get(_schema_label(place, schema), made))


def keep_owned(content: Content, scenes: Scenes, walker: Walker) -> None:
    """Leave out bodies, with what they carry, and colliders that no scene of Warp's simulates."""
    foreign = {
        label for label, place in content.bodies.items() if scenes.owner_of(place.element) not in scenes.warp
    }
    walker.skipped += sorted(foreign)
    content.bodies = {label: place for label, place in content.bodies.items() if label not in foreign}
    content.places = {label: place for label, place in content.places.items() if place.body not in foreign}
    content.visuals = [place for place in content.visuals if place.body not in foreign]
    content.colliders = [
        place
        for place in content.colliders
        if place.body not in foreign
        and (place.body is not None or scenes.owner_of(place.element) in scenes.warp)
    ]


def cameras_of(content: Content, length: float) -> dict[str, dict]:
    """Pose and lens of each camera, by path; distances in metres, sizes of the lens as in the stage."""
    found = {}
    for place in content.cameras:
        element, pose = place.element, split(place.matrix).pose
        found[element.label] = {
            "xform": pose.row(),
            "body": place.body,
            "projection": str(element.value("projection") or "perspective"),
            "focal_length": element.number("focalLength", 50.0),
            "horizontal_aperture": element.number("horizontalAperture", 20.955),
            "vertical_aperture": element.number("verticalAperture", 15.2908),
            "horizontal_aperture_offset": element.number("horizontalApertureOffset", 0.0),
            "vertical_aperture_offset": element.number("verticalApertureOffset", 0.0),
            "clipping_range": _clipping_range(element, length),
            "focus_distance": element.number("focusDistance", 0.0) * length,
            "f_stop": element.number("fStop", 0.0),
        }
    return found


def _clipping_range(element: Element, length: float) -> tuple[float, float]:
    value = element.value("clippingRange")
    near, far = (1.0, 1000000.0) if value is None else value
    return float(near) * length, float(far) * length


def lights_of(content: Content) -> dict[str, dict]:
    """Kind, pose, colour, brightness and all other inputs of each light, by path."""
    found = {}
    for place in content.lights:
        element, pose = place.element, split(place.matrix).pose
        found[element.label] = {
            "type": str(element.prim.GetTypeName()),
            "xform": pose.row(),
            "body": place.body,
            "color": tuple(element.vector("inputs:color", (1.0, 1.0, 1.0)).tolist()),
            "intensity": element.number("inputs:intensity", 1.0),
            "exposure": element.number("inputs:exposure", 0.0),
            "inputs": {
                attribute.GetBaseName(): attribute.Get(element.time)
                for attribute in element.prim.GetAuthoredPropertiesInNamespace("inputs")
                if hasattr(attribute, "Get")
            },
        }
    return found
