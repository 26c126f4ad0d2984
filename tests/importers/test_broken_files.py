"""Broken and hostile files: a typed error that says where, soon, and a builder that is as it was."""

import copy
import time

import numpy as np
import pybullet_data
import pytest

import newtonsim
from newtonsim.errors import ImportFileError, NewtonsimError, UnsupportedElementWarning
from newtonsim.importers import limits, parse_mjcf, parse_sdf, parse_urdf
from newtonsim.importers.building import filters as building_filters

SOON = 20.0
"""Seconds after which a file counts as a hang; all of them take under five here."""


def filled_builder() -> newtonsim.ModelBuilder:
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    builder.add_body(mass=1.0, I_m=np.eye(3), key="mine")
    builder.add_joint_free(0)
    builder.add_shape_sphere(0)
    return builder


def contents(builder: newtonsim.ModelBuilder) -> dict:
    return {name: copy.copy(value) for name, value in vars(builder).items()}


def same(one: dict, other: dict) -> bool:
    return one.keys() == other.keys() and all(repr(one[name]) == repr(other[name]) for name in one)


def assert_refused(
    parse, text, words: str = "", line: int | None = None, element: str | None = None, **options
) -> None:
    builder = filled_builder()
    before = contents(builder)
    start = time.perf_counter()
    with pytest.raises(ImportFileError, match=words or None) as caught:
        parse(text, builder, **options)
    assert time.perf_counter() - start < SOON
    assert same(before, contents(builder))
    if line is not None:
        assert caught.value.line == line
    if element is not None:
        assert caught.value.element == element


CUBE = f"{pybullet_data.getDataPath()}/cube.obj"
LINKS = '<link name="a"/><link name="b"/>'
JOINT = '<joint name="j" type="{kind}"><parent link="{parent}"/><child link="{child}"/>{more}</joint>'


def urdf(joint: str = "", links: str = LINKS) -> str:
    return f'<robot name="r">\n{links}\n{joint}</robot>'


def one_joint(kind: str = "revolute", parent: str = "a", child: str = "b", more: str = "") -> str:
    return urdf(JOINT.format(kind=kind, parent=parent, child=child, more=more))


def shape(geometry: str) -> str:
    return urdf("", f'<link name="a"><collision>\n<geometry>\n{geometry}</geometry></collision></link>')


