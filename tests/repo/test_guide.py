"""Pages name what exists: files, folders, modules, links and, in the guides for contributors, all code.

A name in code marks is known if a file of the repository defines it. In a line of a table that names files,
one of these has to contain it: there a name says what is found where.
"""

import ast
import functools
import importlib.util
import pathlib
import re
import sys
import tomllib
from collections.abc import Iterator

import numpy as np
import pytest
from import_graph import arrows, sources
from rooms import ROOMS, ROOT, module_name, parsed, source_files, syntax_tree

import newtonsim
from newtonsim.runtime.compilation import dry_run, short_name
from newtonsim.solvers import BodyDamping, FeatherstoneSolver

GUIDES = [ROOT / "docs" / "architecture.md", ROOT / "CONTRIBUTING.md"]
PAGES = sorted({ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *ROOT.glob("examples/**/*.md"), *GUIDES})
FOLDERS = "|".join((*ROOMS, "tests", "docs", "benchmarks"))
PATH = re.compile(rf"(?<![\w./-])(?!newtonsim/\w+-v\d)(?:{FOLDERS})(?:/[\w.*-]+)+")
MODULE = re.compile(r"\bnewtonsim(?:\.[A-Za-z_]\w*)+")
LINK = re.compile(r"\]\((?!http|#)([^)#]+)(#[^)]*)?\)")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
ROOT_FILES = {path.name for path in ROOT.iterdir() if path.is_file()}
FOREIGN = {"array", "int", "max_unroll", "enable_backward"}
"""Names in code marks that are Python's or Warp's, or stand for any."""


def without_programs(text: str) -> str:
    return FENCE.sub("", text)


def named_paths(text: str) -> set[str]:
    return {found.rstrip("./") for found in PATH.findall(text)}


def missing_paths(page: pathlib.Path, text: str) -> list[str]:
    """Return the files and folders of the repository that a text names and that do not exist."""
    linked = {(page.parent / target).resolve() for target, _ in LINK.findall(text)}
    missing = [str(path) for path in linked if not path.exists()]
    marked = " ".join([*re.findall(r"`([^`\n]+)`", text), *(program for _, program in FENCE.findall(text))])
    return sorted(missing + [path for path in named_paths(marked) if not any(ROOT.glob(path))])


