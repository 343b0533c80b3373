"""What goes wrong by the caller's doing."""


class BadRequest(ValueError):
    """Answered with HTTP 400 and this message, in vLLM's shape."""
