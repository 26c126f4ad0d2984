"""Document types are opened as other simulators do, and may declare nothing; bytes that are no text."""

import pytest

import newtonsim
from newtonsim.errors import ImportFileError
from newtonsim.importers import parse_mjcf, parse_sdf, parse_urdf

URDF = '<robot name="r"><link name="base"/></robot>'
MJCF = '<mujoco><worldbody><body name="a"><geom size=".1"/></body></worldbody></mujoco>'
SDF = '<sdf version="1.6"><model name="m"><link name="l"/></model></sdf>'
READERS = {"robot": (parse_urdf, URDF), "mujoco": (parse_mjcf, MJCF), "sdf": (parse_sdf, SDF)}


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("root", READERS)
def test_a_document_type_that_declares_nothing_is_opened(root, strict):
    read, text = READERS[root]
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    report = read(f'<?xml version="1.0"?>\n<!DOCTYPE {root}>\n{text}', builder, strict=strict)
    assert len(report.bodies) == 1
    assert not report.of_kind("mended")


@pytest.mark.parametrize("root", READERS)
@pytest.mark.parametrize(
    ("declared", "told"),
    [
        ('<!ENTITY a "1"><!ENTITY b "&a;&a;">', "it declares the entity 'a' with the value '1'"),
        ('<!ENTITY x SYSTEM "file:///etc/passwd">', "it declares the entity 'x' from 'file:///etc/passwd'"),
        ('<!ENTITY % p "text">', "it declares the entity 'p' with the value 'text'"),
        ('<!ATTLIST link name CDATA "long">', "it declares the attribute 'name' of <link> with the default"),
    ],
)
def test_declarations_are_refused_by_name_and_value(root, declared, told):
    read, text = READERS[root]
    with pytest.raises(ImportFileError, match=f"^line 2: <!DOCTYPE>: {told}"):
        read(f'<?xml version="1.0"?>\n<!DOCTYPE {root} [{declared}]>\n{text}', newtonsim.ModelBuilder())


def test_document_types_of_other_files_are_refused():
    """Nothing of them is loaded, and so what they declare is not known."""
    text = '<!DOCTYPE robot SYSTEM "types.dtd">' + URDF
    with pytest.raises(
        ImportFileError, match=r"^line 1: <!DOCTYPE>: it refers to 'types.dtd'; references to other"
    ):
        parse_urdf(text, newtonsim.ModelBuilder())


def test_bytes_that_are_not_utf_8_are_named(tmp_path):
    """By line, place and value; an encoding that the file declares is used."""
    text = '<robot name="r">\n<link name="{}"/></robot>'
    file = tmp_path / "robot.urdf"
    file.write_bytes(text.format("ä").encode("latin-1"))
    with pytest.raises(ImportFileError, match=r"robot.urdf:2: .*byte 13 of the line, 0xe4, is not UTF-8"):
        parse_urdf(str(file), newtonsim.ModelBuilder(), strict=True)
    file.write_bytes(('<?xml version="1.0" encoding="latin-1"?>' + text.format("ä")).encode("latin-1"))
    assert list(parse_urdf(str(file), newtonsim.ModelBuilder(), strict=True).bodies) == ["ä"]


def test_negative_moments_are_told_with_their_value():
    """x² + y² of a pair of off-diagonal terms: the moments of ((1, 2), (2, 1)) are 3 and -1."""
    text = MJCF.replace(
        '<geom size=".1"/>', '<inertial pos="0 0 0" mass="1" fullinertia="1 1 5 2 0 0"/><joint/>'
    )
    with pytest.raises(ImportFileError, match=r"negative principal moment, -1 kg m\^2"):
        parse_mjcf(text, newtonsim.ModelBuilder(), ignore_inertial_definitions=False)