def anchors(text: str) -> set[str]:
    """Return the anchors of the headings of a page, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", without_programs(text), re.MULTILINE)
    return {"#" + re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def missing_anchors(page: pathlib.Path, text: str) -> list[str]:
    named = re.findall(r"\]\((?!http)([^)#]*)(#[^)]+)\)", text)
    targets = [(page.parent / path if path else page, anchor) for path, anchor in named]
    return [f"{path.name}{a}" for path, a in targets if a not in anchors(path.read_text())]


@functools.cache
def modules() -> dict[str, pathlib.Path]:
    return {module_name(path): ROOT / path for path in source_files()}


def is_importable(name: str) -> bool:
    """Whether a dotted name is a module, or something that the file of a module or of its class names."""
    parts = name.split(".")
    known = next(n for n in range(len(parts), 0, -1) if ".".join(parts[:n]) in modules())
    if known == len(parts) or parts[known].startswith("__"):
        return True
    text = modules()[".".join(parts[:known])].read_text()
    return re.search(rf"\b{parts[known]}\b", text) is not None


@functools.cache
def definitions() -> set[str]:
    """Return the names of all functions, classes, arguments, attributes and constants of the repository."""
    files = [*modules().values(), *(ROOT / "tests").rglob("*.py"), *(ROOT / "benchmarks").rglob("*.py")]
    return set().union(*map(definitions_of, files))


@functools.cache
def definitions_of(path: pathlib.Path) -> set[str]:
    """Return the names of all functions, classes, arguments, attributes and constants of a file."""
    names: set[str] = set()
    below = path.relative_to(ROOT)
    for node in ast.walk(syntax_tree(below) if below.parts[0] in ROOMS else parsed(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
            # attributes that are set by name have an entry there
            names.update(re.findall(r"^    (\w+): ", ast.get_docstring(node) or "", re.MULTILINE))
        elif isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            names.add(node.id if isinstance(node, ast.Name) else node.attr)
    return names


@functools.cache
def members() -> dict[str, set[str]]:
    """Return what the classes of the package, by name, define or assign to themselves."""
    found: dict[str, set[str]] = {}
    classes = (
        node
        for path in source_files()
        for node in ast.walk(syntax_tree(path))
        if isinstance(node, ast.ClassDef)
    )
    for node in classes:
        own = found.setdefault(node.name, set())
        own |= {part.name for part in node.body if isinstance(part, ast.FunctionDef)}
        stored = (part for part in ast.walk(node) if isinstance(getattr(part, "ctx", None), ast.Store))
        own |= {getattr(part, "attr", getattr(part, "id", "")) for part in stored}
    return found


def code_names(text: str) -> Iterator[str]:
    """Yield the names of code in a text: those in code marks that are no path and no program."""
    for words in re.findall(r"`([^`\n]+)`", without_programs(text)):
        plain = re.match(r"([A-Za-z_][\w.]*)(\(.*\)|=.*)?$", words)
        if plain and plain[1] not in ROOT_FILES | FOREIGN and not PATH.match(words) and "..." not in words:
            yield plain[1]


def is_known(name: str) -> bool:
    if name in modules() or name in FOLDERS.split("|") or name.startswith("wp."):
        return True
    if name.startswith("newtonsim."):
        return is_importable(name)
    first, *rest = name.split(".")
    if rest and first in members():
        return rest[0] in members()[first]
    return first in definitions() and (not rest or rest[-1] in definitions())


def stray_names(page: pathlib.Path, text: str) -> list[str]:
    """Return the names in lines of tables that none of the files of the line contains."""
    stray = []
    for line in text.splitlines():
        paths = {path for path in named_paths(line.replace("../", "")) if path.endswith(".py")}
        paths |= {name for name in ROOT_FILES if name in line}
        if line.startswith("|") and paths:
            contents = [(ROOT / path).read_text() for path in paths if (ROOT / path).exists()]
            for name in set(code_names(line)) - ROOMS.keys():
                if not name.startswith("wp.") and not any(
                    re.search(rf"\b{name.split('.')[-1]}\b", content) for content in contents
                ):
                    stray.append(f"{page.name}: {name} is in none of {', '.join(sorted(paths))}")
    return stray


def misplaced_names(page: pathlib.Path, text: str) -> list[str]:
    """Return the names that a text says are in a file, which does not define them."""
    place = r"`([\w.]*\w)`(?:\*\*)? (?:in )?\(?(?:`([\w/]+\.py)`|\[[^\]]*\]\((?:\.\./)?([\w/]+\.py)\))"
    said = [(name, marked or linked) for name, marked, linked in re.findall(place, " ".join(text.split()))]
    return [
        f"{page.name}: {path} does not define {name}"
        for name, path in said
        if (ROOT / path).exists() and name.split(".")[-1] not in definitions_of(ROOT / path)
    ]


def commands(text: str) -> Iterator[list[str]]:
    """Yield the commands of a page as words, without comments and the folder of the environment."""
    for language, program in FENCE.findall(text):
        for line in program.splitlines() if language == "sh" else ():
            for command in line.partition(" # ")[0].split("&&"):
                if words := command.split():
                    yield [words[0].removeprefix(".venv/bin/"), *words[1:]]
    for words in re.findall(r"`((?:python|newtonsim|make|pytest) [^`\n]+)`", text):
        yield words.split()


def is_runnable(words: list[str]) -> bool:
    """Whether a command of ours exists: a script, a subcommand, a target, a test; others pass."""
    program, *rest = words
    if program == "make":
        return re.search(rf"^{rest[0]}:", (ROOT / "Makefile").read_text(), re.MULTILINE) is not None
    if program == "newtonsim":
        return f'add_parser("{rest[0]}"' in re.sub(
            r"\(\s+", "(", (ROOT / "newtonsim/cli/arguments.py").read_text()
        )
    if program == "pytest":
        return all((ROOT / path).exists() for path in named_paths(" ".join(rest)))
    if program.startswith("python") and rest and rest[0].endswith(".py"):
        script = ROOT / rest[0]
        return script.exists() and all(option in script.read_text() for option in rest if option[:2] == "--")
    return True


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_and_links_of_pages_exist(page: pathlib.Path):
    text = page.read_text()
    assert missing_paths(page, text) + missing_anchors(page, text) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_modules_and_their_contents_exist(page: pathlib.Path):
    found = set(MODULE.findall(LINK.sub("]", page.read_text())))
    assert sorted(name for name in found if not is_importable(name)) == []


@pytest.mark.parametrize("path", source_files(), ids=str)
def test_modules_named_in_sources_exist(path: pathlib.Path):
    """In code marks or in full: `kernels.trees.rnea`, newtonsim.runtime.compilation."""
    text = (ROOT / path).read_text()
    marked = re.findall(rf"`((?:{'|'.join(ROOMS)})(?:\.[A-Za-z_]\w*)+)", text)
    full = [name if name.startswith("newtonsim.") else f"newtonsim.{name}" for name in marked]
    assert sorted({name for name in [*full, *MODULE.findall(text)] if not is_importable(name)}) == []


@pytest.mark.parametrize("guide", GUIDES, ids=lambda page: page.name)
def test_names_of_code_in_guides_exist(guide: pathlib.Path):
    text = guide.read_text()
    assert sorted({name for name in code_names(text) if not is_known(name)}) == []
    assert stray_names(guide, text) + misplaced_names(guide, text) == []


@pytest.mark.parametrize("guide", GUIDES, ids=lambda page: page.name)
def test_commands_of_guides_exist(guide: pathlib.Path):
    assert [" ".join(words) for words in commands(guide.read_text()) if not is_runnable(words)] == []


def rows_of_step() -> list[list[str]]:
    """Return the kernel files in each row of the table of FeatherstoneSolver's step, such as "trees.rnea"."""
    table = GUIDES[0].read_text().partition("## A step of FeatherstoneSolver")[2].partition("\n\n### ")[0]
    found = [
        re.findall(r"\.\./kernels/([\w/]+)\.py\)", line) for line in table.splitlines() if line[:1] == "|"
    ]
    return [[path.replace("/", ".") for path in paths] for paths in found if paths]


