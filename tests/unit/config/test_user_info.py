import pytest

from gym_core.config.user_info import without_user_info


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://user:pass@host/v1", "http://****@host/v1"),
        ("'http://user:pass@host/v1'", "'http://****@host/v1'"),
        ("http://token@host/v1", "http://****@host/v1"),
        ("http://me@corp.com:pass@host/v1", "http://****@host/v1"),
        ("http://user:p@s/s w@host/v1", "http://****@host/v1"),
        ("not one: http://user:pass@host", "not one: http://****@host"),
        ("user:pass@host/v1", "****@host/v1"),
        ("http://host:8000/v1", "http://host:8000/v1"),
        ("http://host/models/a@1", "http://host/models/a@1"),
        ("me@corp.com", "me@corp.com"),
        ("python:3.11@sha256:0123", "python:3.11@sha256:0123"),
        ("registry/python:3.11@sha256:0123", "registry/python:3.11@sha256:0123"),
    ],
)
def test_names_and_passwords_in_urls_are_not_shown(text: str, shown: str) -> None:
    assert without_user_info(text) == shown
