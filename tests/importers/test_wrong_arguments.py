"""Readers of files name an argument that they cannot use, and its value, before they read anything."""

import inspect

import numpy as np
import pytest

from newtonsim import ModelBuilder, ModelError, importers

URDF = """<robot name="r"><link name="a">
<collision><geometry><sphere radius="0.1"/></geometry></collision></link>
</robot>"""
MJCF = "<mujoco><worldbody><body><geom size='0.1'/><joint type='hinge'/></body></worldbody></mujoco>"
SDF = """<sdf version="1.9"><model name="m"><link name="a">
<collision name="c"><geometry><sphere><radius>0.1</radius>
</sphere></geometry></collision></link></model></sdf>"""
READERS = {
    importers.parse_urdf: URDF,
    importers.parse_mjcf: MJCF,
    importers.parse_sdf: SDF,
    importers.parse_usd: "nowhere.usda",
    importers.load_cloth_mesh: "nowhere.obj",
    importers.load_tet_mesh: "nowhere.vtk",
}
NUMBERS = [None, "3", [1], {}, 1j, True, float("nan"), 1e30, -(10**400), object(), np.ones(2)]
FLAGS = [None, "no", [1], 0.5, float("nan"), 7, np.ones(2)]
ENDLESS = ("joint_limit_lower", "joint_limit_upper")


def cases():
    """Each reader, each of its numbers and flags, and what these cannot be."""
    for reader in READERS:
        for name, parameter in inspect.signature(reader).parameters.items():
            kind = getattr(parameter.annotation, "__name__", parameter.annotation)
            for value in {"float": NUMBERS, "bool": FLAGS}.get(kind, ()):
                if not (name in ENDLESS and isinstance(value, float) and value > 1.0):
                    yield reader, name, value


def read(reader, **given):
    arguments = {"builder": ModelBuilder()} if reader.__name__.startswith("parse") else {}
    reader(READERS[reader], **(arguments | given))


def test_numbers_and_flags_are_checked_in_every_reader():
    everything = list(cases())
    assert len(everything) > 700
    for reader, name, value in everything:
        builder = ModelBuilder()
        given = {"builder": builder} if reader.__name__.startswith("parse") else {}
        with pytest.raises(ModelError, match=f"^{name}: expected "):
            read(reader, **given, **{name: value})
        assert builder.body_count == builder.shape_count == 0


@pytest.mark.parametrize("value", [None, 3, 1.5, [1], {}, object()])
def test_what_is_no_file_name_is_refused(value):
    for reader in READERS:
        first = next(iter(inspect.signature(reader).parameters))
        arguments = (ModelBuilder(),) if reader.__name__.startswith("parse") else ()
        with pytest.raises(ModelError, match=f"^{first}: expected .*, got "):
            reader(value, *arguments)


@pytest.mark.parametrize(
    ("argument", "values"),
    [
        ("builder", [None, 1, "x"]),
        ("base_joint", [[1], 3, b"px", np.ones(2)]),
        ("xform", [3, float("nan"), object(), [10**400] * 7]),
        ("package_paths", [None, 3, [3], b"x", {"a": 1}, np.ones(2)]),
        ("density", [-1.0]),
        ("armature", [-1.0]),
        ("scale", [0.0, -1.0]),
        ("ignore_names", [[1], np.ones(2), "x"]),
        ("up_axis", [3, None]),
        ("root_path", [None, 3]),
        ("weld", ["x", float("nan"), [1]]),
    ],
)
def test_wrong_values_are_named(argument: str, values: list):
    met = 0
    for reader in READERS:
        if argument not in inspect.signature(reader).parameters or (
            reader is importers.parse_usd and argument == "xform"  # read with the stage, which is not there
        ):
            continue
        for value in values:
            met += 1
            with pytest.raises(ModelError, match=f"^{argument}: "):
                read(reader, **{argument: value})
    assert met


def test_limits_may_be_endless_and_flags_may_be_numpys():
    for reader in (importers.parse_urdf, importers.parse_mjcf):
        builder = ModelBuilder()
        endless = {"joint_limit_lower": -np.inf, "joint_limit_upper": np.inf}
        read(reader, builder=builder, scale=np.float32(2.0), strict=np.bool_(False), **endless)
        assert builder.body_count == 1
