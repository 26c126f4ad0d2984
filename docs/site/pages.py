"""Pages of the site that are not in docs/: front page, navigation, reference, and files that pages link to.

A hook of MkDocs. The navigation is that of the tables in docs/README.md. Pages link to files of the
repository as they lie in it; each of these gets a page that shows it.
"""

from __future__ import annotations

import pathlib
import posixpath
import re

import latex2mathml.converter
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOP = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "benchmarks/results/README.md": "benchmarks.md",
}
"""Pages from the top of the repository, by their place in the site."""

REFERENCE = (
    "newtonsim",
    "newtonsim.solvers",
    "newtonsim.importers",
    "newtonsim.utils",
    "newtonsim.diff",
    "newtonsim.dynamics",
    "newtonsim.optimize",
    "newtonsim.envs",
    "newtonsim.learn",
    "newtonsim.render",
    "newtonsim.bullet_world",
    "newtonsim.pybullet_compat",
    "newtonsim.errors",
)
"""Modules whose public names are described."""

LINK = re.compile(r"\]\(([^)#\s]+)(#[^)\s]*)?\)")
MATHEMATICS = re.compile(r"\$\$(?P<block>.+?)\$\$|(?<![\w$`])\$(?P<inline>[^$`\n]+)\$(?![\w$])", re.DOTALL)
FILM = re.compile(r"\[!\[(?P<what>[^\]]*)\]\([^)]+\)\]\((?P<film>[^)]+)\.mp4\)")
"""A picture that links to a film; beside the film lies a picture of it with the ending jpg."""
PICTURES = (".png", ".jpg", ".gif", ".webp", ".svg", ".mp4")
LANGUAGES = {".py": "python", ".toml": "toml", ".json": "json", ".yml": "yaml", ".sh": "sh"}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Make the navigation."""
    config.nav = [{"Home": "index.md"}]
    for title, table in re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", _index(), re.MULTILINE | re.DOTALL):
        pages = [name for name in re.findall(r"^\| \[.*?\]\((.*?)\)", table, re.MULTILINE)]
        config.nav.append({title: [_place("docs", page) for page in pages]})
    config.nav.append({"Reference": [_reference_page(module) for module in REFERENCE]})
    config.nav.append({"Changelog": "changelog.md"})
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not in docs/."""
    for name, place in TOP.items():
        files.append(File.generated(config, place, content=(ROOT / name).read_text()))
    for module in REFERENCE:
        content = f"# {module}\n\n::: {module}\n"
        files.append(File.generated(config, _reference_page(module), content=content))
    texts = [(posixpath.dirname(name), (ROOT / name).read_text()) for name in TOP]
    texts += [("docs", page.read_text()) for page in (ROOT / "docs").glob("*.md")]
    linked = {_inside(folder, target) for folder, text in texts for target, _ in LINK.findall(text)}
    for name in sorted(linked - {None}):
        if name.endswith(PICTURES) and not _is_page(name):
            files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
        elif not _is_page(name):
            files.append(File.generated(config, _source_page(name), content=_shown(ROOT / name)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links to files of the repository into links to their pages, and pictures of films into players."""
    place = page.file.src_uri
    if place.startswith(("reference/", "source/")):
        return markdown
    source = next((name for name, top in TOP.items() if top == place), f"docs/{place}")
    folder = posixpath.dirname(source)
    markdown = MATHEMATICS.sub(_formula, markdown)

    def relative(target: str) -> str:
        return posixpath.relpath(target, posixpath.dirname(place) or ".")

    def link(match: re.Match[str]) -> str:
        name = _inside(folder, match[1])
        if name is None:
            return match[0]
        shown = _is_page(name) or name.endswith(PICTURES)
        target = _place("", name) if shown else _source_page(name)
        return f"]({relative(target)}{match[2] or ''})"

    def player(match: re.Match[str]) -> str:
        film = relative(_place(folder, match["film"]))
        return (
            f'<video controls loop muted playsinline preload="none" width="100%" poster="{film}.jpg" '
            f'title="{match["what"]}"><source src="{film}.mp4" type="video/mp4"></video>'
        )

    return LINK.sub(link, FILM.sub(player, markdown))


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links of notebooks to other pages, which MkDocs leaves as they are, into links to the site."""
    if not page.file.src_uri.endswith(".ipynb"):
        return html
    return re.sub(r'href="([^":]+)\.(?:md|ipynb)(["#])', r'href="\1.html\2', html)


def _formula(match: re.Match[str]) -> str:
    """Return a formula as MathML, which browsers draw by themselves."""
    if match["block"]:
        return latex2mathml.converter.convert(match["block"].strip(), display="block")
    # a line of Markdown that begins with a tag of a block would end its paragraph
    return f"<span>{latex2mathml.converter.convert(match['inline'])}</span>"


def _index() -> str:
    return (ROOT / "docs/README.md").read_text()


def _inside(folder: str, target: str) -> str | None:
    """Return the path in the repository that a link names, or None for another link."""
    if "://" in target or target.startswith("mailto:"):
        return None
    name = posixpath.normpath(posixpath.join(folder, target))
    return name if (ROOT / name).exists() else None


def _is_page(name: str) -> bool:
    """Whether a path in the repository has a page of its own, or is a picture of one."""
    return name in TOP or (name.startswith("docs/") and not name.endswith(".py"))


def _place(folder: str, target: str) -> str:
    """Return the place in the site of a path in the repository."""
    name = posixpath.normpath(posixpath.join(folder, target))
    if name == "docs/README.md":
        return "index.md"
    return TOP.get(name, name.removeprefix("docs/"))


def _reference_page(module: str) -> str:
    return f"reference/{module}.md"


def _source_page(name: str) -> str:
    return f"source/{name}.md"


def _shown(path: pathlib.Path) -> str:
    """Return a page that shows a file, or what is in a folder; a search leaves it out."""
    title = f"---\nsearch: {{exclude: true}}\n---\n\n# {path.relative_to(ROOT)}\n\n"
    if path.is_dir():
        names = sorted(p.name + ("/" if p.is_dir() else "") for p in path.iterdir() if p.name[0] not in "._")
        return title + "".join(f"- `{name}`\n" for name in names)
    fence = "`````"
    return f"{title}{fence}{LANGUAGES.get(path.suffix, 'text')}\n{path.read_text()}\n{fence}\n"
