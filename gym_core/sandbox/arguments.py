"""What a caller hands to a sandbox, checked before anything is sent inside."""

import posixpath


def must_be_path(path: str) -> None:
    """Raises ValueError for one that is not absolute, or that no system takes."""
    must_be_clean(path)
    if not posixpath.isabs(path):
        raise ValueError(f"{path!r} is not an absolute path")


def must_be_clean(*words: str) -> None:
    """Raises ValueError for a null character, which would cut an argument short."""
    for word in words:
        if "\0" in word:
            raise ValueError(f"{word!r} holds a null character")
