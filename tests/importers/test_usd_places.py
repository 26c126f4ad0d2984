"""Errors about the contents of USD layers of text tell line and column, where the text has what is wrong."""

import random
from pathlib import Path

import pxr
import pytest
from pxr import Sdf, Usd

import newtonsim
from newtonsim.errors import ImportFileError
from newtonsim.importers import parse_usd
from newtonsim.importers.files.usda_text import place_in_usda

SCENE = '''#usda 1.0
(
    doc = """def Sphere "b" { double radius = -1 }"""
    metersPerUnit = 1
)
def Xform "World"
{
    # } ( def Sphere "b" { double radius = -1
    string note = "radius { } radius"
    def Sphere "a" (
        prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsCollisionAPI"]
        customData = { string radius = "def { (" }
    )
    {
        double radius = 0.5
        double3 xformOp:translate = (0, 0, 3)
        uniform token[] xformOpOrder = ["xformOp:translate"]
    }
    def Sphere "b" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsCollisionAPI"])
    {
        float3[] extent.timeSamples = { 0: [(0, 0, 0)], 1: [(1, 1, 1)] }
        custom rel radiusOf = </World/a.radius>
        double radius = 0.5
    }
    def PhysicsRevoluteJoint "j"
    {
        rel physics:body0 = </World/a>
        rel physics:body1 = </World/b>
        float physics:lowerLimit = -30; float physics:upperLimit = 30
    }
}
'''
WRONG = {
    "an attribute": (
        "double radius = 0.5\n    }\n    def Phys",
        "double radius = -2\n    }\n    def Phys",
        7,
    ),
    "the second on its line": ("float physics:upperLimit = 30", "float physics:upperLimit = -40", -26),
    "a relationship": ("rel physics:body1 = </World/b>", "rel physics:body1 = </World/none>", 4),
}
"""What is replaced, by what, and how many characters after its beginning the name of the property stands."""


def refused(path: Path | Usd.Stage | str) -> ImportFileError:
    with pytest.raises(ImportFileError) as caught:
        parse_usd(path, newtonsim.ModelBuilder())
    return caught.value


def counted(text: str, at: int) -> tuple[int, int]:
    """Line and column of a character, as an editor counts."""
    before = text[:at].split("\n")
    return len(before), len(before[-1]) + 1


@pytest.mark.parametrize("case", WRONG)
def test_values_that_are_wrong_tell_line_and_column(case, tmp_path):
    right, wrong, offset = WRONG[case]
    assert SCENE.count(right) == 1
    text = SCENE.replace(right, wrong)
    path = tmp_path / "scene.usda"
    path.write_text(text)
    error = refused(path)
    line, column = counted(text, text.index(wrong) + offset)
    assert (error.path, error.line) == (str(path), line)
    assert error.message.startswith(f"column {column}: ")
    assert str(error).startswith(f"{path}:{line}: <{error.element}>: column {column}: ")


def test_what_is_not_written_tells_its_prim(tmp_path):
    """The mesh has no points at all."""
    text = SCENE.replace('def Sphere "b"', 'def Mesh "b"')
    path = tmp_path / "scene.usda"
    path.write_text(text)
    error = refused(path)
    line, column = counted(text, text.rindex('def Mesh "b"'))
    assert (error.line, error.element) == (line, "/World/b")
    assert error.message.startswith(f"column {column}: ")


def test_a_value_in_a_variant_of_another_layer(tmp_path):
    part = """#usda 1.0
def Sphere "ball" (
    prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsCollisionAPI"]
    variants = { string size = "small" }
    prepend variantSets = "size"
)
{
    variantSet "size" = {
        "big" {
            double radius = 2
        }
        "small" (doc = "{") {
            double radius = -3
        }
    }
}
"""
    (tmp_path / "part.usda").write_text(part)
    root = (
        '#usda 1.0\ndef Xform "World"\n{\n    def "b" (references = @./part.usda@</ball>)\n    {\n    }\n}\n'
    )
    (tmp_path / "scene.usda").write_text(root)
    error = refused(tmp_path / "scene.usda")
    assert (error.path, error.line, error.element) == (str(tmp_path / "part.usda"), 13, "/World/b")
    assert error.message.startswith("column 20: attribute 'radius' is -3")
    (tmp_path / "over.usda").write_text(root.replace("{\n    }", "{\n        double radius = -4\n    }"))
    error = refused(tmp_path / "over.usda")  # the value that counts
    assert (error.path, error.line) == (str(tmp_path / "over.usda"), 6)
    assert error.message.startswith("column 16: attribute 'radius' is -4")