BROKEN_URDF = {
    "empty": ("<robot/>", "no links", 1, "robot"),
    "other root": ("<mujoco/>", "root element", 1, "mujoco"),
    "unknown joint type": (
        one_joint("gimbal"),
        "'gimbal' is unknown; supported: revolute",
        3,
        "joint name='j'",
    ),
    "unknown parent": (one_joint(parent="x"), "'x', which does not exist", 3, "joint name='j'"),
    "unknown child": (one_joint(child="x"), "'x', which does not exist", 3, "joint name='j'"),
    "self loop": (one_joint(child="a"), "to itself", 3, None),
    "two roots": (urdf(), "several root links: 'a', 'b'", 2, None),
    "circle": (
        one_joint().replace(
            "</robot>", JOINT.format(kind="fixed", parent="b", child="a", more="") + "</robot>"
        ),
        "a second joint has the name|cycle",
        None,
        None,
    ),
    "circle beside the root": (
        urdf(
            "".join(
                JOINT.format(kind="fixed", parent=p, child=c, more="").replace('"j"', f'"{p}{c}"')
                for p, c in ("bc", "cb")
            ),
            '<link name="a"/><link name="b"/><link name="c"/>',
        ),
        "cycle of joints",
        2,
        None,
    ),
    "two parents": (
        urdf(
            "".join(
                JOINT.format(kind="fixed", parent=p, child="c", more="").replace('"j"', f'"{p}"')
                for p in "ab"
            ),
            '<link name="a"/><link name="b"/><link name="c"/>',
        ),
        "child of two joints",
        3,
        None,
    ),
    "same link twice": (urdf("", '<link name="a"/><link name="a"/>'), "a second link", 2, None),
    "no name": (urdf("", "<link/>"), "'name' is missing", 2, "link"),
    "no child": (
        urdf('<joint name="j" type="fixed"><parent link="a"/></joint>'),
        "<child> is missing",
        3,
        None,
    ),
    "zero axis": (one_joint(more='\n<axis xyz="0 0 0"/>'), "is zero", 4, "axis"),
    "nan": (one_joint(more='\n<axis xyz="0 nan 0"/>'), "'xyz' is not a finite number: 'nan'", 4, "axis"),
    "infinite": (one_joint(more='\n<axis xyz="0 inf 0"/>'), "not a finite number", 4, "axis"),
    "huge": (one_joint(more='\n<axis xyz="0 1e999 0"/>'), "too large", 4, "axis"),
    "underscore": (one_joint(more='\n<axis xyz="0 1_0 0"/>'), "not a finite number", 4, "axis"),
    "garbage": (one_joint(more='\n<origin rpy="a b c"/>'), "'rpy' is not a finite number: 'a'", 4, "origin"),
    "two numbers": (one_joint(more='\n<origin xyz="1 2"/>'), "2 values, expected 3", 4, "origin"),
    "negative damping": (one_joint(more='\n<dynamics damping="-1"/>'), "must not be negative", 4, "dynamics"),
    "self mimic": (one_joint(more='<mimic joint="j"/>'), "cycle", 3, None),
    "ball mimic": (
        one_joint("spherical", more='<mimic joint="j"/>'),
        "one axis, but 'j' is spherical",
        3,
        None,
    ),
    "no geometry": (urdf("", '<link name="a"><collision/></link>'), "<geometry> is missing", 2, "collision"),
    "empty geometry": (shape(""), "found nothing", 3, "geometry"),
    "unknown geometry": (shape("<torus/>"), "found torus", 3, "geometry"),
    "negative size": (shape('<box size="1 -1 1"/>'), "must be positive", 4, "box"),
    "no radius": (shape('<cylinder length="1"/>'), "'radius' is missing", 4, "cylinder"),
    "zero scale": (shape(f'<mesh filename="{CUBE}" scale="0 1 1"/>'), "zero", 4, "mesh"),
    "two scales": (shape(f'<mesh filename="{CUBE}" scale="1 2"/>'), "2 values, expected 1 or 3", 4, "mesh"),
    "negative mass": (
        urdf("", '<link name="a"><inertial>\n<mass value="-1"/></inertial></link>'),
        "must not be negative",
        3,
        "mass",
    ),
    "xacro": (
        '<robot xmlns:xacro="http://ros.org/wiki/xacro"><xacro:macro/></robot>',
        "run `xacro",
        1,
        None,
    ),
    "expression of xacro": (
        urdf("", '<link name="a"><inertial>\n<mass value="${m}"/></inertial></link>'),
        r"attribute 'value' has a xacro expression: '\$\{m\}'; run `xacro",
        3,
        "mass",
    ),
    "type in capitals": (one_joint("Revolute"), r"did you mean 'revolute'\?$", 3, "joint name='j'"),
    "misspelt link": (
        urdf(JOINT.format(kind="fixed", parent="base_lnk", child="b", more=""), '<link name="base_link"/>'),
        r"names the link 'base_lnk', which does not exist; did you mean 'base_link'\?$",
        3,
        "joint name='j'",
    ),
    "missing file": ("no_such_robot.urdf", "no such file", None, None),
    "folder": ("/", "a folder, expected a file", None, None),
}


MENDED_URDF = {
    "reversed limit": (
        one_joint(more='\n<limit lower="1" upper="-1"/>'),
        "lower limit 1 is above the upper one -1",
    ),
    "unknown mimic": (one_joint(more='<mimic joint="x"/>'), "'x' to follow does not exist"),
    "zero radius": (shape('<sphere radius="0"/>'), "sphere.*line 4.*of zero size"),
    "four scales": (shape(f'<mesh filename="{CUBE}" scale="1 1 1 1"/>'), "mesh.*line 4.*4 values"),
    "negative inertia": (
        urdf(
            "",
            '<link name="a"><inertial><mass value="1"/>\n'
            '<inertia ixx="1" iyy="-1" izz="1"/></inertial></link>',
        ),
        "inertia.*line 3.*-1 kg m",
    ),
}
"""Defects of published files that are read, with a part of the warning that names them."""


