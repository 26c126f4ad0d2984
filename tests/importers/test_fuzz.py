"""Mutated files: a usable model, or a typed error and an untouched builder; never a crash or a hang."""

import random
import re
import time
import warnings
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import newtonsim
from newtonsim.errors import ImportFileError, NewtonsimError
from newtonsim.importers import parse_mjcf, parse_sdf, parse_urdf

ASSETS = Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets"
MJCF_SEEDS = ("ant.xml", "humanoid.xml", "reacher.xml", "inverted_double_pendulum.xml")
LIMIT_SECONDS = 20.0

RICH = """<mujoco model="rich"><compiler angle="degree" eulerseq="zyx" settotalmass="5"/>
<option timestep="0.01" gravity="0 0 -5"/>
<default><geom density="300"/><default class="a"><joint damping="1" range="-10 20"/><geom type="box" size=".1
  .2 .3"/>
</default></default>
<asset><mesh name="m" vertex="0 0 0 1 0 0 0 1 0 0 0 1"/><material name="c" rgba="1 0 0 1"/>
<hfield name="h" nrow="2" ncol="3" size="1 1 1 1" elevation="1 2 3 4 5 6"/></asset>
<worldbody><geom type="plane" size="1 1 1"/><geom type="hfield" hfield="h"/>
<body name="x" childclass="a" pos="0 0 1"><freejoint name="f"/><geom name="g" euler="1 2 3"/><site name="s"/>
<frame pos="1 0 0"><body name="y"><joint name="j" axis="0 1 0"/><joint name="k" type="slide" pos="0 1 0"
  ref=".5"/>
<geom name="gm" type="mesh" mesh="m" material="c"/><body name="z"><joint name="b" type="ball" range="0 1"/>
<inertial mass="2" pos="0 0 0" diaginertia="1 1 1"/><geom type="capsule" fromto="0 0 0 0 0 1"
  size=".1"/></body></body>
</frame></body></worldbody>
<contact><exclude body1="x" body2="z"/><pair geom1="g" geom2="gm"/></contact>
<actuator><motor joint="j" gear="2" ctrlrange="-1 1"/><position joint="k" kp="3"/></actuator>
<equality><connect body1="x" body2="y" anchor="0 0 0"/></equality>
<keyframe><key qpos="0 0 1 1 0 0 0 .1 .2 1 0 0 0" qvel="0 0 0 0 0 0 0 0 0 0 0"/></keyframe></mujoco>"""

ROBOT = """<robot name="r"><material name="m"><color rgba="1 0 0 1"/></material>
<link name="a"><inertial><origin xyz="0 0 1" rpy="0 1 0"/><mass value="2"/>
<inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>
<visual><geometry><box size="1 2 3"/></geometry><material name="m"/></visual>
<collision><origin xyz="1 0 0"/><geometry><cylinder radius="1" length="2"/></geometry></collision></link>
<link name="b"><collision><geometry><sphere radius=".5"/></geometry></collision></link><link name="c"/><link
  name="d"/>
<joint name="j" type="revolute"><parent link="a"/><child link="b"/><axis xyz="0 0 1"/>
<limit lower="-1" upper="1" effort="3" velocity="4"/><dynamics damping="1" friction="2"/></joint>
<joint name="k" type="prismatic"><parent link="b"/><child link="c"/><limit lower="0" upper="1"/>
<mimic joint="j" multiplier="2" offset=".1"/></joint>
<joint name="l" type="planar"><parent link="a"/><child link="d"/></joint></robot>"""

REPLICAS = """<mujoco><worldbody><replicate count="3" offset="1 0 0" euler="0 0 20" sep="_"><body name="b">
<joint name="j"/><geom name="g" size=".1"/><replicate count="2" offset="0 0 1"><body name="c">
<joint name="k"/>
<geom size=".1"/></body></replicate></body></replicate></worldbody><actuator><motor joint="j"/></actuator>
<equality><joint joint1="j" joint2="k"/></equality></mujoco>"""

WORLD = """<sdf version="1.9"><world name="w"><gravity>0 0 -5</gravity><physics type="ode"><max_step_size>.01
</max_step_size></physics><model name="m"><pose>0 0 1 0 0 0</pose><self_collide>true</self_collide>
<link name="a"><inertial><pose>1 0 0 0 1 0</pose><mass>2</mass>
<inertia><ixx>1</ixx><iyy>1</iyy><izz>1</izz></inertia></inertial>
<collision name="c"><geometry><cylinder><radius>1</radius><length>2</length></cylinder></geometry><surface>
<friction><ode><mu>.5</mu></ode></friction></surface></collision></link><link name="b"><pose relative_to="a">
0 0 1 0 0 0</pose><inertial auto="true"/><collision name="d"><geometry><sphere><radius>.5</radius></sphere>
</geometry></collision></link><frame name="f" attached_to="b"/><link name="c">
<pose relative_to="f">1 0 0 0 0 0</pose></link><joint name="j" type="revolute"><parent>a</parent>
<child>b</child><axis><xyz expressed_in="a">0 1 0</xyz>
<limit><lower>-1</lower><upper>inf</upper></limit><dynamics><damping>1</damping></dynamics></axis></joint>
<joint name="k" type="screw"><parent>b</parent><child>c</child><axis><xyz>0 0 1</xyz><mimic joint="j">
<multiplier>2</multiplier></mimic></axis><screw_thread_pitch>.1</screw_thread_pitch></joint><model name="n">
<link name="a"><visual name="v"><geometry><box><size>1 2 3</size></box></geometry></visual></link></model>
<joint name="l" type="ball"><parent>world</parent><child>n::a</child></joint></model><model name="p"><static>1
</static><link name="l"><collision name="c"><geometry><plane/></geometry></collision></link></model>
</world></sdf>"""

