"""The example of SAC learns within its time."""

import re

import pytest

from newtonsim.examples.learning import sac_double_pendulum


@pytest.mark.slow
def test_double_pendulums_learn_to_stand(capsys: pytest.CaptureFixture):
    """Without control they fall within about ten steps, each of which earns at most ten."""
    sac_double_pendulum.main()
    before, after = map(float, re.findall(r"(\d+) (?:before|after)", capsys.readouterr().out))
    assert before < 200.0
    assert after > 1000.0
