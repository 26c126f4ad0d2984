"""Attributes that MJCF does not know are named, with what was meant; those of MuJoCo's schema are known."""

import re
import warnings

import mujoco
import pytest

import newtonsim
from newtonsim.errors import ImportFileError, UnsupportedElementWarning
from newtonsim.importers import parse_mjcf
from newtonsim.importers.mjcf.schema import ATTRIBUTES

ARM = """<mujoco model="arm">
  <default><joint armature=".01"/></default>
  <worldbody><frame pos="0 0 1"><body name="link" childclass="main">
    <joint name="hinge" {joint}/>
    <geom name="rod" type="capsule" size=".1 .2" {geom}/>
    <geom type="sphere" size=".1" {geom}/>
  </body></frame></worldbody>
  <actuator><motor joint="hinge" ctrlrange="-1 1"/></actuator>
</mujoco>"""


def attributes_of_mujoco() -> dict[str, set[str]]:
    """Attributes by element, of all places in which it stands, in the schema that MuJoCo prints."""
    found: dict[str, set[str]] = {}
    own: set[str] = set()
    for line in mujoco.mj_printSchema(False, False).splitlines():
        head = re.match(r"\s*(\w+) \([!?*R]\)", line)
        if head:
            own = found.setdefault(head[1], set())
        own.update(line[head.end() if head else 0 :].split())
    return found


def test_attributes_of_mujoco_are_known():
    printed = attributes_of_mujoco()
    missing = {name: printed.get(name, set()) - known for name, known in ATTRIBUTES.items()}
    assert {name: rest for name, rest in missing.items() if rest} == {}
    assert printed["joint"] >= {"damping", "stiffness", "springref"}, "the schema is read as it is printed"


def test_a_misspelt_attribute_is_named_with_the_nearest_one(tmp_path):
    path = tmp_path / "arm.xml"
    path.write_text(ARM.format(joint='dampng="5"', geom='colour="1 0 0"'))
    builder = newtonsim.ModelBuilder()
    with pytest.warns(UnsupportedElementWarning) as told:
        parse_mjcf(str(path), builder)
    (said,) = [str(one.message) for one in told if "not one of" in str(one.message)]
    assert "<joint name='hinge'>, line 4: attribute 'dampng', here '5', is not one of <joint>; " in said
    assert "did you mean 'damping'?" in said
    # once for both geoms
    assert said.count("'colour'") == 1
    assert (
        "<geom name='rod'>, line 5: attribute 'colour', here '1 0 0', is not one of <geom>, in 2 elements"
        in said
    )
    assert builder.body_count == 1


def test_strict_readers_refuse_it():
    builder = newtonsim.ModelBuilder()
    with pytest.raises(ImportFileError, match=r"4: <joint name='hinge'>: attribute 'dampng'"):
        parse_mjcf(ARM.format(joint='dampng="5"', geom=""), builder, strict=True)
    assert builder.body_count == 0


def test_a_file_without_misspellings_says_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parse_mjcf(
            ARM.format(joint='damping="5"', geom='rgba="1 0 0 1"'), newtonsim.ModelBuilder(), strict=True
        )
