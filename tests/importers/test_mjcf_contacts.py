"""Which geoms touch: the pairs that MuJoCo finds among overlapping geoms are the pairs of our model."""

import mujoco
import numpy as np
import pytest

import newtonsim
from newtonsim.importers import parse_mjcf

BODIES = """
  <geom name="floor" type="plane" size="1 1 1" {floor}/>
  <body name="static"><geom name="g0" size=".5" {g0}/>
    <body name="arm"><joint name="j1"/><geom name="g1" size=".5" pos=".01 0 0" {g1}/>
      <body name="welded"><geom name="g2" size=".5" pos=".02 0 0" {g2}/>
        <body name="hand"><joint name="j3"/><geom name="g3" size=".5" pos=".03 0 0" {g3}/>
          <body name="finger"><joint name="j4"/><joint name="j4b" pos="0 .1 0"/>
            <geom name="g4" size=".5" pos=".04 0 0" {g4}/></body>
        </body></body></body></body>
  <body name="loose"><freejoint name="f"/><geom name="g5" size=".5" pos=".05 0 0" {g5}/>
    <body name="tail"><joint name="j6"/><geom name="g6" size=".5" pos=".06 0 0" {g6}/></body></body>"""
KEYS = ("floor", "g0", "g1", "g2", "g3", "g4", "g5", "g6")


def text(contact: str = "", **attributes: str) -> str:
    body = BODIES.format(**{key: attributes.get(key, "") for key in KEYS})
    return f"<mujoco><worldbody>{body}</worldbody><contact>{contact}</contact></mujoco>"


def mujoco_pairs(pair) -> set[tuple[str, str]]:
    names = [pair.mj.geom(geom).name for geom in range(pair.mj.ngeom)]
    return {tuple(sorted((names[a], names[b]))) for a, b in pair.data.contact.geom}


def our_pairs(pair) -> set[tuple[str, str]]:
    found = pair.model.shape_contact_pairs.numpy().reshape(-1, 2)
    return {tuple(sorted((pair.model.shape_key[a], pair.model.shape_key[b]))) for a, b in found}


SCENES = {
    "plain": text(),
    "exclude": text('<exclude body1="arm" body2="finger"/><exclude body1="hand" body2="loose"/>'),
    "world exclude": text('<exclude body1="world" body2="finger"/>'),
    "bits": text(
        floor='contype="0" conaffinity="1"',
        g1='contype="1" conaffinity="0"',
        g3='contype="2" conaffinity="1"',
        g4='contype="4" conaffinity="2"',
        g5='contype="0" conaffinity="6"',
        g6='contype="0" conaffinity="0"',
    ),
    "pair against bits": text(
        '<pair geom1="g6" geom2="g4"/>', g6='contype="0" conaffinity="0"', g4='contype="0" conaffinity="0"'
    ),
    "pair of neighbours": text('<pair geom1="g3" geom2="g4"/>'),
}


@pytest.mark.parametrize("name", SCENES)
def test_pairs_are_those_of_mujoco(twin, name):
    pair = twin(SCENES[name], enable_self_collisions=True)
    assert our_pairs(pair) == mujoco_pairs(pair)
    assert len(our_pairs(pair)) > 3


def test_random_bits(twin):
    rng = np.random.default_rng(0)
    for _ in range(10):
        bits = {key: 'contype="{}" conaffinity="{}"'.format(*rng.integers(0, 8, 2)) for key in KEYS}
        pair = twin(text(**bits), enable_self_collisions=True)
        assert our_pairs(pair) == mujoco_pairs(pair)


def test_without_self_collisions_only_trees_meet(twin):
    pair = twin(SCENES["plain"])
    tree = dict.fromkeys(("g0", "g1", "g2", "g3", "g4"), 0) | {"g5": 1, "g6": 1, "floor": 2}
    assert our_pairs(pair) == {(a, b) for a, b in mujoco_pairs(pair) if tree[a] != tree[b]}


def test_friction_and_condim(z_up):
    geoms = """<geom name="a" size=".1"/><geom name="b" size=".1" friction=".7"/>
      <geom name="c" size=".1" friction=".7 .02 .003" condim="4"/>
      <geom name="d" size=".1" friction=".7 .02 .003" condim="6"/><geom name="e" size=".1" friction=".7"
        condim="1"/>"""
    parse_mjcf(f"<mujoco><worldbody><body>{geoms}</body></worldbody></mujoco>", z_up, contact_mu=0.4)
    assert z_up.shape_material_mu == [0.4, 0.7, 0.7, 0.7, 0.7]
    assert z_up.shape_mu_torsion == [0.0, 0.0, 0.02, 0.02, 0.0]
    assert z_up.shape_mu_rolling == [0.0, 0.0, 0.0, 0.003, 0.0]


