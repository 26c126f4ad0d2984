"""Imported by Python when a process starts that a script has started: our modules are found there, too."""

import runpy
from pathlib import Path

if __name__ == "sitecustomize":  # by its bare name, so nothing of newtonsim is loaded here
    runpy.run_path(str(Path(__file__).with_name("stand_in_finder.py")))["start_process"](
        Path(__file__).parent
    )
