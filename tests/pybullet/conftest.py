"""Pairs of worlds for the tests that ask the real module."""

import pytest
from chromium import browser  # noqa: F401 (a fixture)


@pytest.fixture
def both():
    """One world in PyBullet and one in ours, with gravity; closed afterwards."""
    pytest.importorskip("pybullet")
    from pybullet_both import Both

    pair = Both()
    yield pair
    pair.close()
