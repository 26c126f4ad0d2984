"""Random programs under the real module and ours: a sample of those that `random_programs.py` runs."""

import itertools
import pathlib

import pytest

pytest.importorskip("pybullet")

import pybullet
import random_programs

from newtonsim.pybullet_compat.readers import mjcf

ODD_ONES = 0.2
"""Share of programs in which a number is beyond tolerances: joints pressed against others, deep contacts."""


@pytest.fixture(autouse=True)
def joints_are_numbered_alike(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    """Joints of MJCF files without names are counted over a process: go on where PyBullet, too, goes on."""
    path = tmp_path / "one_joint.xml"
    path.write_text('<mujoco><worldbody><body name="a"><body name="b"/></body></worldbody></mujoco>')
    client = pybullet.connect(pybullet.DIRECT)
    (body,) = pybullet.loadMJCF(str(path), physicsClientId=client)
    name = pybullet.getJointInfo(body, 0, physicsClientId=client)[1].decode()
    pybullet.disconnect(client)
    monkeypatch.setattr(mjcf, "_NUMBERS", itertools.count(int(name.split("_")[1]) + 1))


def differing(seeds: range) -> list[str]:
    """Run programs; what differs in structure is told, and a number beyond tolerances counted."""
    odd = []
    for seed in seeds:
        run, lines = random_programs.run_program(seed)
        assert len(lines) >= random_programs.CALLS
        assert run.first_structural is None, f"seed {seed}: {run.first_structural}"
        if run.first is not None:
            odd.append(f"seed {seed}: {run.first}")
    return odd


def test_programs_agree():
    odd = differing(range(12))
    assert len(odd) <= ODD_ONES * 12, "\n".join(odd)


@pytest.mark.slow
def test_many_programs_agree():
    odd = differing(range(12, 132))
    assert len(odd) <= ODD_ONES * 120, "\n".join(odd)
