"""Misspelt attributes of URDF are named; those that other packages' files have are known."""

import warnings

import pytest

from newtonsim import ModelBuilder
from newtonsim.errors import ImportFileError, UnsupportedElementWarning
from newtonsim.importers import parse_urdf

ARM = """<robot name="arm">
  <link name="base"/>
  <link name="rod">
    <inertial>
      <origin {origin}="0 0 0.1"/>
      <mass {mass}="2"/>
      <inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/>
    </inertial>
  </link>
  <joint name="hinge" type="revolute">
    <parent link="base"/>
    <child link="rod"/>
    <axis {axis}="0 1 0"/>
    <limit lower="-1" {upper} effort="1" velocity="1"/>
    <dynamics {damping}="3"/>
  </joint>
  <gazebo reference="rod"><collision surplus="1"/><origin place="2"/></gazebo>
</robot>
"""
RIGHT = dict(origin="xyz", mass="value", axis="xyz", upper='upper="2"', damping="damping")


def arm(**wrong: str) -> str:
    return ARM.format(**(RIGHT | wrong))


@pytest.mark.parametrize(
    ("wrong", "line", "text"),
    [
        (dict(axis="xzy"), 13, "attribute 'xzy', here '0 1 0', is not one of <axis>"),
        (dict(damping="dampng"), 15, "attribute 'dampng', here '3', is not one of <dynamics>"),
        (dict(upper='uper="2"'), 14, "attribute 'uper', here '2', is not one of <limit>"),
        (dict(origin="xzy"), 5, "attribute 'xzy', here '0 0 0.1', is not one of <origin>"),
    ],
)
def test_misspelt_attributes_are_named_and_refused_if_strict(wrong, line: int, text: str):
    builder = ModelBuilder()
    with pytest.warns(UnsupportedElementWarning) as told:
        parse_urdf(arm(**wrong), builder)
    said = "\n".join(str(warning.message) for warning in told)
    assert f"line {line}: {text}" in said
    strict = ModelBuilder()
    with pytest.raises(ImportFileError, match=text.replace("<", ".").replace(">", ".")):
        parse_urdf(arm(**wrong), strict, strict=True)
    assert strict.body_count == 0


def test_a_right_file_has_none_and_other_formats_within_it_are_left_alone():
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnsupportedElementWarning)
        parse_urdf(arm(), ModelBuilder(), strict=True)
