"""Run an example, and record what it simulates.

    python -m newtonsim.examples NAME [--record FOLDER] [ARGUMENTS of the example]

Without a name, the examples are listed.
"""

import argparse
import ast
import contextlib
import pathlib
import re
import runpy
import sys

from newtonsim.runtime.extras import missing_packages


def examples() -> dict[str, str]:
    """Return what each example shows, by its name."""
    paths = sorted(pathlib.Path(__file__).parent.glob("[!_]*.py"))
    return {path.stem: ast.get_docstring(ast.parse(path.read_text())).splitlines()[0] for path in paths}


def needed_extras(name: str) -> list[str]:
    """Return the extras that an example needs, by its docstring."""
    source = pathlib.Path(__file__).with_name(f"{name}.py").read_text()
    return re.findall(r"`newtonsim\[([\w-]+)\]`", ast.get_docstring(ast.parse(source)))


def main() -> None:
    """Run what the command line names."""
    known = examples()
    parser = argparse.ArgumentParser(prog="python -m newtonsim.examples", allow_abbrev=False)
    parser.add_argument("name", nargs="?", choices=known, metavar="NAME", help="the example")
    parser.add_argument(
        "--record",
        type=pathlib.Path,
        metavar="FOLDER",
        help="record every simulation as FOLDER/NAME-1.nsr, ...; look at them by: newtonsim view FILE",
    )
    arguments, others = parser.parse_known_args()
    if arguments.name is None:
        for name, line in known.items():
            print(f"{name:26} {line}")
        return
    for extra in needed_extras(arguments.name):
        if missing := missing_packages(extra):
            what = f"{arguments.name} needs {', '.join(missing)}: pip install 'newtonsim[{extra}]'"
            parser.exit(2, f"{parser.prog}: error: {what}\n")
    with contextlib.ExitStack() as stack:
        paths = []
        if arguments.record is not None:
            from newtonsim.render import record_simulators

            paths = stack.enter_context(record_simulators(arguments.record, arguments.name))
        sys.argv = [arguments.name, *others]
        runpy.run_module(f"newtonsim.examples.{arguments.name}", run_name="__main__")
    if paths:
        print(f"recorded {len(paths)} simulations: {paths[0]} ... {paths[-1]}")


if __name__ == "__main__":
    main()
