"""What backward passes tell of worlds without gradient and of steps that did not converge."""

import numpy as np
import pytest

from newtonsim.errors import NotDifferentiableError
from newtonsim.solvers.gradient_reports import Shortfall, refuse_worlds

SUMS = np.array([[0.0, 4.0], [1.0, 4.0], [9.0, 0.0], [4.0, 4.0]])


def test_the_worst_entry_is_told_once_and_again_at_twice_as_much():
    shortfall = Shortfall(0.1)
    few = np.array([True, True, True, False])
    assert shortfall.untold(SUMS, few) == (1, 0.5)
    assert shortfall.untold(SUMS, few) is None
    assert shortfall.untold(SUMS * [1.1, 1.0], few) is None
    assert shortfall.untold(SUMS * [5.0, 1.0]) == (3, np.sqrt(5.0))


def test_what_is_small_or_nothing_is_not_told():
    assert Shortfall(0.1).untold(SUMS[:1]) is None
    assert Shortfall(0.1).untold(np.zeros((0, 2))) is None
    assert Shortfall(0.1).untold(np.array([[np.nan, 1.0]])) is None


def test_worlds_without_gradient_are_named_with_the_reason():
    refuse_worlds("Some", np.zeros(3, int), {1: "why"})
    with pytest.raises(NotDifferentiableError, match=r"Some: why, in worlds \[1, 3\]"):
        refuse_worlds("Some", np.array([0, 2, 0, 2]), {1: "other", 2: "why"})