@pytest.mark.parametrize("name", MENDED_URDF)
def test_defects_that_are_mended_warn(name: str):
    text, words = MENDED_URDF[name]
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    with pytest.warns(UnsupportedElementWarning, match=words):
        parse_urdf(text, builder)
    assert np.isfinite(builder.body_mass).all()
    assert all(np.linalg.eigvalsh(inertia).min() >= 0.0 for inertia in builder.body_inertia)


@pytest.mark.parametrize("case", BROKEN_URDF)
def test_broken_urdf(case):
    text, words, line, element = BROKEN_URDF[case]
    assert_refused(parse_urdf, text, words, line, element, strict=True)


def body(inside: str, head: str = "") -> str:
    return (
        f"<mujoco>{head}<worldbody><body name='a'>\n{inside}\n<geom size='.1'/></body></worldbody></mujoco>"
    )


BROKEN_MJCF = {
    "other root": ("<robot/>", "root element", 1, "robot"),
    "unknown geom type": (body('<geom type="torus"/>'), "'torus', expected one of plane", 2, "geom"),
    "no size": (body('<geom type="box"/>'), "a box needs 3 positive sizes", 2, "geom"),
    "negative size": (body('<geom size="-1"/>'), "positive", 2, "geom"),
    "nan size": (body('<geom size="nan"/>'), "'size' is not a finite number: 'nan'", 2, "geom"),
    "fromto of a sphere": (body('<geom size=".1" fromto="0 0 0 1 1 1"/>'), "fromto needs one of", 2, "geom"),
    "fromto of a point": (
        body('<geom type="box" size=".1" fromto="0 0 0 0 0 0"/>'),
        "are the same",
        2,
        "geom",
    ),
    "short fromto": (body('<geom type="box" size=".1" fromto="0 0 0"/>'), "3 values, expected 6", 2, "geom"),
    "zero quaternion": (body('<body quat="0 0 0 0"/>'), "no direction", 2, "body"),
    "two orientations": (
        body('<body quat="1 0 0 0" euler="1 2 3"/>'),
        "more than one orientation",
        2,
        "body",
    ),
    "parallel xyaxes": (body('<body xyaxes="1 0 0 2 0 0"/>'), "no direction", 2, "body"),
    "unknown class": (body('<geom class="x" size="1"/>'), "class 'x' is not defined", 2, "geom"),
    "unknown childclass": (body('<body childclass="x"/>'), "class 'x' is not defined", 2, "body"),
    "unknown material": (body('<geom material="x" size="1"/>'), "material 'x' is not defined", 2, "geom"),
    "unknown mesh": (body('<geom type="mesh" mesh="x"/>'), "mesh 'x' is not defined", 2, "geom"),
    "unknown hfield": (body('<geom type="hfield" hfield="x"/>'), "hfield 'x' is not defined", 2, "geom"),
    "missing mesh file": (
        body('<geom type="mesh" mesh="m"/>', '<asset><mesh name="m" file="no.stl"/></asset>'),
        "file 'no.stl' not found",
        1,
        "mesh name='m'",
    ),
    "same body twice": (body('<body name="a"/>'), "a second body has the name 'a'", 2, "body name='a'"),
    "world joint": (
        "<mujoco><worldbody><joint/></worldbody></mujoco>",
        "the world cannot have joints",
        1,
        "joint",
    ),
    "nested free joint": (body("<body><freejoint/></body>"), "top level", 2, "freejoint"),
    "bad bool": (body('<joint limited="maybe"/>'), "expected one of true, false", 2, "joint"),
    "bad integer": (body('<geom size="1" contype="1.5"/>'), "not an integer", 2, "geom"),
    "huge integer": (body(f'<geom size="1" contype="{"9" * 400}"/>'), "not an integer", 2, "geom"),
    "bad condim": (body('<geom size="1" condim="2"/>'), "expected 1, 3, 4 or 6", 2, "geom"),
    "negative mass": (body('<geom size="1" mass="-1"/>'), "must not be negative", 2, "geom"),
    "negative friction": (body('<geom size="1" friction="-1"/>'), "must not be negative", 2, "geom"),
    "two inertials": (
        body('<inertial mass="1" pos="0 0 0"/>\n<inertial mass="1" pos="0 0 0"/>'),
        "at most one",
        3,
        "inertial",
    ),
    "no mass": (body('<inertial pos="0 0 0"/>'), "'mass' is missing", 2, "inertial"),
    "bad angle": (body("", '<compiler angle="turns"/>'), "expected one of degree, radian", 1, "compiler"),
    "bad eulerseq": (body("", '<compiler eulerseq="xy"/>'), "three letters", 1, "compiler"),
    "same class twice": (
        body("", '<default><default class="x"/><default class="x"/></default>'),
        "a second default class",
        1,
        None,
    ),
    "unknown exclude": (
        body("").replace("</mujoco>", '\n<contact><exclude body1="a" body2="x"/></contact></mujoco>'),
        "the body 'x' is not defined",
        4,
        "exclude",
    ),
    "unknown pair": (
        body("").replace("</mujoco>", '\n<contact><pair geom1="g" geom2="x"/></contact></mujoco>'),
        "the geom 'g' is not defined",
        4,
        "pair",
    ),
    "timestep": (body("", '<option timestep="0"/>'), "must be positive", 1, "option"),
    "flat hfield": (
        body(
            '<geom type="hfield" hfield="h"/>',
            '<asset><hfield name="h" nrow="1" ncol="5" size="1 1 1 1"/></asset>',
        ),
        "nrow and ncol",
        1,
        None,
    ),
    "huge hfield": (
        body(
            '<geom type="hfield" hfield="h"/>',
            '<asset><hfield name="h" nrow="999999999" ncol="999999999" size="1 1 1 1"/></asset>',
        ),
        "at most 16000000",
        1,
        None,
    ),
    "short hfield": (
        body(
            '<geom type="hfield" hfield="h"/>',
            '<asset><hfield name="h" nrow="2" ncol="2" size="1 1 1 1" elevation="1 2 3"/></asset>',
        ),
        "3 values, expected 4",
        1,
        None,
    ),
    "mesh face out of range": (
        body(
            '<geom type="mesh" mesh="m"/>',
            '<asset><mesh name="m" vertex="0 0 0 1 0 0 0 1 0 0 0 1" face="0 1 2 0 1 9"/></asset>',
        ),
        "vertices that do not exist",
        1,
        None,
    ),
    "flat mesh": (
        body(
            '<geom type="mesh" mesh="m"/>', '<asset><mesh name="m" vertex="0 0 0 1 0 0 0 1 0 1 1 0"/></asset>'
        ),
        "span a volume",
        1,
        None,
    ),
}


