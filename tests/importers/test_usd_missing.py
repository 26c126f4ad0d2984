"""Layers, payloads and references of a stage that are missing: the rest is read, and each is named."""

import warnings

import pytest

import newtonsim
from newtonsim.importers import parse_usd

STAGE = """#usda 1.0
(
    defaultPrim = "World"
    metersPerUnit = 1
    subLayers = [
        @./gone_layer.usda@
    ]
)
def Xform "World"
{
    def Sphere "ball" ( prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsCollisionAPI"] )
    {
        double radius = 0.1
    }
    def Xform "table" (
        prepend payload = @./gone.usda@
    )
    {
    }
    def Xform "chair" (
        prepend references = @part.usda@
    )
    {
    }
    def "here" ( prepend references = </World/nowhere> )
    {
    }
}
"""
PART = """#usda 1.0
(
    defaultPrim = "Chair"
)
def Xform "Chair"
{
    def Cube "seat" ( prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsCollisionAPI"] )
    {
    }
    def Xform "cushion" (
        prepend references = @./soft/gone_too.usda@</Cushion>
    )
    {
    }
}
"""


@pytest.fixture
def stage(tmp_path):
    (tmp_path / "part.usda").write_text(PART)
    path = tmp_path / "room.usda"
    path.write_text(STAGE)
    return path


def test_the_rest_is_read_and_what_is_missing_is_named_with_prim_file_and_line(stage):
    builder = newtonsim.ModelBuilder()
    with pytest.warns(newtonsim.UnsupportedElementWarning, match="has faults that were repaired") as told:
        report = parse_usd(stage, builder)["report"]
    assert set(report.bodies) == {"/World/ball", "/World/chair/seat"}
    places = {entry.element: (entry.path, entry.line) for entry in report.of_kind("mended")}
    part = str(stage.parent / "part.usda")
    assert places == {
        "layer": (str(stage), 6),
        "/World/table": (str(stage), 16),
        "/World/chair/cushion": (part, 11),
        "/World/here": (str(stage), 25),
    }
    message = next(entry.message for entry in report.entries if entry.element == "/World/table")
    assert message.startswith("the payload ")
    assert message.endswith("gone.usda' cannot be opened; what it would bring is left out")
    assert len(told) == 1
    assert "gone_too.usda" in str(told[0].message)


def test_strict_imports_refuse_what_is_missing(stage):
    builder = newtonsim.ModelBuilder()
    with pytest.raises(newtonsim.ImportFileError, match=r"gone.*\.usda'|nowhere") as caught:
        parse_usd(stage, builder, strict=True)
    assert caught.value.line in (6, 11, 16, 25)
    assert builder.body_count == 0


def test_circles_are_refused_by_all(tmp_path):
    path = tmp_path / "circle.usda"
    path.write_text(
        '#usda 1.0\ndef "a" (\nprepend references = </b>\n) {\n}\n'
        'def "b" (\nprepend references = </a>\n) {\n}\n'
    )
    with pytest.raises(newtonsim.ImportFileError, match="does not compose"):
        parse_usd(path, newtonsim.ModelBuilder())


def test_binary_layers_have_no_lines(stage):
    from pxr import Sdf

    binary = stage.with_suffix(".usdc")
    layer = Sdf.Layer.FindOrOpen(str(stage))
    assert layer.Export(str(binary))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = parse_usd(binary, newtonsim.ModelBuilder())["report"]
    lines = {entry.element: entry.line for entry in report.of_kind("mended")}
    assert lines == {"layer": None, "/World/table": None, "/World/chair/cushion": 11, "/World/here": None}


CHOICE = """#usda 1.0
(
    metersPerUnit = 1
)
def Xform "World"
{
    def Xform "part" (
        variants = {
            string size = "huge"
            string colour = "red"
        }
        prepend variantSets = "size"
    )
    {
        variantSet "size" = {
            "small" {
                def Sphere "ball" ( prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsCollisionAPI"] )
                {
                }
            }
            "large" {
                def Sphere "ball" ( prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsCollisionAPI"] )
                {
                    double radius = 3
                }
            }
        }
    }
    def Sphere "stone" ( prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsCollisionAPI"] )
    {
    }
}
"""


def test_variants_that_are_not_there_are_named_with_those_that_are(tmp_path):
    path = tmp_path / "choice.usda"
    path.write_text(CHOICE)
    builder = newtonsim.ModelBuilder()
    with pytest.warns(newtonsim.UnsupportedElementWarning, match="has faults that were repaired") as told:
        report = parse_usd(path, builder)["report"]
    assert set(report.bodies) == {"/World/stone"}
    assert "the variant set 'size' has no 'huge', only 'large', 'small'" in str(told[0].message)
    assert "no variant set 'colour', of which 'red' is selected, only 'size'" in str(told[0].message)
    places = {(entry.element, entry.path, entry.line) for entry in report.of_kind("mended")}
    assert places == {("/World/part", str(path), 7)}
    with pytest.raises(newtonsim.ImportFileError, match=r"no variant set 'colour'|has no 'huge'") as raised:
        parse_usd(path, newtonsim.ModelBuilder(), strict=True)
    assert raised.value.line == 7


def test_variants_that_are_there_are_not_told(tmp_path):
    """Nor are sets of which none is selected; an instance's selection in another layer is told once."""
    path = tmp_path / "choice.usda"
    chosen = CHOICE.replace('"huge"', '"large"').replace('            string colour = "red"\n', "")
    path.write_text(chosen)
    assert parse_usd(path, newtonsim.ModelBuilder(), strict=True)["report"].bodies.keys() == {
        "/World/part/ball",
        "/World/stone",
    }
    path.write_text(chosen.replace('string size = "large"', 'string size = ""'))
    assert not parse_usd(path, newtonsim.ModelBuilder(), strict=True)["report"].of_kind("mended")
    copies = "".join(
        f'def Xform "{name}" ( instanceable = true\n prepend references = @choice.usda@</World> )\n{{\n}}\n'
        for name in ("one", "two")
    )
    path.write_text(CHOICE.replace('            string colour = "red"\n', ""))
    room = tmp_path / "room.usda"
    room.write_text("#usda 1.0\n(\n    metersPerUnit = 1\n)\n" + copies)
    with pytest.warns(newtonsim.UnsupportedElementWarning):
        report = parse_usd(room, newtonsim.ModelBuilder())["report"]
    (entry,) = report.of_kind("mended")
    assert (entry.element, entry.path, entry.line) == ("/one/part", str(path), 7)