def test_stages_without_a_text_have_no_lines(tmp_path):
    """In memory, in a binary file, and in a layer that was changed after it was read."""
    right, wrong, _ = WRONG["an attribute"]
    layer = Sdf.Layer.CreateAnonymous(".usda")
    layer.ImportFromString(SCENE.replace(right, wrong))
    layer.Export(str(tmp_path / "scene.usdc"))
    (tmp_path / "right.usda").write_text(SCENE)
    changed = Usd.Stage.Open(str(tmp_path / "right.usda"))
    changed.GetPrimAtPath("/World/b").GetAttribute("radius").Set(-2.0)
    for source in (Usd.Stage.Open(layer), tmp_path / "scene.usdc", changed):
        error = refused(source)
        assert error.line is None
        assert error.element == "/World/b"
        assert "column" not in error.message


def files_of_others() -> list[Path]:
    """Layers of text that come with OpenUSD and with Newton, some with variants."""
    found = sorted(Path(pxr.__file__).parent.rglob("*.usda"))
    newton = pytest.importorskip("newton")
    return found[::3] + sorted(Path(newton.__file__).parent.rglob("*.usda"))[:6]


def test_every_property_of_files_of_others_is_found():
    """Where OpenUSD has read a property or a prim, the text at the place found begins with its name."""
    looked_at = 0
    source = random.Random(3)
    for file in files_of_others():
        layer, text = Sdf.Layer.FindOrOpen(str(file)), file.read_text(encoding="utf-8")
        if layer is None:
            continue
        paths: list[Sdf.Path] = []
        layer.Traverse(Sdf.Path.absoluteRootPath, paths.append)
        kept = [path for path in paths if path.IsPrimPath() or path.IsPrimPropertyPath()]
        for path in source.sample(kept, min(40, len(kept))):
            is_prim = path.IsPrimPath()
            name = None if is_prim else path.name
            place = place_in_usda(text, str(path if is_prim else path.GetParentPath()), name)
            assert place is not None, (file, path)
            rest = text.split("\n")[place[0] - 1][place[1] - 1 :]
            looked_at += 1
            if is_prim:
                assert rest.startswith(("def ", "over ", "class "))
                assert f'"{path.name}"' in rest
            else:
                assert rest.removeprefix(path.name)[:1] in (" ", ".", "\n", "", "("), (file, path, rest)
    assert looked_at > 300


def test_misspelt_properties_have_prim_line_value_and_the_name_meant(tmp_path):
    """Each on its own prim, also in a warning, and in the error of a strict import."""
    file = tmp_path / "stage.usda"
    file.write_text(
        """#usda 1.0
def Cube "link" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsMassAPI", "PhysicsCollisionAPI"])
{
    point3f physics:centreOfMass = (1, 2, 3)
}
def PhysicsRevoluteJoint "j" (prepend apiSchemas = ["PhysicsDriveAPI:angular"])
{
    rel physics:body1 = </link>
    float drive:angular:physics:damping = 1
    float drive:angular:physics:stifness = 2
}
"""
    )
    with pytest.warns(newtonsim.UnsupportedElementWarning) as told:
        report = parse_usd(str(file), newtonsim.ModelBuilder())["report"]
    entries = report.of_kind("unsupported")
    assert [(entry.element, entry.line, entry.path) for entry in entries] == [
        ("/link", 4, str(file)),
        ("/j", 10, str(file)),
    ]
    wanted = "'drive:angular:physics:stifness' = 2.0 (did you mean 'stiffness'?)"
    assert wanted in entries[1].message
    assert "(did you mean 'centerOfMass'?)" in entries[0].message
    text = " ".join(str(one.message) for one in told)
    assert f"</j>, line 10: no schema knows {wanted}" in text
    with pytest.raises(ImportFileError, match=r"stage.usda:4: </link>: not supported: no schema knows"):
        parse_usd(str(file), newtonsim.ModelBuilder(), strict=True)
    assert report.elements["PhysicsRevoluteJoint"]["unsupported"] == 1  # counted, although its line is known


