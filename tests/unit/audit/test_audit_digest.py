"""The digest of the audited code: what changes it, and what docs/audit.md must say."""

from pathlib import Path

import pytest

from audit.core import CORE_PAGE, MissingPathError
from audit.digest import PAGE, audited_files, code_digest, digest_line, is_current

CORE = """
## The guarantee

### Noise

- `curator_service/privacy/`
- `curator_service/kit/db.py`

## Beside it

- `curator_service/app.py`
"""
NAMES = ["audit", "curator_service/privacy", "curator_service/kit/db.py"]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a small tree with every audited place."""
    for name in [*NAMES, "curator_service/app.py"]:
        path = tmp_path / name if name.endswith(".py") else tmp_path / name / "part.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# {name}\n")
    (tmp_path / CORE_PAGE).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / CORE_PAGE).write_text(CORE)
    (tmp_path / PAGE).write_text(f"# Audit\n\n{digest_line(code_digest(tmp_path))}\n")
    return tmp_path


def test_a_named_path_that_does_not_exist_is_refused(tree: Path) -> None:
    page = tree / CORE_PAGE
    for gone in ("curator_service/privacy/gone.py", "curator_service/gone/"):
        page.write_text(CORE.replace("curator_service/app.py", gone))
        with pytest.raises(MissingPathError, match=gone):
            audited_files(tree)


def test_the_audit_is_of_itself_too(tree: Path) -> None:
    assert audited_files(tree) == ["audit/part.py", "curator_service/kit/db.py", "curator_service/privacy/part.py"]


def test_the_page_is_current_while_nothing_changes(tree: Path) -> None:
    assert is_current(tree)


@pytest.mark.parametrize("name", NAMES)
def test_changed_code_makes_the_page_old(tree: Path, name: str) -> None:
    path = tree / name if name.endswith(".py") else tree / name / "part.py"
    path.write_text(path.read_text() + "'words'\n\n")
    assert is_current(tree)  # words are no code
    path.write_text(path.read_text() + "x = 1\n")
    assert not is_current(tree)


def test_a_new_a_moved_and_a_missing_file_make_the_page_old(tree: Path) -> None:
    folder = tree / "curator_service" / "privacy"
    (folder / "deeper").mkdir()
    (folder / "deeper" / "new.py").write_text("")
    assert not is_current(tree)
    (folder / "deeper" / "new.py").unlink()
    assert is_current(tree)
    (folder / "part.py").rename(folder / "other.py")
    assert not is_current(tree)
    (folder / "other.py").unlink()
    with pytest.raises(MissingPathError):
        is_current(tree)


def test_text_that_moves_between_a_name_and_a_content_changes_the_digest(tree: Path) -> None:
    folder, before = tree / "audit", code_digest(tree)
    (folder / "part.py").unlink()
    (folder / "par.py").write_text("t.py\n")
    assert code_digest(tree) != before


def test_other_files_do_not_matter(tree: Path) -> None:
    (tree / "audit" / "notes.txt").write_text("x")
    (tree / "curator_service" / "app.py").write_text("x")
    (tree / "audit" / "__pycache__").mkdir()
    (tree / "audit" / "__pycache__" / "part.pyc").write_text("x")
    assert is_current(tree)


def test_a_page_without_one_digest_is_not_current(tree: Path) -> None:
    page = tree / PAGE
    line = page.read_text()
    page.write_text("# Audit\n")
    assert not is_current(tree)
    page.write_text(line + line)
    assert not is_current(tree)
    page.unlink()
    assert not is_current(tree)
