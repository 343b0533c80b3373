"""Whether a call's answer was forced into a form: its log-probabilities are then not those of the policy alone."""

from gym_core.types.wire import JsonObject

_GRAMMARS = frozenset(
    {
        "structured_outputs",
        "guided_json",
        "guided_regex",
        "guided_choice",
        "guided_grammar",
        "guided_whitespace_pattern",
    }
)
"""vLLM's fields for a grammar, the older ones too."""
_FREE_CHOICES = (None, "auto", "none")
_FREE_FORMATS = (None, "text")


def is_constrained(sampling: JsonObject) -> bool:
    """By what was sent with the call. vLLM masks the logits of a grammar before it takes even its "raw" values: they
    were seen 12 nats off. A forced tool and a response format are grammars too."""
    if any(sampling.get(name) is not None for name in _GRAMMARS):
        return True
    form = sampling.get("response_format")
    kind = form.get("type") if isinstance(form, dict) else form
    return sampling.get("tool_choice") not in _FREE_CHOICES or kind not in _FREE_FORMATS