def scene_with_everything() -> newtonsim.Model:
    """A loop, a joint with a limit, spheres that roll with friction on the ground."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    arm, ball = (
        builder.add_body(mass=1.0, I_m=np.eye(3)),
        builder.add_body(origin=(0.0, 0.0, 0.1, 0.0, 0.0, 0.0, 1.0)),
    )
    builder.add_joint_revolute(-1, arm, limit_lower=-1.0, limit_upper=1.0)
    builder.shape_mu_torsion[builder.add_shape_sphere(ball, radius=0.1)] = 0.01
    builder.add_constraint_distance(arm, ball, max_distance=1.0)
    builder.set_ground_plane()
    return builder.finalize("cpu")


@pytest.mark.parametrize("damped", [False, True])
@pytest.mark.parametrize("options", [{}, {"sleep": True}, {"contact_mode": "compliant"}], ids=str)
def test_a_step_launches_the_kernels_of_its_table_in_that_order(options: dict, damped: bool):
    model = scene_with_everything()
    solver, state = FeatherstoneSolver(model, **options), model.state()
    solver.before_step = (BodyDamping(model),) if damped else ()
    with dry_run() as modules:
        solver.step(model, state, state, None, None, 0.01)
    launched = [short_name(module) for module in modules]
    listed = [name for row in rows_of_step() for name in row if name in launched]
    assert set(launched) - set(listed) - {n for n in launched if n.startswith("collision.")} == set()
    rest = iter(launched)
    assert [name for name in listed if name not in rest] == []


def test_selected_tests_exist():
    """Words of `-k` are part of the name of a test in the file, or of a file in the folder."""
    selected = [words for words in commands(GUIDES[1].read_text()) if "-k" in words]
    assert selected
    for words in selected:
        (path,) = named_paths(" ".join(words))
        files = [ROOT / path] if path.endswith(".py") else (ROOT / path).glob("*.py")
        names = " ".join(
            file.stem + " ".join(re.findall(r"def (test_\w+)", file.read_text())) for file in files
        )
        chosen = re.findall(r"[a-z_]+", " ".join(words[words.index("-k") + 1 :]))
        assert [word for word in chosen if word != "or" and word not in names] == []


def test_the_index_lists_every_page():
    index = (ROOT / "docs" / "README.md").read_text()
    listed = {target for target, _ in LINK.findall(index)}
    pages = {path.name for path in (ROOT / "docs").glob("*.md")} - {"README.md"}
    assert pages - listed == set()


@functools.cache
def drawing():
    spec = importlib.util.spec_from_file_location("drawing", ROOT / "docs" / "make_architecture_drawing.py")
    sys.modules["drawing"] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["architecture_rooms.svg", "architecture_kernels.svg"])
def test_the_drawing_is_that_of_the_imports(name: str):
    drawn = (ROOT / "docs" / "pictures" / name).read_text()
    assert drawn == drawing().svg(drawing().DRAWINGS[name]), "python docs/make_architecture_drawing.py"


def test_every_room_has_a_place_in_the_drawing():
    rooms = {room for ends in arrows(sources()) for room in ends}
    house, kernels = drawing().HOUSE, drawing().KERNELS
    undrawn = {room for room in rooms if house.box_of(room) is None and kernels.box_of(room) is None}
    assert undrawn == {f"newtonsim.{room}" for room in house.left_out}


def test_arrows_left_out_are_implied():
    """Every import between boxes is a way along drawn arrows."""
    for plan in drawing().DRAWINGS.values():
        imports = drawing().imports(plan)
        drawn = drawing().without_implied(imports)

        def below(box: str, drawn=drawn) -> set[str]:
            return drawn[box].union(*(below(target) for target in drawn[box]))

        assert {box: below(box) >= targets for box, targets in imports.items()} == dict.fromkeys(
            imports, True
        )


def test_an_arrow_upwards_cannot_be_drawn():
    with pytest.raises(ValueError, match="scene imports cli, which is not drawn below it"):
        drawing().Layout(
            drawing().HOUSE, {box: set() for box in drawing().HOUSE.boxes()} | {"scene": {"cli"}}
        )


def test_set_up_names_an_extra():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(re.findall(r"'\.\[(\w+)\]'", GUIDES[1].read_text())) <= extras.keys()


@pytest.mark.parametrize(
    ("check", "text"),
    [
        (missing_paths, "see `kernels/trees/gone.py`"),
        (missing_paths, "see [it](../solvers/gone.py)"),
        (missing_paths, "in `solvers/gone/`"),
        (missing_anchors, "see [below](#gone)"),
        (missing_anchors, "see [there](docs/envs.md#gone)"),
        (stray_names, "| `factorize` | `kernels/trees/rnea.py` |"),
        (misplaced_names, "`is_floating` in `kernels/trees/rnea.py`"),
        (misplaced_names, "**`State`** ([model.py](../newtonsim/scene/model.py))"),
    ],
)
def test_the_check_sees_what_is_not_there(check, text: str):
    assert len(check(ROOT / "README.md", text)) == 1


def test_the_check_sees_names_that_are_not_there():
    assert not is_known("FeatherstoneSolver._gone")
    assert not is_known("no_such_function")
    assert not is_importable("newtonsim.kernels.trees.gone")
    assert is_known("FeatherstoneSolver._step_bodies")
    assert list(code_names("`a.b(c)`, `x=`, `solvers/base.py`, `--only heap`")) == ["a.b", "x"]


@pytest.mark.parametrize(
    "command",
    [
        "newtonsim dance",
        "make tea",
        "python docs/gone.py",
        "pytest tests/gone.py",
        "python benchmarks/robots.py --gone",
    ],
)
def test_the_check_sees_commands_that_are_not_there(command: str):
    (words,) = commands(f"```sh\n{command}\n```\n")
    assert not is_runnable(words)
