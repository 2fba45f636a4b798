"""Settings of the environment: a password that comes as a file."""

from pathlib import Path

import pytest
from pydantic import ValidationError
from sqlalchemy import make_url

from curator_service.settings import Settings


def test_a_password_in_a_file_is_that_of_the_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = tmp_path / "secret"
    secret.write_text("p@ss/word:%\n", encoding="utf-8")
    monkeypatch.setenv("CURATOR_DATABASE_URL", "postgresql://curator_app@database:5432/curator?sslmode=require")
    monkeypatch.setenv("CURATOR_DATABASE_PASSWORD_FILE", str(secret))
    settings = Settings()
    url = make_url(settings.url)
    assert (url.username, url.password, url.host, url.query) == (
        "curator_app",
        "p@ss/word:%",
        "database",
        {"sslmode": "require"},
    )
    assert "p@ss" not in repr(settings)


@pytest.mark.parametrize("content", [None, "", " \n"])
def test_a_password_file_that_is_not_there_or_empty_is_refused_by_its_name(tmp_path: Path, content: str | None) -> None:
    secret = tmp_path / "secret"
    if content is not None:
        secret.write_text(content, encoding="utf-8")
    with pytest.raises(ValidationError, match="database_password_file"):
        Settings(database_password_file=secret)