@pytest.mark.parametrize("case", BROKEN_MJCF)
def test_broken_mjcf(case):
    text, words, line, element = BROKEN_MJCF[case]
    assert_refused(parse_mjcf, text, words, line, element, strict=True)


BOMB = """<?xml version="1.0"?>
<!DOCTYPE r [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">
<!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;"><!ENTITY d "&c;&c;&c;&c;&c;&c;&c;&c;&c;&c;">]>
<{root}>&d;</{root}>"""

NOT_XML = {
    "truncated": "<{root}><a>",
    "wrong tags": "<{root}><a></b></{root}>",
    "text": "hello",
    "nothing": "",
    "binary": b"\x00\x01\x02\xff",
    "wrong encoding": b"<{root}>\xff\xfe</{root}>",
    "unknown encoding": b'<?xml version="1.0" encoding="klingon"?><r/>',
    "bomb": BOMB,
    "external entity": '<!DOCTYPE r [<!ENTITY x SYSTEM "file:///etc/passwd">]><{root}>&x;</{root}>',
    "external doctype": '<!DOCTYPE r SYSTEM "http://localhost/x.dtd"><{root}/>',
    "undefined entity": "<{root}>&x;</{root}>",
    "lone surrogate": "<{root} a='\ud800'/>",
    "deep": "<{root}>" + "<a>" * 20_000 + "</a>" * 20_000 + "</{root}>",
    "many": "<{root}>" + "<a/>" * 2000 + "</{root}>",
}


