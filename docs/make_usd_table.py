"""Write the table of attributes in docs/usd.md anew, from the vocabulary of the importer.

python docs/make_usd_table.py
"""

import pathlib

from newtonsim.importers.usd import vocabulary

PAGE = pathlib.Path(__file__).resolve().parent / "usd.md"
TITLE = "## All attributes\n"
PARTS = {
    "UsdPhysics": vocabulary.USD_PHYSICS,
    "PhysX (PhysxSchema)": vocabulary.PHYSX,
    "Newton (newton-usd-schemas 0.6)": vocabulary.NEWTON,
    "MuJoCo (mjcPhysics)": vocabulary.MUJOCO,
}
INTRODUCTION = f"""{TITLE}
"modelled" and "approximated" attributes are read. The others are told once each, with the first prim and the
number of prims, where they ask for something: "unsupported" ones in the warning, "deferred" ones, which a
further call models, in another that strict imports do not raise, "ignored" ones, without
effect on the motion, in `report.entries`. Attributes of these namespaces that no schema knows are warned of.
`<i>` stands for the axis or instance, `*` for any name. Where several schemas say one thing, MuJoCo's counts
before Newton's before PhysX's. `python docs/make_usd_table.py` writes this part.
"""


def table() -> str:
    """Return the part of the page."""
    parts = [INTRODUCTION]
    for title, entries in PARTS.items():
        parts.append(f"### {title}\n")
        parts.append("| schema | attributes | | |\n|---|---|---|---|")
        for entry in entries:
            names = " ".join(f"`{name}`" for name in entry.names)
            parts.append(f"| {entry.schema} | {names} | {entry.made} | {entry.words} |")
        parts.append("")
    return "\n".join(parts)


def page() -> str:
    """Return the whole page with a new table."""
    return PAGE.read_text().partition(TITLE)[0] + table()


if __name__ == "__main__":
    PAGE.write_text(page())
