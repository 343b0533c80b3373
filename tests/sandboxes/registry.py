"""Every provider under test. A new one is a module beside this one with a `Subject`, and a line here."""

import pytest

from tests.sandboxes.containers import DOCKER
from tests.sandboxes.embedded import LOCAL
from tests.sandboxes.memory import FAKE
from tests.sandboxes.opensandbox import OPENSANDBOX, OPENSANDBOX_BY_HEART, OPENSANDBOX_FAKED
from tests.sandboxes.subject import Ability

SUBJECTS = (
    FAKE,
    FAKE.leased(),
    LOCAL,
    LOCAL.leased(),
    DOCKER,
    DOCKER.leased(),
    OPENSANDBOX_BY_HEART,
    OPENSANDBOX_FAKED,
    OPENSANDBOX_FAKED.leased(),
    OPENSANDBOX,
)


def every_provider(*needed: Ability) -> pytest.MarkDecorator:
    """Run a test, which takes `stage`, once for each; those that cannot do what is needed are skipped, and say why."""
    return pytest.mark.parametrize("stage", [subject.as_param(needed) for subject in SUBJECTS], indirect=True)


def real_providers(*needed: Ability) -> pytest.MarkDecorator:
    """Those that make real sandboxes, used directly: for what they do to this machine, not how they are lent."""
    subjects = [subject for subject in SUBJECTS if subject.is_live and not subject.name.startswith("leased")]
    return pytest.mark.parametrize("stage", [subject.as_param(needed) for subject in subjects], indirect=True)