@pytest.mark.parametrize("parse", [parse_urdf, parse_mjcf])
@pytest.mark.parametrize("case", NOT_XML)
def test_text_that_is_not_usable_xml(parse, case, tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "elements", 1000)
    root = "robot" if parse is parse_urdf else "mujoco"
    text = NOT_XML[case]
    strict = case == "undefined entity"  # which others leave as it is
    if isinstance(text, str):
        text = text.replace("{root}", root)
        if case != "lone surrogate":
            (tmp_path / "f.xml").write_text(text)
            assert_refused(parse, tmp_path / "f.xml", strict=strict)
    else:
        (tmp_path / "f.xml").write_bytes(text)
        assert_refused(parse, tmp_path / "f.xml", strict=strict)
    assert_refused(parse, text, strict=strict)


def test_what_other_readers_tolerate_is_tolerated():
    builder = newtonsim.ModelBuilder()
    report = parse_urdf(
        '\n \n<?xml version="1.0"?>\n<robot name="r"><link name="a"/></robot>\nrubbish', builder
    )
    assert builder.body_key == ["a"]
    assert [entry.message for entry in report.of_kind("ignored")] == [
        "blank text before the XML declaration",
        "text after the root element",
    ]
    with pytest.raises(ImportFileError) as caught:
        parse_urdf('\n \n<?xml version="1.0"?>\n<robot name="r"><link/></robot>', builder)
    assert caught.value.line == 4


def test_file_too_large(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "text_bytes", 100)
    (tmp_path / "f.urdf").write_text("<robot>" + " " * 100 + "</robot>")
    assert_refused(parse_urdf, tmp_path / "f.urdf", "more than the limit")
    assert_refused(parse_urdf, (tmp_path / "f.urdf").read_text(), "longer than the limit")


DEEP = 20_000


def test_deeply_nested_bodies():
    assert_refused(parse_mjcf, "<mujoco><worldbody>" + "<body>" * DEEP, "nested more than")


def test_deep_but_legal_nesting_needs_no_recursion():
    depth = 400
    bodies = '<body pos="0 0 .1"><joint/><geom size=".1"/>' * depth + "</body>" * depth
    builder = newtonsim.ModelBuilder()
    parse_mjcf(f"<mujoco><worldbody>{bodies}</worldbody></mujoco>", builder)
    assert builder.body_count == depth
    classes = (
        "".join(f'<default class="c{i}"><geom size="{i + 1}"/>' for i in range(depth)) + "</default>" * depth
    )
    text = f'<mujoco><default>{classes}</default><worldbody><geom class="c{depth - 1}"/></worldbody></mujoco>'
    parse_mjcf(text, builder)
    assert builder.shape_geo_scale[-1][0] == depth


def test_long_urdf_chain_needs_no_recursion():
    count = 3000
    links = "".join(f'<link name="l{i}"/>' for i in range(count))
    joints = "".join(
        f'<joint name="j{i}" type="continuous"><parent link="l{i}"/><child link="l{i + 1}"/></joint>'
        for i in range(count - 1)
    )
    builder = newtonsim.ModelBuilder()
    parse_urdf(f'<robot name="r">{links}{joints}</robot>', builder)
    assert builder.body_count == count


def test_cyclic_and_doubling_includes(tmp_path):
    (tmp_path / "a.xml").write_text('<mujoco><include file="b.xml"/></mujoco>')
    (tmp_path / "b.xml").write_text('<mujoco><include file="a.xml"/></mujoco>')
    assert_refused(parse_mjcf, tmp_path / "a.xml", "includes itself", 1, "include")
    (tmp_path / "b.xml").write_text('<mujoco><include file="b.xml"/></mujoco>')
    assert_refused(parse_mjcf, tmp_path / "a.xml", "includes itself", 1, "include")
    for i in range(40):
        (tmp_path / f"d{i}.xml").write_text(
            f'<mujoco><include file="d{i + 1}.xml"/><include file="d{i + 1}.xml"/></mujoco>'
        )
    (tmp_path / "d40.xml").write_text("<mujoco/>")
    assert_refused(parse_mjcf, tmp_path / "d0.xml", "included twice")
    for i in range(300):
        (tmp_path / f"e{i}.xml").write_text(f'<mujoco><include file="e{i + 1}.xml"/></mujoco>')
    assert_refused(parse_mjcf, tmp_path / "e0.xml", "exceed 256 files")
    (tmp_path / "f.xml").write_text('<mujoco><include file="no.xml"/></mujoco>')
    assert_refused(parse_mjcf, tmp_path / "f.xml", "'no.xml' is not found", 1, "include")
    (tmp_path / "g.xml").write_text("<mujoco><include/></mujoco>")
    assert_refused(parse_mjcf, tmp_path / "g.xml", "'file' is missing", 1, "include")


