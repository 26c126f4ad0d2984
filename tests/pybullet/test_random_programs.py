"""Random programs under the real module and ours: a sample of those that `random_programs.py` runs."""

import pytest

pytest.importorskip("pybullet")

import random_programs

ODD_ONES = 0.2
"""Share of programs in which a number is beyond tolerances: joints pressed against others, deep contacts."""


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
