"""Stages with values and targets that make no sense give typed errors or a model, nothing else."""

import warnings

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pxr import Sdf, Usd
from usd_text import BODY, MASS, MESH, SOLID, ops, prim, stage_of

import newtonsim
from newtonsim.importers import parse_usd

QUADS = (
    "int[] faceVertexCounts = [3, 3, 3, 3]\nint[] faceVertexIndices = [0, 2, 1, 0, 1, 3, 0, 3, 2, 1, 2, 3]\n"
    "point3f[] points = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)]\n"
)
MEMBERS = "collection:colliders:includes"
ENDS = "rel physics:body0 = </a>\nrel physics:body1 = </b>"
BASE = (
    prim("PhysicsScene", "scene", inside="vector3f physics:gravityDirection\nfloat physics:gravityMagnitude")
    + prim(
        "Xform", "a", BODY, MASS,
        inside=ops(translate=(0, 0, 1), rotateXYZ=(0, 0, 0), scale=(1, 1, 1))
        + prim("Mesh", "mesh", SOLID, MESH, inside=QUADS + "int[] holeIndices")
        + prim("Capsule", "capsule", SOLID, "MaterialBindingAPI", inside="rel material:binding = </wood>"),
    )
    + prim("Cube", "b", BODY, SOLID, MASS)
    + prim("Material", "wood", "PhysicsMaterialAPI")
    + prim("PhysicsRevoluteJoint", "j", "PhysicsDriveAPI:angular", inside=ENDS)
    + prim("PhysicsJoint", "k", "PhysicsLimitAPI:rotX", "PhysicsDriveAPI:transX", inside=ENDS)
    + prim("PhysicsCollisionGroup", "g", "CollectionAPI:colliders", inside=f"rel {MEMBERS} = </b>")
    + prim("PointInstancer", "field", inside="rel prototypes = </b>\nint[] protoIndices = [0]\n"
        "point3f[] positions = [(5, 0, 0)]")
)  # fmt: skip
NUMBER = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, -1.0, 1e-30, 1e30, 3e38, float("inf"), float("-inf"), float("nan")]),
    st.floats(width=32),
)
INTEGERS = st.lists(st.integers(-3, 12), max_size=12)
TARGETS = st.lists(
    st.sampled_from(["/a", "/b", "/j", "/g", "/scene", "/nowhere", "/a/mesh", "/field", "/wood"]), max_size=2
)


def properties() -> list[tuple[str, str]]:
    """Prim path and name of every attribute and relationship that the importer might read."""
    stage = stage_of(BASE)
    words = (
        "physics",
        "xformOp",
        "face",
        "points",
        "hole",
        "radius",
        "height",
        "size",
        "axis",
        "proto",
        "positions",
    )
    words += ("orientation", "scales", "material:binding")
    return [
        (str(one.GetPath()), name)
        for one in stage.Traverse()
        for name in one.GetPropertyNames()
        if any(word in name for word in words)
    ]


PROPERTIES = properties()


def write(stage: Usd.Stage, path: str, name: str, data: st.DataObject) -> None:
    """Give a property some value, of its own type or of another one."""
    owner = stage.GetPrimAtPath(path)
    if owner.GetRelationship(name):
        owner.GetRelationship(name).SetTargets([Sdf.Path(target) for target in data.draw(TARGETS)])
        return
    attribute = owner.GetAttribute(name)
    kind = str(attribute.GetTypeName())
    number = data.draw(NUMBER)
    values = {
        "float": number,
        "double": number,
        "bool": data.draw(st.booleans()),
        "token": data.draw(st.sampled_from(["X", "none", "force", "convexHull", "", "ä b"])),
        "int[]": data.draw(INTEGERS),
        "uniform token[]": ["xformOp:scale"],
    }
    if kind in values:
        attribute.Set(values[kind])
    elif "3" in kind and "[]" not in kind:
        attribute.Set(tuple(data.draw(st.tuples(NUMBER, NUMBER, NUMBER))))
    elif kind == "quatf":
        attribute.Set(
            type(attribute.Get())(*(float(x) for x in data.draw(st.tuples(NUMBER, NUMBER, NUMBER, NUMBER))))
        )
    elif "3" in kind:
        attribute.Set([tuple(p) for p in data.draw(st.lists(st.tuples(NUMBER, NUMBER, NUMBER), max_size=5))])


@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_any_value_gives_a_typed_error_or_a_model(data):
    """Up to three properties of one stage get values that may make no sense."""
    stage = stage_of(BASE)
    for path, name in data.draw(st.lists(st.sampled_from(PROPERTIES), min_size=1, max_size=3)):
        write(stage, path, name, data)
    builder = newtonsim.ModelBuilder()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            parse_usd(stage, builder)
            builder.finalize("cpu")
        except newtonsim.ImportFileError:
            assert builder.body_count == builder.shape_count == 0
        except newtonsim.ModelError:
            pass


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("physics:mass", "string"),
        ("physics:mass", "bool"),
        ("physics:velocity", "float"),
        ("physics:kinematicEnabled", "token"),
    ],
)
def test_attributes_of_another_type_are_named(name, kind):
    """Types as an author might have written them by mistake."""
    value = {"string": '"x"', "bool": "1", "float": "2", "token": '"yes"'}[kind]
    stage = stage_of(prim("Xform", "body", BODY, MASS, inside=f"{kind} {name} = {value}"))
    with pytest.raises(newtonsim.ImportFileError, match=f"/body.*{name}"):
        parse_usd(stage, newtonsim.ModelBuilder())


def test_instancers_that_hold_themselves():
    """A prototype around its instancer would never end."""
    inner = prim(
        "PointInstancer",
        "field",
        inside="rel prototypes = </a>\nint[] protoIndices = [0]\npoint3f[] positions = [(0, 0, 0)]",
    )
    with pytest.raises(newtonsim.ImportFileError, match=r"/a/field.*prototypes"):
        parse_usd(stage_of(prim("Xform", "a", inside=inner)), newtonsim.ModelBuilder())
    two = "".join(
        prim(
            "PointInstancer",
            name,
            inside=f"rel prototypes = </{other}>\n"
            f"int[] protoIndices = [0]\npoint3f[] positions = [(0, 0, 0)]",
        )
        for name, other in (("x", "y"), ("y", "x"))
    )
    with pytest.raises(newtonsim.ImportFileError, match="nested more than"):
        parse_usd(stage_of(two), newtonsim.ModelBuilder())


def test_joints_in_a_circle_close_a_loop():
    """Three hinges around three bodies, no root: a tree and one constraint."""
    bodies = "".join(prim("Cube", name, BODY, SOLID) for name in "abc")
    joints = "".join(
        prim(
            "PhysicsRevoluteJoint",
            f"j{first}",
            inside=f"rel physics:body0 = </{first}>\nrel physics:body1 = </{second}>",
        )
        for first, second in ("ab", "bc", "ca")
    )
    result = parse_usd(stage_of(bodies + joints), newtonsim.ModelBuilder())
    assert len(result["path_constraint_map"]) == 1