def test_too_many_colliding_shapes_for_filter_pairs(monkeypatch):
    monkeypatch.setattr(building_filters, "MAX_FILTER_PAIRS", 1000)
    bodies = "".join('<body><joint/><geom size=".1" contype="2"/></body>' for _ in range(50))
    assert_refused(parse_mjcf, f"<mujoco><worldbody>{bodies}</worldbody></mujoco>", "filter pairs")


def test_long_lists_of_numbers_are_read_fast_and_checked_all_the_same():
    count = 3_000_000
    text = '<mujoco><asset><mesh name="m" vertex="{}"/></asset><worldbody>'
    text += '<geom type="mesh" mesh="m"/></worldbody></mujoco>'
    assert_refused(parse_mjcf, text.format("1 " * count), "span a volume")
    for word in ("nan", "1e400", "1e31", "1..", "١", "--1"):
        assert_refused(parse_mjcf, text.format("1 " * 200 + word), "not a finite number|too large")


def test_many_shapes_of_the_world_are_no_hang(z_up):
    start = time.perf_counter()
    parse_mjcf("<mujoco><worldbody>" + '<geom size="1"/>' * 20_000 + "</worldbody></mujoco>", z_up)
    assert z_up.shape_count == 20_000
    assert time.perf_counter() - start < SOON


def test_too_many_kinds_of_contact(monkeypatch):
    monkeypatch.setattr(building_filters, "MAX_KINDS", 100)
    bodies = "".join(f'<body><joint/><geom size="1" contype="{i}"/></body>' for i in range(200))
    assert_refused(parse_mjcf, f"<mujoco><worldbody>{bodies}</worldbody></mujoco>", "kinds of contact")


def test_errors_of_arguments_leave_the_builder_alone():
    urdf_text = '<robot name="r"><link name="a"/></robot>'
    mjcf_text = '<mujoco><worldbody><body><freejoint/><geom size=".1"/></body></worldbody></mujoco>'
    both = ({"base_joint": "qq"}, {"xform": (0, 0, 0)}, {"xform": [float("nan")] * 7}, {"scale": 0.0})
    readers = ((parse_urdf, urdf_text), (parse_mjcf, mjcf_text))
    cases = [(parse, text, options) for parse, text in readers for options in both]
    only = ({"up_axis": "W"}, {"ignore_names": ["("]}, {"visual_classes": ["*"]})
    cases += [(parse_mjcf, mjcf_text, options) for options in only]
    for parse, text, options in cases:
        builder = filled_builder()
        before = contents(builder)
        with pytest.raises(NewtonsimError, match=next(iter(options))):
            parse(text, builder, **options)
        assert same(before, contents(builder))


@pytest.mark.parametrize("parse", [parse_urdf, parse_mjcf, parse_sdf])
@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("", "^expected the name of a file or XML, got an empty text$"),
        (" \n", "^expected the name of a file or XML, got an empty text$"),
        (b"", "^expected the name of a file or XML, got an empty text$"),
        ("{tmp}/notes.md", "notes.md:1: not XML, .* it begins with '# Robots'$"),
        ("{tmp}/empty.urdf", "empty.urdf:1: not XML, .* it is empty$"),
        ("{tmp}", ": a folder, expected a file$"),
        ("<robot", "^line 1: not well-formed XML: unclosed token$"),
    ],
)
def test_what_is_no_robot_file_is_told_as_what_it_is(parse, source, words, tmp_path):
    (tmp_path / "notes.md").write_text("# Robots\n\nText & more.\n")
    (tmp_path / "empty.urdf").write_text("")
    given = source.replace("{tmp}", str(tmp_path)) if isinstance(source, str) else source
    for strict in (False, True):
        builder = newtonsim.ModelBuilder()
        with pytest.raises(newtonsim.ImportFileError, match=words):
            parse(given, builder, strict=strict)
        assert builder.body_count == 0
