"""In what two runs differ besides their scores: data, prompt, judge, sandbox, harness, sampling, policy, versions."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from gym_core.comparison.pairing import TaskPair
from gym_core.comparison.scored_run import ScoredRun
from gym_core.rollout.output import RunManifest, differences
from gym_core.types.comparison import SetupDifference, Topic
from gym_core.types.wire import JsonObject

_SHOWN_PATHS = 4
"""Of a topic; the manifests have the rest."""


@dataclass(frozen=True)
class _Roles:
    """The blocks of a run's identity by what they do; two runs may name them differently."""

    agent: JsonObject
    policy: JsonObject
    resources: JsonObject
    judge: JsonObject
    others: JsonObject
    """By name."""

    @classmethod
    def of(cls, manifest: RunManifest) -> "_Roles":
        blocks = {name: block for name, block in _object(manifest.identity.get("servers")).items() if _object(block)}
        agent = _first_with("model_server", blocks)
        resources = _first_with("sandbox_config", blocks)
        policy = _object(blocks.get(_named(agent.get("model_server"))))
        judge = _object(blocks.get(_named(resources.get("judge_model_server"))))
        known = (agent, resources, policy, judge)
        others = {name: block for name, block in blocks.items() if all(block is not role for role in known)}
        return cls(agent, policy, resources, judge, others)


def setup_differences(a: ScoredRun, b: ScoredRun, pairs: Sequence[TaskPair]) -> list[SetupDifference]:
    """In the order of the topics; empty when the runs differ in nothing that is known of them."""
    found = [*_of_manifests(a, b), *_of_tasks(pairs), *_of_rows(a, b)]
    order = list(Topic)
    return sorted(found, key=lambda difference: order.index(difference.topic))


def _of_manifests(a: ScoredRun, b: ScoredRun) -> Iterator[SetupDifference]:
    if a.manifest is None or b.manifest is None:
        without = " and ".join(str(run.path) for run in (a, b) if run.manifest is None)
        yield SetupDifference(topic=Topic.MANIFEST, what=f"not known of {without}: no X_run.json beside it")
        return
    sets = [sorted(_sha256s(manifest)) for manifest in (a.manifest, b.manifest)]
    if sets[0] != sets[1]:
        yield _difference(Topic.DATA, _listed(sets[0]), _listed(sets[1]))
    if a.model != b.model:
        yield _difference(Topic.POLICY, a.model or "unknown", b.model or "unknown")
    yield from _of_identities(a.manifest, b.manifest)


def _of_identities(a: RunManifest, b: RunManifest) -> Iterator[SetupDifference]:
    mine, theirs = _Roles.of(a), _Roles.of(b)
    by_topic: dict[Topic, list[str]] = {}

    def note(topic: Topic, before: JsonObject, after: JsonObject, prefix: str) -> None:
        by_topic.setdefault(topic, []).extend(differences(_filled(before), _filled(after), prefix))

    for part, topic in (("sampling", Topic.SAMPLING), ("sandboxes", Topic.SANDBOX)):
        note(topic, _object(a.identity.get(part)), _object(b.identity.get(part)), f"{part}.")
    note(Topic.HARNESS, _without_names(mine.agent), _without_names(theirs.agent), "agent.")
    note(Topic.POLICY, mine.policy, theirs.policy, "policy.")
    note(Topic.JUDGE, mine.judge, theirs.judge, "judge.")
    for topic in (Topic.JUDGE, Topic.SANDBOX):
        before, after = (_part(roles.resources, topic) for roles in (mine, theirs))
        note(topic, before, after, "resources.")
    note(Topic.SERVERS, mine.others, theirs.others, "")
    note(Topic.GYM, _only(a.identity, "gym"), _only(b.identity, "gym"), "version.")
    note(Topic.SANDBOX, _only(a.versions, "toolkit"), _only(b.versions, "toolkit"), "version.")
    for topic, paths in by_topic.items():
        if paths:
            more = f" and {len(paths) - _SHOWN_PATHS} more" if len(paths) > _SHOWN_PATHS else ""
            yield SetupDifference(topic=topic, what="; ".join(paths[:_SHOWN_PATHS]) + more)


def _of_tasks(pairs: Sequence[TaskPair]) -> Iterator[SetupDifference]:
    """What differs within tasks that are the same row of the dataset."""
    other = [pair for pair in pairs if not pair.is_same_content]
    prompts = sum(pair.a.content.prompt != pair.b.content.prompt for pair in other)
    pictures = sum(pair.a.content.pictures != pair.b.content.pictures for pair in other)
    settings = sum(pair.a.content.settings != pair.b.content.settings for pair in other)
    of = f"of {len(pairs)} paired tasks"
    if prompts:
        yield SetupDifference(topic=Topic.PROMPT, what=f"{prompts} {of} are asked in other words")
    if pictures:
        yield SetupDifference(topic=Topic.DATA, what=f"{pictures} {of} show other bytes as their pictures")
    if settings:
        yield SetupDifference(topic=Topic.SAMPLING, what=f"{settings} {of} have other tools or sampling in their rows")


def _of_rows(a: ScoredRun, b: ScoredRun) -> Iterator[SetupDifference]:
    """What the rows themselves say, whatever the manifests do."""
    if a.judges != b.judges and a.judges and b.judges:
        yield _difference(Topic.JUDGE, _judges(a.judges), _judges(b.judges))
    if a.harnesses != b.harnesses:
        yield _difference(Topic.HARNESS, _listed(sorted(a.harnesses)), _listed(sorted(b.harnesses)))


def _judges(judges: Iterable[tuple[str, str]]) -> str:
    return _listed([f"{model} (prompt {prompt[:8]})" if prompt else model for model, prompt in sorted(judges)])


def _difference(topic: Topic, before: str, after: str) -> SetupDifference:
    return SetupDifference(topic=topic, what=f"{before} in A, {after} in B")


def _listed(words: Sequence[str]) -> str:
    return ", ".join(words[:_SHOWN_PATHS]) + (" ..." if len(words) > _SHOWN_PATHS else "") if words else "none"


def _sha256s(manifest: RunManifest) -> Iterator[str]:
    for name, dataset in manifest.datasets.items():
        yield f"{name} {str(_object(dataset).get('sha256') or 'unknown')[:12]}"


def _part(resources: JsonObject, topic: Topic) -> JsonObject:
    """The fields of a resources server that are about its judge (itself being one), or about its sandboxes."""
    beginnings = ("judge", "implementation") if topic is Topic.JUDGE else ("sandbox",)
    return {key: value for key, value in _without_names(resources).items() if key.startswith(beginnings)}


def _without_names(block: JsonObject) -> JsonObject:
    return {key: value for key, value in block.items() if not key.endswith("model_server")}


def _only(versions: Mapping[str, object], name: str) -> JsonObject:
    return {name: versions[name]} if name in versions else {}


def _filled(block: JsonObject) -> JsonObject:
    """Without fields that hold nothing: an older version may not have had them at all."""
    pruned = {key: _filled(value) if isinstance(value, dict) else value for key, value in block.items()}
    return {key: value for key, value in pruned.items() if value is not None and value != [] and value != {}}


def _first_with(field: str, blocks: JsonObject) -> JsonObject:
    return next((_object(block) for block in blocks.values() if field in block), {})


def _named(reference: object) -> str:
    return str(_object(reference).get("name") or "")


def _object(value: object) -> JsonObject:
    return value if isinstance(value, dict) else {}
