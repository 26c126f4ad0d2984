"""Warp starts without its warning on machines without a GPU, and without hiding what else is written."""

import subprocess
import sys
import textwrap

import pytest

FIRST_USES = {
    "model": "import newtonsim; newtonsim.ModelBuilder().finalize('cpu')",
    "script": """
        import newtonsim.pybullet_compat as p
        p.connect(p.DIRECT)
        p.createMultiBody(1, p.createCollisionShape(p.GEOM_SPHERE, radius=0.1))
        p.stepSimulation()
    """,
    "kinematics": """
        import newtonsim.pybullet_compat as p
        from newtonsim.pybullet_compat.stand_ins import pybullet_data
        p.connect(p.DIRECT)
        arm = p.loadURDF(f"{pybullet_data.getDataPath()}/kuka_iiwa/model.urdf", useFixedBase=True)
        p.calculateInverseKinematics(arm, 6, [0.5, 0.0, 0.5])
    """,
    "query": """
        import newtonsim.pybullet_compat as p
        p.connect(p.DIRECT)
        ball = p.createMultiBody(1, p.createCollisionShape(p.GEOM_SPHERE, radius=0.1))
        p.getClosestPoints(ball, ball, 1.0)
    """,
}


def errors_of(code: str) -> str:
    """Run a program; return what it writes to its error stream."""
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=300
    )
    assert result.returncode == 0, result.stderr
    return result.stderr


@pytest.mark.parametrize("code", FIRST_USES.values(), ids=FIRST_USES)
def test_programs_are_not_warned_of_a_missing_driver(code: str):
    assert "driver" not in errors_of(code)


def test_what_else_is_written_meanwhile_is_kept():
    """By libraries past Python, in the process of which Warp starts."""
    code = """
        import os
        import warp as wp
        from newtonsim.runtime.devices import find_device
        start = wp.init
        def init():
            os.write(2, b"first\\nCould not find or load the NVIDIA CUDA driver.\\nlast\\n")
            start()
        wp.init = init
        find_device("cpu")
        os.write(2, b"after\\n")
    """
    assert errors_of(code).splitlines() == ["first", "last", "after"]


def test_a_process_without_an_error_stream_starts():
    assert (
        errors_of(
            "import os; os.close(2)\nfrom newtonsim.runtime.devices import find_device\nfind_device('cpu')"
        )
        == ""
    )
