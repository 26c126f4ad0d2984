"""Attributes that MJCF does not know are named, with what was meant; those of MuJoCo's schema are known."""

import re
import warnings

import mujoco
import pytest

import newtonsim
from newtonsim.errors import ImportFileError, UnsupportedElementWarning
from newtonsim.importers import parse_mjcf
from newtonsim.importers.files.report import ImportReport
from newtonsim.importers.files.xml import Node
from newtonsim.importers.mjcf.schema import (
    ATTRIBUTES,
    NOT_MODELLED,
    WITHOUT_EFFECT,
    name_what_is_not_modelled,
)

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
    with pytest.raises(ImportFileError, match=r"line 4: <joint name='hinge'>: attribute 'dampng'"):
        parse_mjcf(ARM.format(joint='dampng="5"', geom=""), builder, strict=True)
    assert builder.body_count == 0


def test_a_file_without_misspellings_says_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parse_mjcf(
            ARM.format(joint='damping="5"', geom='rgba="1 0 0 1"'), newtonsim.ModelBuilder(), strict=True
        )


EVERYTHING = """<mujoco><compiler/><option><flag/></option><size/>
  <default><tendon/><joint/><geom/><general/></default>
  <asset><mesh name="m" vertex="0 0 0 1 0 0 0 1 0 0 0 1"/><mesh name="w" builtin="wedge"/><material
    name="c"/><model name="other" file="{other}"/><hfield name="h" nrow="2" ncol="2" size="1 1 1 1"
    elevation="0 1 1 0"/>
  </asset><worldbody><geom name="ground" type="hfield" hfield="h"/><frame><site name="s" pos="0 0 1"/>
    <body name="a">
    <joint name="j"/><inertial mass="1" pos="0 0 0" diaginertia="1 1 1"/><site name="r"/>
    <geom name="g" size=".1"/><geom name="e" type="mesh" mesh="m"/><geom type="sphere" mesh="m"/></body>
    </frame><attach model="other" body="x" prefix="o"/><body name="b" pos="1 0 0"><freejoint name="f"/>
    <geom size=".1" pos="1 0 0" material="c"/></body>
    <replicate count="2"><body><joint type="ball"/><geom size=".1"/></body></replicate></worldbody>
  <contact><pair geom1="g" geom2="ground" friction="1"/><exclude body1="a" body2="b"/></contact>
  <equality><weld body1="a"/><weld site1="s" site2="r"/><connect body1="a" anchor="0 0 0"/>
    <connect site1="s" site2="r"/><joint joint1="j"/><tendon tendon1="t"/></equality>
  <tendon><fixed name="t" limited="true" range="-1 1" actuatorfrcrange="-1 1"><joint joint="j"/></fixed>
    <spatial name="p" limited="true" range="0 9"><site site="s"/><site site="r"/><pulley divisor="2"/>
      <site site="s"/>
      <geom geom="g" sidesite="r"/><site site="r"/></spatial></tendon>
  <actuator><motor joint="j"/><position joint="j"/><velocity joint="j"/><general joint="j"/>
    <intvelocity joint="j"/><damper joint="j" ctrlrange="0 1"/><cylinder joint="j"/><adhesion body="a"
    ctrlrange="0 1"/><muscle tendon="p" lengthrange="0 1"/><dcmotor joint="j"/>
    {on_sites}</actuator>
  <keyframe><key/></keyframe></mujoco>"""
ON_SITES = "".join(
    f'<{tag} {target} ctrlrange="0 1"/>'
    for tag in ("motor", "position", "velocity", "general", "intvelocity", "damper", "cylinder", "muscle")
    for target in (
        'site="s" refsite="r"',
        'cranksite="s" slidersite="r" cranklength="1"',
        'jointinparent="j"',
        'tendon="t"',
    )
)


