"""Why a training sample is not for training: stable words, each with its rule."""

from enum import StrEnum

from gym_core.capture import labels
from gym_core.capture.placeholders import ImageProblem
from gym_core.errors import FailureKind


class MaskReason(StrEnum):
    """In the order in which they are asked: a sample has the first one that holds."""

    ROLLOUT_MASKED = "rollout_masked"
    """The rollout has no reward; written with the failure's kind behind a colon, see `rollout_masked`."""
    CAPTURE_INCOMPLETE = "capture_incomplete"
    """A call of the session could not be kept, or its file has not as many calls as the session had: what is here may
    lack a part."""
    TEMPLATE_LEAK = "template_leak"
    """The endpoint's chat template prints list-shaped content as program text: the prompts are garbled."""
    CONSTRAINED_SAMPLING = "constrained_sampling"
    """A trained answer was forced into a form (a grammar, a response format, a certain tool), and its
    log-probabilities are not those of the policy alone."""
    CALL_INCOMPLETE = "call_incomplete"
    """A call of this sequence was answered, but some token, log-probability or end of it is not known."""
    AMBIGUOUS_RETRY = labels.AMBIGUOUS_RETRY
    """One request was answered more than once with the same words, and nothing tells which answer was gone on with."""
    IMAGE_MISSING = ImageProblem.MISSING.value
    """A picture of this sequence is not in the assets folder, or its bytes are not what its name says."""
    SAMPLED_IMAGE_PLACEHOLDER = ImageProblem.SAMPLED.value
    """The policy itself sampled a picture's placeholder: a trainer would count one picture too many."""
    IMAGE_PLACEHOLDERS_MISMATCH = ImageProblem.MISMATCH.value
    """The placeholders in the tokens are not those that the pictures need, in number, order or shape."""
    NO_TRAINED_TOKENS = "no_trained_tokens"
    """No token of it was sampled, or another sample trains them all."""


def rollout_masked(kind: FailureKind) -> str:
    """For instance "rollout_masked:judge_failed"."""
    return f"{MaskReason.ROLLOUT_MASKED}:{kind}"
