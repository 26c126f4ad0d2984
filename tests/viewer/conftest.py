"""A real browser for the tests of the viewer."""

from chromium import browser  # noqa: F401 (a fixture)