@pytest.mark.parametrize(("floor", "mu"), [(1, 0.0), (3, 0.8)])
def test_condim_1_means_no_friction_only_where_the_floor_agrees(twin, floor, mu):
    text = f"""<mujoco><default><geom friction=".8" condim="1"/></default><worldbody>
      <geom name="floor" type="plane" size="1 1 1" condim="{floor}"/>
      <body pos="0 0 .09"><freejoint/><geom name="ball" size=".1"/></body></worldbody></mujoco>"""
    pair = twin(text)
    assert pair.data.contact.dim[0] == floor
    assert pair.builder.shape_material_mu == [mu, mu]


def test_contacts_can_be_switched_off(twin):
    off = SCENES["plain"].replace("<worldbody>", '<option><flag contact="disable"/></option><worldbody>')
    pair = twin(off, enable_self_collisions=True)
    assert our_pairs(pair) == mujoco_pairs(pair) == set()
    pair.builder.set_ground_plane()
    assert len(pair.builder.finalize("cpu").shape_ground_contact_pairs) == 0


def test_ground_plane_of_the_builder_meets_moving_geoms_that_collide(z_up):
    parse_mjcf(text(g5='contype="0" conaffinity="0"'), z_up, floating=None)
    z_up.set_ground_plane()
    model = z_up.finalize("cpu")
    pairs = model.shape_ground_contact_pairs.numpy().reshape(-1, 2)
    assert {model.shape_key[a] for a, _ in pairs} == {"g1", "g2", "g3", "g4", "g6"}


CLASSES = """<mujoco><default><default class="visual"><geom rgba="1 0 0 1"/><default
      class="visual_a"/></default>
  <default class="collision"><default class="pad"/></default><default class="other"/></default>
  <worldbody><body name="a"><geom name="v" class="visual" size=".1"/><geom name="va" class="visual_a"
    size=".1"/>
   <geom name="c" class="collision" size=".1"/><geom name="p" class="pad" size=".1"/>
   <geom name="o" class="other" size=".1"/><geom name="n" size=".1"/>
   <geom name="x" class="collision" contype="0" conaffinity="0" size=".1"/></body>
   <body name="b"><geom name="only" class="collision" size=".1"/></body></worldbody></mujoco>"""


def flags(builder) -> tuple[set[str], set[str]]:
    """Names of the shapes that collide and of those that are visible."""
    from newtonsim.scene.enums import ShapeFlags

    pairs = list(zip(builder.shape_key, builder.shape_flags))
    return (
        {key for key, bits in pairs if bits & ShapeFlags.COLLIDE_SHAPES},
        {key for key, bits in pairs if bits & ShapeFlags.VISIBLE},
    )


@pytest.mark.parametrize(
    ("options", "colliding", "visible"),
    [
        ({}, "c p o n only", "v va x only"),
        ({"no_class_as_colliders": False}, "c p o only", "v va x n only"),
        ({"force_show_colliders": True}, "c p o n only", "v va c p o n x only"),
        ({"hide_visuals": True}, "c p o n only", "only"),
        ({"visual_classes": ["oth.*"], "collider_classes": []}, "v va c p n only", "o x only"),
        # the visuals of a body replace its colliders; a body without visuals keeps what it has
        ({"parse_visuals_as_colliders": True}, "v va x only", "v va x only"),
    ],
)
def test_visual_and_collider_classes(z_up, options, colliding, visible):
    parse_mjcf(CLASSES, z_up, **options)
    assert flags(z_up) == (set(colliding.split()), set(visible.split()))


def test_colours_and_materials(z_up):
    text = """<mujoco><asset><material name="m" rgba="0 1 0 .5"/></asset><worldbody><body>
      <geom material="m" size=".1"/><geom material="m" rgba="1 0 0 1" size=".1"/><geom
        size=".1"/></body></worldbody></mujoco>"""
    parse_mjcf(text, z_up)
    assert z_up.shape_color == [(0.0, 1.0, 0.0, 0.5), (1.0, 0.0, 0.0, 1.0), None]


def test_mujoco_is_a_fair_oracle_here(twin):
    """The overlapping spheres do give contacts for pairs that no rule excludes."""
    pair = twin(SCENES["plain"], enable_self_collisions=True)
    assert ("g3", "g5") in mujoco_pairs(pair)
    assert mujoco.mj_versionString()


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ('margin="0.03"', "the margin of a pair"),
        ('friction="1 0.2"', "friction that differs by direction"),
        ('margin="0.0101" friction="0.7 0.7"', None),
    ],
)
def test_pairs_that_contacts_only_resemble_are_named(attributes, message):
    text = f"""<mujoco><worldbody><geom name="floor" type="plane" size="1 1 1"/><body pos="0 0 1"><freejoint/>
    <geom name="ball" size=".1" margin="0.01"/></body></worldbody>
    <contact><pair geom1="floor" geom2="ball" {attributes}/></contact></mujoco>"""
    if message is None:
        parse_mjcf(text, newtonsim.ModelBuilder(), strict=True)
        return
    with pytest.warns(newtonsim.UnsupportedElementWarning, match=message):
        parse_mjcf(text, newtonsim.ModelBuilder())
    with pytest.raises(newtonsim.ImportFileError, match=message):
        parse_mjcf(text, newtonsim.ModelBuilder(), strict=True)
