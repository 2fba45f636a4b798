"""The site of the documentation is built strictly, holds every page and public name, and needs nothing from outside."""

import doctest
import html.parser
import importlib.util
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from analyst_client.exports import public_names

ROOT = Path(__file__).resolve().parents[3]
PAGES, SITE = ROOT / "build" / "pages", ROOT / "build" / "site"
# What a browser fetches by itself, in whatever element it stands: not the `href` of a link that a reader follows.
FETCHED = {"src", "srcset", "poster", "data"}
OUTSIDE = re.compile(r"(?:[a-z][a-z0-9+.-]*:)?//", re.IGNORECASE)


def load(name: str) -> ModuleType:
    """Import a module beside the site's configuration, under a name that is nobody else's."""
    specification = importlib.util.spec_from_file_location(f"docs_site_{name}", ROOT / "docs" / "site" / f"{name}.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


class Assets(html.parser.HTMLParser):
    """Collects what a page fetches from outside of the site."""

    def __init__(self) -> None:
        super().__init__()
        self.outside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            fetched = name in FETCHED or (tag == "link" and name == "href") or (tag == "use" and name == "href")
            if fetched and value and OUTSIDE.match(value):
                self.outside.append(f"<{tag} {name}={value}>")
            if name == "style" and value and re.search(r"url\(\s*['\"]?(?:https?:)?//", value):
                self.outside.append(f"<{tag} style={value}>")


def outside_assets(page: str) -> list[str]:
    """Return what a page fetches from outside of the site."""
    assets = Assets()
    assets.feed(page)
    imports = re.findall(r"(?:@import\s+|url\(\s*)['\"]?(?:https?:)?//[^'\")\s]+", page)
    return assets.outside + imports


@pytest.fixture(scope="module")
def site() -> Path:
    ended = subprocess.run(
        [sys.executable, "docs/site/build.py"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return SITE


@pytest.mark.slow
class TestSite:
    def test_no_page_fetches_anything_from_outside(self, site: Path) -> None:
        pages = sorted(site.rglob("*.html"))
        assert len(pages) > 40
        assert {page.name: found for page in pages if (found := outside_assets(page.read_text("utf-8")))} == {}

    def test_no_style_fetches_anything_from_outside(self, site: Path) -> None:
        styles = sorted(site.rglob("*.css"))
        assert styles
        assert {path.name: found for path in styles if (found := outside_assets(path.read_text("utf-8")))} == {}

    def test_every_page_of_the_repository_is_there(self, site: Path) -> None:
        pages = [path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")]
        missing = [str(page) for page in pages if not (site / page).is_file() and page.name != "README.html"]
        assert missing == []

    def test_every_page_is_in_the_navigation(self, site: Path) -> None:
        assert site.is_dir()
        pages = [path.relative_to(PAGES).as_posix() for path in sorted(PAGES.rglob("*.md"))]
        listed = re.findall(r"^ +- .*: (\S+\.md)$", (ROOT / "mkdocs.yml").read_text("utf-8"), re.MULTILINE)
        assert sorted(listed) == [page for page in pages if not re.match(r"decisions/\d", page)]

    def test_every_public_name_is_in_the_reference(self, site: Path) -> None:
        text = "".join(page.read_text("utf-8") for page in sorted((site / "reference").glob("*.html")))
        anchors = set(re.findall(r' id="(analyst_client\.[\w.]+)"', text))
        values = [getattr(import_module(module), name) for name, module in public_names().items()]
        assert [
            f"{value.__module__}.{value.__qualname__}"
            for value in values
            if f"{value.__module__}.{value.__qualname__}" not in anchors
        ] == []

    def test_formulas_are_drawn_by_the_browser(self, site: Path) -> None:
        text = (site / "reference" / "estimators.html").read_text("utf-8")
        assert "<math" in text
        assert ":math:" not in text
        assert ".. math::" not in text

    def test_the_search_has_an_index_of_its_own(self, site: Path) -> None:
        assert "sensitivit" in (site / "search.json").read_text("utf-8")


@pytest.mark.parametrize(
    "page",
    [
        '<script src="https://cdn.example/x.js"></script>',
        '<link rel="stylesheet" href="//fonts.example/css">',
        '<img src="http://images.example/x.png">',
        '<div style="background: url(https://images.example/x.png)"></div>',
        "<style>@import 'https://fonts.example/css';</style>",
    ],
)
def test_an_asset_from_outside_would_be_seen(page: str) -> None:
    assert outside_assets(page)


def test_a_link_that_a_reader_follows_is_no_asset() -> None:
    assert outside_assets('<a href="https://semver.org/">versions</a><img src="../images/x.svg">') == []


class TestLinks:
    BUILD = load("build")

    @pytest.mark.parametrize(
        ("path", "text", "moved"),
        [
            ("README.md", "[a](docs/api.md#keys)", "[a](api.md#keys)"),
            ("README.md", "[a](docs/notebooks/first_fit.ipynb)", "[a](notebooks/first_fit.md)"),
            ("docs/cli.md", "[a](../deploy/nginx.conf)", "[a](files/deploy/nginx.conf)"),
            ("docs/api.md", "[a](../examples/curl/README.md)", "[a](examples/curl.md)"),
            ("docs/decisions/README.md", "[a](../privacy.md)", "[a](../privacy.md)"),
            ("CONTRIBUTING.md", "[a](docs/decisions)", "[a](decisions/README.md)"),
            ("README.md", "[a](https://semver.org/) [b](#install)", "[a](https://semver.org/) [b](#install)"),
            ("README.md", "```\n[a](docs/api.md)\n```", "```\n[a](docs/api.md)\n```"),
        ],
    )
    def test_a_link_holds_in_the_site(self, path: str, text: str, moved: str) -> None:
        assert self.BUILD.move_links(text, path)[0] == moved


@pytest.mark.parametrize("name", ["build", "formulas"])
def test_examples_run_as_written(name: str) -> None:
    ended = doctest.testmod(load(name))
    assert ended.attempted
    assert ended.failed == 0


class TestFormulas:
    FORMULAS = load("formulas")

    def test_a_formula_has_nothing_that_markdown_would_read(self) -> None:
        shown = self.FORMULAS.to_markdown(r"Let :math:`a_1 * b_2` be.")
        assert "<math" in shown
        assert not re.search(r"[*_`\\]", shown)

    def test_a_block_ends_where_the_next_paragraph_begins(self) -> None:
        shown = self.FORMULAS.to_markdown("One.\n\n.. math::\n\n   x^2\n\nTwo.")
        assert re.fullmatch(r"One\.\n\n<math [^\n]*display=\"block\"[^\n]*</math>\n\nTwo\.", shown)

    def test_references_are_text(self) -> None:
        assert (
            self.FORMULAS.to_markdown("By Wang [1]_.\n\n.. [1] Y.-X. Wang")
            == "By Wang \\[1\\].\n\n- \\[1\\] Y.-X. Wang"
        )