class Watched(dict):
    """Attributes that remember which of them somebody asked for."""

    asked: set[str]

    def get(self, name, default=None):
        self.asked.add(name)
        return super().get(name, default)

    def __getitem__(self, name):
        self.asked.add(name)
        return super().__getitem__(name)

    def __contains__(self, name):
        self.asked.add(name)
        return super().__contains__(name)


def test_every_attribute_of_mujoco_is_read_or_named_or_without_effect(monkeypatch, tmp_path):
    """Found by what readers ask elements for; tendons of files have the attributes of their default class."""
    asked: dict[str, set[str]] = {tag: set() for tag in ATTRIBUTES}
    make = Node.__init__

    def make_watched(self, tag, attrib, *rest, **options):
        make(self, tag, attrib, *rest, **options)
        self.attrib = Watched(self.attrib)
        self.attrib.asked = asked.setdefault(tag, set())

    other = tmp_path / "other.xml"
    other.write_text('<mujoco><worldbody><body name="x"><geom size=".1"/></body></worldbody></mujoco>')
    text = EVERYTHING.format(other=other, on_sites=ON_SITES)
    monkeypatch.setattr("newtonsim.importers.mjcf.document.name_what_is_not_modelled", lambda *_: None)
    monkeypatch.setattr(Node, "__init__", make_watched)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parse_mjcf(text, newtonsim.ModelBuilder())
    asked["tendon"] |= asked["fixed"] & asked["spatial"]
    asked["spatial"] |= {"class"}
    silent = {
        tag: known - asked[tag] - WITHOUT_EFFECT.get(tag, frozenset()) - set(NOT_MODELLED.get(tag, ()))
        for tag, known in ATTRIBUTES.items()
    }
    assert {tag: names for tag, names in silent.items() if names} == {}


def test_tables_name_what_there_is():
    for table in (WITHOUT_EFFECT, NOT_MODELLED):
        assert all(set(names) <= ATTRIBUTES[tag] for tag, names in table.items())
    assert all(WITHOUT_EFFECT.get(tag, frozenset()).isdisjoint(names) for tag, names in NOT_MODELLED.items())


@pytest.mark.parametrize(("tag", "name"), [(tag, name) for tag in NOT_MODELLED for name in NOT_MODELLED[tag]])
def test_what_is_not_modelled_is_named(tag: str, name: str):
    """With any value but those that MuJoCo's default stands for."""
    report = ImportReport()
    neutral = NOT_MODELLED[tag][name].split()
    for value in (*neutral, "" if name == "actuatorgroupdisable" else "0 0"):
        name_what_is_not_modelled(Node(tag, {name: value}), report)
    assert report.entries == []
    value = {"enable": "disable", "disable": "enable"}.get(neutral[0] if neutral else "", "2")
    name_what_is_not_modelled(Node("mujoco", {}, children=[Node(tag, {name: value})]), report)
    (entry,) = report.entries
    assert name in entry.message
    assert entry.kind == ("approximated" if tag == "key" else "unsupported")


NAMED = {
    "delay='.01'": '<actuator><motor joint="hinge" delay=".01" nsample="5"/></actuator>',
    "actuatorgroupdisable='0'": '<option actuatorgroupdisable="0"/>',
    "override='enable'": '<option o_solref=".2 1"><flag override="enable"/></option>',
    "clampctrl='disable'": '<option><flag clampctrl="disable"/></option>',
    "armature='.1'": '<default><motor armature=".1"/></default>',
}


@pytest.mark.parametrize("what", NAMED)
def test_files_with_it_are_told_of_and_refused_by_strict_readers(what: str):
    text = ARM.format(joint="", geom="").replace("</mujoco>", NAMED[what] + "</mujoco>")
    mujoco.MjModel.from_xml_string(text)
    builder = newtonsim.ModelBuilder()
    with pytest.warns(UnsupportedElementWarning, match=re.escape(what)):
        parse_mjcf(text, builder)
    with pytest.raises(ImportFileError, match=re.escape(what)):
        parse_mjcf(text, newtonsim.ModelBuilder(), strict=True)