UNAPPLIED = """#usda 1.0
(metersPerUnit = 1)
def Cube "light" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsCollisionAPI"])
{
    double size = 0.1
    float physics:mass = 4
    float physics:density = 900
}
def Cube "heavy" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsCollisionAPI", "PhysicsMassAPI"])
{
    double size = 0.1
    float physics:mass = 4
}
def Cube "other" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsCollisionAPI"])
{
    double size = 0.1
    float physics:mass = 5
}
def PhysicsRevoluteJoint "j" (prepend apiSchemas = ["PhysicsDriveAPI:angular"])
{
    rel physics:body1 = </light>
    uniform token physics:axis = "Z"
    float drive:angular:physics:stiffness = 1
    float drive:linear:physics:damping = 2
}
def "raised"
{
    double3 xformOp:translate = (0, 0, 3)
    uniform token[] xformOpOrder = ["xformOp:translate"]
    def Cube "low" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsCollisionAPI"]) {}
}
"""


def test_properties_of_schemas_that_are_not_applied_are_told(tmp_path):
    """OpenUSD does not read them either: its masses are those of the volumes, and nothing is raised."""
    file = tmp_path / "stage.usda"
    file.write_text(UNAPPLIED)
    builder = newtonsim.ModelBuilder(up_vector=(0, 0, 1))
    result = parse_usd(str(file), builder, strict=True)
    masses = {path: builder.body_mass[body] for path, body in result["path_body_map"].items()}
    assert masses == pytest.approx({"/light": 1.0, "/heavy": 4.0, "/other": 1.0, "/raised/low": 8000.0})
    assert builder.body_q[result["path_body_map"]["/raised/low"]][2] == 0.0
    told = [(entry.element, entry.message) for entry in result["report"].of_kind("ignored")]
    assert told == [
        ("/light", "'physics:density' is not read: the prim has no PhysicsMassAPI or PhysicsMaterialAPI"),
        ("/light", "'physics:mass', of 2 prims, is not read: the prim has no PhysicsMassAPI"),
        ("/j", "'drive:linear:physics:damping' is not read: the prim has no PhysicsDriveAPI"),
        ("/raised", "'xformOpOrder' is not read: a prim without type, such as Xform, has no transform"),
    ]


def test_impossible_inertia_is_told_once_with_its_line(tmp_path):
    """Of a prim that is a body and its own collider."""
    file = tmp_path / "stage.usda"
    file.write_text(
        """#usda 1.0
(metersPerUnit = 1)
def Cube "link" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsMassAPI", "PhysicsCollisionAPI"])
{
    float physics:mass = 1
    float3 physics:diagonalInertia = (0.02, 0.03, 0.2)
}
"""
    )
    report = parse_usd(str(file), newtonsim.ModelBuilder())["report"]
    (entry,) = report.of_kind("approximated")
    assert (entry.line, entry.path, entry.element) == (6, str(file), "/link")
    assert "0.02, 0.03 and 0.2" in entry.message


def test_schemas_that_nobody_knows_are_refused_by_strict(tmp_path):
    file = tmp_path / "stage.usda"
    file.write_text(
        '#usda 1.0\ndef Xform "a" (prepend apiSchemas = ["FooBarAPI", "MaterialBindingAPI"])\n{\n}\n'
    )
    report = parse_usd(str(file), newtonsim.ModelBuilder())["report"]
    assert [entry.kind for entry in report.entries if "FooBarAPI" in entry.message] == ["ignored"]
    with pytest.raises(ImportFileError, match="</a FooBarAPI>: the schema FooBarAPI is not read"):
        parse_usd(str(file), newtonsim.ModelBuilder(), strict=True)
