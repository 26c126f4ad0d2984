"""Limits of what is read hold in the readers of PyBullet's functions, too."""

import warnings
from pathlib import Path

import pytest

import newtonsim.pybullet_compat as compat
from newtonsim.importers import limits
from newtonsim.pybullet_compat.readers.mjcf import read_mjcf

TETRAHEDRON = (
    "# vtk DataFile Version 2.0\none\nASCII\nDATASET UNSTRUCTURED_GRID\nPOINTS 4 float\n"
    "0 0 0 1 0 0 0 1 0 0 0 1\nCELLS 1 5\n4 0 1 2 3\nCELL_TYPES 1\n10\n"
)
TRIANGLES = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 2 3 4\nf 3 1 4\n"
SLOW = {
    "loadURDF": ("a.urdf", '<robot name="r"><link name="a"/></robot>'),
    "loadSDF": ("a.sdf", '<sdf version="1.6"><model name="m"><link name="a"/></model></sdf>'),
    "loadMJCF": ("a.xml", "<mujoco><worldbody><body><geom size='1'/></body></worldbody></mujoco>"),
    "loadSoftBody": ("a.vtk", TETRAHEDRON),
    "createCollisionShape": ("a.obj", TRIANGLES),
}


@pytest.mark.parametrize("name", SLOW)
def test_the_limit_on_time_is_that_of_all_readers(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """What takes longer is refused and says so, with nothing half added; raised, the same file is read."""
    file, text = SLOW[name]
    (tmp_path / file).write_text(text)
    client, path = compat.connect(compat.DIRECT), str(tmp_path / file)
    arguments = (compat.GEOM_MESH,) if name == "createCollisionShape" else (path,)
    words = {"fileName": path} if name == "createCollisionShape" else {}

    monkeypatch.setattr(limits, "seconds", -1.0)
    with pytest.raises(compat.error), pytest.warns(UserWarning, match=r"longer than the limit of -1 s"):
        getattr(compat, name)(*arguments, **words, physicsClientId=client)
    assert compat.getNumBodies(physicsClientId=client) == 0
    monkeypatch.setattr(limits, "seconds", 600.0)
    getattr(compat, name)(*arguments, **words, physicsClientId=client)
    compat.disconnect(client)


def test_bodies_may_nest_as_deep_as_their_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """No recursion: a limit that was raised is what counts, not Python's."""
    depth = 1500
    monkeypatch.setattr(limits, "depth", depth + 10)
    body = '<body pos="0 0 1"><joint axis="0 1 0"/><geom size=".1"/>'
    (tmp_path / "deep.xml").write_text(
        f"<mujoco><worldbody>{body * depth}{'</body>' * depth}</worldbody></mujoco>"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (robot,) = read_mjcf(str(tmp_path / "deep.xml"))
    assert len(robot.links) == 2 * depth
    assert max(link.parent for link in robot.links) == 2 * depth - 2