NASTY = (
    "", " ", "nan", "inf", "-inf", "1e400", "-1", "0", "0 0 0", "1 2", "1 2 3 4 5 6 7 8", "1e-300", "1e30",
    "1e200", "-1e200 1e200 0", "true", "x", "../../etc/passwd", "99999999999999999999", "é", "١", "0x10",
    "1,2,3", "a" * 5000, "-0", "1 0 0 0", "mesh", "ball", "free", "hfield", "box",
)  # fmt: skip


def mutate(text: str, rng: random.Random) -> str:
    """Damage a text once: a value, a name, a tag, a piece, or a run of characters."""
    kind = rng.randrange(8)
    values = list(re.finditer(r'"([^"]*)"', text))
    tags = list(re.finditer(r"<[^<>]*>", text))
    names = list(re.finditer(r"(?<=[< ])[a-z0-9]+(?==|[ />])", text))
    if not values or not tags or not names:
        return text
    if kind <= 2:
        spot = rng.choice(values)
        new = rng.choice(NASTY) if kind < 2 else rng.choice(values).group(1)
        return text[: spot.start(1)] + new + text[spot.end(1) :]
    one, other = rng.choice(tags), rng.choice(tags)
    if kind == 3:
        return text[: one.start()] + text[one.end() :]
    if kind == 4:
        return text[: one.end()] + other.group(0) + text[one.end() :]
    if kind == 5:
        spot, new = rng.choice(names), rng.choice(names).group(0)
        return text[: spot.start()] + new + text[spot.end() :]
    if kind == 6:
        start = rng.randrange(len(text))
        return text[:start] + text[start + rng.randrange(1, 60) :]
    return text[: rng.randrange(len(text))]


def assert_survives(parse, text: str, **options) -> bool:
    """Import a text; return whether it was accepted."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    empty = repr(vars(builder))
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", newtonsim.UnsupportedElementWarning)
        warnings.simplefilter("error", RuntimeWarning)
        try:
            parse(text, builder, **options)
        except NewtonsimError:
            assert repr(vars(builder)) == empty
            return False
        finally:
            assert time.perf_counter() - start < LIMIT_SECONDS
    for name in (
        "body_q",
        "body_com",
        "body_inertia",
        "joint_X_p",
        "joint_q",
        "shape_transform",
        "shape_geo_scale",
    ):
        values = getattr(builder, name)
        assert np.isfinite(np.array([np.ravel(value) for value in values], dtype=np.float64)).all(), name
    assert all(mass > 0.0 for mass in builder.body_mass)
    return True


@pytest.mark.parametrize("name", [*MJCF_SEEDS, "rich"])
def test_mutated_mjcf(name):
    seed = RICH if name == "rich" else (ASSETS / name).read_text()
    assert assert_survives(parse_mjcf, seed)
    rng = random.Random(name)
    accepted = 0
    for _ in range(120 if name == "rich" else 25):
        text = seed
        for _ in range(rng.randrange(1, 4)):
            text = mutate(text, rng)
        accepted += assert_survives(parse_mjcf, text, floating=rng.choice([None, True, False]))
    assert accepted  # the damage is not so great that only the XML reader is tested


def test_mutated_replicas():
    assert assert_survives(parse_mjcf, REPLICAS)
    rng = random.Random(0)
    assert sum(assert_survives(parse_mjcf, mutate(REPLICAS, rng), floating=None) for _ in range(60))


def test_mutated_urdf():
    assert assert_survives(parse_urdf, ROBOT)
    rng = random.Random(0)
    accepted = 0
    for _ in range(200):
        text = ROBOT
        for _ in range(rng.randrange(1, 4)):
            text = mutate(text, rng)
        accepted += assert_survives(parse_urdf, text, floating=rng.random() < 0.5)
    assert accepted


def test_mutated_sdf():
    assert assert_survives(parse_sdf, WORLD)
    rng = random.Random(0)
    accepted = 0
    for _ in range(150):
        text = WORLD
        for _ in range(rng.randrange(1, 4)):
            text = mutate(text, rng) if rng.random() < 0.6 else mutate_content(text, rng)
        accepted += assert_survives(parse_sdf, text)
    assert accepted


def mutate_content(text: str, rng: random.Random) -> str:
    """Replace what stands between two tags."""
    spots = list(re.finditer(r">([^<>]+)<", text))
    if not spots:
        return text
    spot = rng.choice(spots)
    new = rng.choice(NASTY) if rng.random() < 0.5 else rng.choice(spots).group(1)
    return text[: spot.start(1)] + new + text[spot.end(1) :]


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.text(alphabet="0123456789.eE+- naif_x\t\n", max_size=12))
def test_numbers_are_read_as_python_reads_them_or_refused(text):
    document = f'<robot name="r"><link name="a"><inertial><mass value="{text}"/></inertial></link></robot>'
    builder = newtonsim.ModelBuilder()
    try:
        expected = float(text)
    except ValueError:
        expected = None
    try:
        parse_urdf(document, builder, ignore_inertial_definitions=False, strict=True)
    except ImportFileError:
        assert expected is None or not abs(expected) < 1.0e20 or expected < 0.0 or "_" in text
    else:
        assert expected is not None or not text.strip()
        if expected is not None and expected > 0.0:
            assert builder.body_mass == [expected]


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.binary(max_size=200))
def test_any_bytes_are_refused_or_read(data):
    for parse in (parse_urdf, parse_mjcf, parse_sdf):
        assert_survives(parse, data)
