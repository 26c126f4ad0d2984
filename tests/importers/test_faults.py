"""Faults of files: refused by default; forgiven on request, and reported with file, element and value."""

import numpy as np
import pytest

import newtonsim
from newtonsim.errors import ImportFileError, UnsupportedElementWarning
from newtonsim.importers.files.faults import REFUSE, Forgive
from newtonsim.importers.files.tolerant_xml import parse_tolerantly
from newtonsim.importers.files.xml import Node
from newtonsim.importers.urdf import elements
from newtonsim.pybullet_compat.readers.urdf import read_urdf
from newtonsim.utils import parse_urdf


def node(text: str) -> Node:
    return Node("origin", {"xyz": text}, "robot.urdf", 7)


@pytest.mark.parametrize(
    ("text", "values", "said"),
    [
        ("1, 2m -3e1x", [1.0, 2.0, -30.0], ["'1,'", "'2m'", "'-3e1x'"]),
        ("1 2 3 4", [1.0, 2.0, 3.0], ["4 values, expected 3"]),
        ("1 2", [0.0, 0.0, 0.0], ["2 values, expected 3"]),
        ("nan _1 .5", [0.0, 0.0, 0.5], ["'nan'", "'_1'"]),
        ("1 2 3", [1.0, 2.0, 3.0], []),
    ],
)
def test_numbers(text, values, said):
    faults = Forgive()
    np.testing.assert_array_equal(node(text).floats("xyz", 3, faults=faults), values)
    assert len(faults.forgiven) == len(said)
    for fault, words in zip(faults.forgiven, said, strict=True):
        assert str(fault).startswith("robot.urdf:7: <origin>: attribute 'xyz'")
        assert words in str(fault)
    if said:
        with pytest.raises(ImportFileError) as caught:
            node(text).floats("xyz", 3)
        assert str(caught.value) == str(faults.forgiven[0])


def test_one_number():
    faults = Forgive()
    assert node("2.5kg").float("xyz", faults=faults) == node("2.5kg").positive("xyz", faults) == 2.5
    assert [node(text).positive("xyz", faults) for text in ("-1", "")] == [-1.0, 0.0]
    assert len(faults.forgiven) == 4
    assert node("1").float("mass", 3.0, faults) == 3.0
    assert len(faults.forgiven) == 4
    with pytest.raises(ImportFileError, match="'mass' is missing"):
        node("1").positive("mass", faults)


@pytest.mark.parametrize("text", [b"<a><b:c x='1 & 2'/></a>", b"<!DOCTYPE a><a><b:c x='1 &amp; 2'/></a>"])
def test_xml_that_is_not_well_formed(text):
    faults = Forgive()
    root, _ = parse_tolerantly(text, "robot.urdf", faults)
    assert [(one.tag, one.attrib) for one in root.walk()] == [("a", {}), ("b:c", {"x": "1 & 2"})]
    assert len(faults.forgiven) == 1
    assert faults.forgiven[0].path == "robot.urdf"
    with pytest.raises(ImportFileError):
        parse_tolerantly(text, "robot.urdf", REFUSE)


def test_elements_that_do_not_nest_are_beyond_forgiveness():
    with pytest.raises(ImportFileError, match="</c> has no opening tag"):
        parse_tolerantly(b"<a><b></c></a>", "robot.urdf", Forgive())


@pytest.mark.parametrize(
    ("text", "line"),
    [("<robot>\n<link></robot>", 2), ("<robot>\n<link/>\n", 3), ("", 1)],
    ids=["nesting", "end", "empty"],
)
def test_a_file_without_a_tree_is_refused_with_its_line(tmp_path, text, line):
    path = tmp_path / "robot.urdf"
    path.write_text(text)
    builder = newtonsim.ModelBuilder()
    with pytest.raises(ImportFileError, match=r"not (well-formed )?XML") as refused:
        parse_urdf(str(path), builder)
    assert f"robot.urdf:{line}" in str(refused.value)


def tree(links: str, joints: str, faults) -> tuple[str, list[str]]:
    """Root link and links below it; joints are pairs of parent and child."""
    nodes = {name: Node("link", {"name": name}) for name in links}
    records = [elements_joint(f"j{k}", *ends) for k, ends in enumerate(joints.split())]
    base, below = elements.read_tree(Node("robot", {}), nodes, records, faults)
    return base, [joint.child for joint in elements.outwards(base, below)]


def elements_joint(name: str, parent: str, child: str):
    class Joint:
        pass

    joint = Joint()
    joint.name, joint.parent, joint.child, joint.node = name, parent, child, Node("joint", {"name": name})
    return joint


def test_tree_depth_first_in_the_order_of_the_file():
    assert tree("abcde", "ab ad bc de", REFUSE) == ("a", ["b", "c", "d", "e"])


@pytest.mark.parametrize(
    ("links", "joints", "result", "said"),
    [
        ("abc", "ab", ("a", ["b"]), "several root links: 'a', 'c'"),
        ("abc", "bc cb", ("a", []), "link 'b' is part of a cycle"),
    ],
)
def test_links_that_the_root_does_not_reach(links, joints, result, said):
    faults = Forgive()
    assert tree(links, joints, faults) == result
    assert len(faults.forgiven) == 1
    assert said in str(faults.forgiven[0])
    with pytest.raises(ImportFileError, match=said):
        tree(links, joints, REFUSE)


def test_pybullet_reader_warns_at_every_load(tmp_path):
    """The tree of an unchanged file is read once, what was forgiven in it is said each time."""
    path = tmp_path / "robot.urdf"
    path.write_text(
        '<robot name="r"><a:b/><link name="l"><inertial><mass value="2kg"/>'
        '<inertia ixx="1" iyy="1" izz="1"/></inertial></link></robot>'
    )
    for _ in range(2):
        with pytest.warns(UnsupportedElementWarning) as caught:
            assert read_urdf(path).base.mass == 2.0
        texts = [str(one.message) for one in caught]
        assert len(texts) == 2
        assert all(text.startswith(str(path)) for text in texts)
        assert "not well-formed XML: unbound prefix" in texts[0]
        assert "<mass>" in texts[1]
        assert all(one.filename == __file__ for one in caught)
