"""What is wrong in a USD file is told with line and column, never by an error of the library or of Python."""

import contextlib
import random
import re
import warnings
from pathlib import Path

import pytest

import newtonsim
from newtonsim.errors import ImportFileError, NewtonsimError
from newtonsim.importers import parse_usd

SCENE = """#usda 1.0
(
    defaultPrim = "World"
    metersPerUnit = 1
    upAxis = "Z"
)
def Xform "World"
{
    def Material "mat" (prepend apiSchemas = ["PhysicsMaterialAPI"])
    {
        float physics:staticFriction = 0.5
        float physics:density = 100
        token outputs:surface.connect = </World/mat/shader.outputs:surface>
        def Shader "shader"
        {
            uniform token info:id = "UsdPreviewSurface"
            color3f inputs:diffuseColor = (0.2, 0.3, 0.4)
            float inputs:opacity = 0.5
            token outputs:surface
        }
    }
    def Cube "a" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsCollisionAPI", "MaterialBindingAPI"])
    {
        double size = 1
        float3 xformOp:scale = (1, 2, 3)
        double3 xformOp:translate = (0, 0, 1)
        uniform token[] xformOpOrder = ["xformOp:translate", "xformOp:scale"]
        rel material:binding = </World/mat>
    }
    def Sphere "b" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsCollisionAPI"])
    {
        double radius = 0.5
    }
    def PhysicsRevoluteJoint "j"
    {
        uniform token physics:axis = "X"
        rel physics:body0 = </World/a>
        rel physics:body1 = </World/b>
        float physics:lowerLimit = -30
        float physics:upperLimit = 30
    }
}
"""
_WORD = re.compile(r"[A-Za-z0-9_:.</>@\"\-]+")
_OTHERS = [
    '"x"',
    "-1",
    "1e38",
    "(1, 2)",
    "[]",
    "</World/none>",
    "None",
    "\udcff",
    "nan",
    "int",
    "token[]",
    "@x@",
]


def read(text: str, tmp_path: Path) -> newtonsim.ModelBuilder:
    (tmp_path / "scene.usda").write_bytes(text.encode("utf-8", "surrogateescape"))
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parse_usd(tmp_path / "scene.usda", builder)
    return builder


def test_the_scene_itself_is_right(tmp_path: Path):
    builder = read(SCENE, tmp_path)
    assert builder.body_count == 2
    assert builder.shape_color[0][:3] == pytest.approx((0.2, 0.3, 0.4))


@pytest.mark.parametrize(
    ("right", "wrong", "column"),
    [
        ("double radius = 0.5", "double radius = 0.5 6", 9),
        ("double radius = 0.5", 'double radius = "k"', 25),
        ('def Sphere "b"', "def Sphere b", None),
        ("metersPerUnit = 1", "metersPerUnit = 1 1", None),
    ],
)
def test_syntax_errors_tell_line_and_column(right, wrong, column, tmp_path: Path):
    """Lines and columns as an editor counts them, of where the wrong word stands."""
    text = SCENE.replace(right, wrong)
    line = 1 + text[: text.index(wrong)].count("\n")
    with pytest.raises(ImportFileError, match=r"scene\.usda:\d+: column \d+: ") as caught:
        read(text, tmp_path)
    assert caught.value.line == line
    assert column is None or f"column {column}: " in str(caught.value)
    assert "Failed to open" not in str(caught.value)


def test_what_is_no_usd_is_said(tmp_path: Path):
    for text in ("hello", "", "\udcff\udcfe"):
        with pytest.raises(ImportFileError, match=r"usda|USD"):
            read(text, tmp_path)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("</World/mat>\n", "</World/mat.>\n"),
        ("rel physics:body0 = </World/a>", "rel physics:body0 = </World/a{b=c}>"),
        ('["xformOp:translate", "xformOp:scale"]', '["xformOp:translate", "!invert!xformOp:none"]'),
        ("metersPerUnit = 1", 'metersPerUnit = "one"'),
        ('uniform token physics:axis = "X"', "uniform asset physics:axis = @X@"),
        ("color3f inputs:diffuseColor = (0.2, 0.3, 0.4)", "int inputs:diffuseColor = 3"),
        ("color3f inputs:diffuseColor = (0.2, 0.3, 0.4)", "colour inputs:diffuseColor = (0.2, 0.3, 0.4)"),
        ('def Cube "a"', 'def Cube "\udcff"'),
    ],
)
def test_contents_that_make_no_sense_raise_our_errors_or_pass(right, wrong, tmp_path: Path):
    assert right in SCENE
    with contextlib.suppress(NewtonsimError):
        read(SCENE.replace(right, wrong), tmp_path)


def test_mutated_files_raise_our_errors_or_pass(tmp_path: Path):
    """A thousand files with one to three words replaced by others."""
    source = random.Random(1)
    for _ in range(1000):
        text = SCENE
        for _ in range(source.choice((1, 1, 2, 3))):
            words = list(_WORD.finditer(text))
            word = source.choice(words)
            new = source.choice(_OTHERS) if source.random() < 0.6 else source.choice(words).group()
            text = text[: word.start()] + new + text[word.end() :]
        with contextlib.suppress(NewtonsimError):
            read(text, tmp_path)
