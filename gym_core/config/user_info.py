"""Names and passwords in URLs: no value that is shown keeps them, whatever the field that it was written into."""

import re

_USER_INFO = re.compile(
    r"(://)(?:[^\s/?#:]*:.*|[^\s/?#]+)@(?!sha\d+:)"  # name:password or a bare name, after a scheme
    r"|^(['\"]?)[^\s/?#:@'\"]*:(?!//).*@(?!sha\d+:)"  # name:password without one, at the start
)
"""A password may hold a slash or an "@" that should have been escaped, so it ends at the last "@". A container image by
digest (`name:tag@sha256:...`) looks like one, and is none."""


def without_user_info(text: str) -> str:
    """Text with `****` in place of the user name and password of each URL in it."""
    return _USER_INFO.sub(r"\1\2****@", text)
