"""Gather the pages of the documentation, and build them as a site.

    python docs/site/build.py

Pages stay where readers of the repository look for them, and link to each other there. Here they are copied into
build/pages, with links that hold in the site; whatever else of the repository they link to is copied beside them. A
page of the reference is written for each group of public names, and one for each notebook. Then Zensical builds
build/site, strictly: a link or an anchor that is broken ends it.
"""

import base64
import importlib
import json
import posixpath
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from analyst_client.exports import public_names

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "build" / "pages"
SITE = ROOT / "build" / "site"

PLACES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    **{f"examples/{name}/README.md": f"examples/{name}.md" for name in ("flchain", "curl", "study")},
    "r/README.md": "r.md",
    **{
        f"studies/{name}.md": f"studies/{name}.md" for name in ("README", "verdict", "literature", "overview", "rivals")
    },
}
"""Where a page outside of docs/ stands in the site."""

REFERENCE = {
    "client": ("analyst_client", "Client"),
    "curators": ("analyst_client.curators", "Several curators"),
    "kinds": ("analyst_client.kinds", "Requests, quotes and releases"),
    "estimators": ("analyst_client.estimators", "Estimators"),
    "terms": ("analyst_client.terms", "Terms of a model"),
    "analyses": ("analyst_client.analyses", "Analyses"),
    "inference": ("analyst_client.inference", "Estimates and priors"),
    "refinement": ("analyst_client.refinement", "Refinements"),
    "planning": ("analyst_client.planning", "Before spending"),
    "plots": ("analyst_client.plots", "Figures"),
    "schema": ("analyst_client.schema", "Datasets, budgets and permits"),
    "ledger": ("analyst_client.ledger", "Checks of the ledger"),
    "local": ("analyst_client.local", "Local privacy"),
    "errors": ("analyst_client.errors", "Errors and warnings"),
}
"""Pages of the reference: the public module of each, and its title."""

LINK = re.compile(r"(\]\()([^)\s#]+)((?:#[^)\s]*)?\))")
FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)


def place_of(path: str) -> str:
    """Return where a file of the repository stands in the site, which is built from Markdown."""
    if path in PLACES:
        return PLACES[path]
    if path.startswith("docs/"):
        return re.sub(r"\.ipynb$", ".md", path.removeprefix("docs/"))
    return f"files/{path}"


def move_links(text: str, path: str) -> tuple[str, set[str]]:
    """Return the text of a page with links that hold in the site, and the files of the repository that it links to.

    >>> move_links("[the words](docs/glossary.md#budget)", "README.md")
    ('[the words](glossary.md#budget)', {'docs/glossary.md'})
    """
    linked: set[str] = set()
    folder = posixpath.dirname(place_of(path)) or "."

    def move(found: re.Match[str]) -> str:
        target = found[2]
        if re.match(r"[a-z]+:", target):
            return found[0]
        file = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
        if (ROOT / file / "README.md").is_file():
            file += "/README.md"
        linked.add(file)
        return found[1] + posixpath.relpath(place_of(file), folder) + found[3]

    parts = FENCE.split(text)
    return "".join(part if part.startswith("```") else LINK.sub(move, part) for part in parts), linked


def notebook_page(path: str) -> str:
    """Return a notebook as a page; its pictures are written beside it."""
    file = ROOT / path
    parts = [f"[This page as a notebook]({file.name})"]
    notebook = json.loads(file.read_text(encoding="utf-8"))
    for number, cell in enumerate(notebook["cells"]):
        source = "".join(cell["source"])
        is_prose = cell["cell_type"] == "markdown"
        parts.append(move_links(source, path)[0] if is_prose else f"```python\n{source}\n```")
        for output in cell.get("outputs", []):
            data = output.get("data", {"text/plain": output.get("text", "")})
            if "image/png" in data:
                picture = PAGES / "notebooks" / f"{file.stem}-{number}.png"
                picture.parent.mkdir(exist_ok=True)
                picture.write_bytes(base64.b64decode(data["image/png"]))
                parts.append(f"![What the cell above draws]({picture.name})")
            elif text := "".join(data.get("text/plain", "")).rstrip():
                parts.append(f"```text\n{text}\n```")
    first, title, *rest = parts
    return "\n\n".join([title, first, *rest]) + "\n"


def reference_pages() -> Iterator[tuple[str, str]]:
    """Yield a page for each public module: every name is on one of them."""
    named = public_names()
    short = sorted(importlib.import_module("analyst_client").__all__)
    for page, (module, title) in REFERENCE.items():
        found = importlib.import_module(module)
        lines = [f"# {title}", f"Import these names from `{module}`."]
        if module == "analyst_client":
            lines.append(f"It has these names of other modules too: {', '.join(f'`{name}`' for name in short)}.")
        names = [name for name in found.__all__ if named[name] == module]
        lines += [f"::: {getattr(found, name).__module__}.{getattr(found, name).__qualname__}" for name in names]
        yield f"reference/{page}.md", "\n\n".join(lines) + "\n"


def write(place: str, text: str) -> None:
    """Write one page of the site."""
    target = PAGES / place
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")


def gather() -> None:
    """Write build/pages anew."""
    shutil.rmtree(PAGES, ignore_errors=True)
    sources = [*PLACES, *(path.relative_to(ROOT).as_posix() for path in sorted(ROOT.glob("docs/**/*.md")))]
    linked: set[str] = set()
    for path in sources:
        text, found = move_links((ROOT / path).read_text(encoding="utf-8"), path)
        write(place_of(path), text)
        linked |= found
    for file in sorted(linked - set(sources)):
        if file.endswith(".ipynb"):
            write(place_of(file), notebook_page(file))
        target = PAGES / (file.removeprefix("docs/") if file.startswith("docs/") else place_of(file))
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / file, target)
    for place, text in reference_pages():
        write(place, text)


def main() -> int:
    """Gather the pages, and build the site of them."""
    gather()
    shutil.rmtree(SITE, ignore_errors=True)
    return subprocess.run([sys.executable, "-m", "zensical", "build", "--strict"], cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
