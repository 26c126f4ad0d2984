"""Ways to look at a simulation: recordings, films, sheets, plots, USD animations, cameras.

Heavy libraries load when used.
"""

import importlib
from typing import Any

__all__ = ["Recorder", "Recording"]

_LAZY = {
    "Recorder": "newtonsim.render.recorder",
    "Recording": "newtonsim.render.recording",
}


def __getattr__(name: str) -> Any:
    """Load what is asked for."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
