"""Examples in docstrings run, under the installed name of their module."""

import doctest
import importlib
import pathlib

import pytest
from rooms import ROOT, module_name, source_files

WITH_EXAMPLES = [path for path in source_files() if ">>> " in (ROOT / path).read_text()]


@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=str)
def test_docstring_examples(path: pathlib.Path):
    module = importlib.import_module(module_name(path))
    result = doctest.testmod(module, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert result.attempted > 0
    assert result.failed == 0
