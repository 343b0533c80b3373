"""What a run would do, seen beforehand: nothing is started, asked of an endpoint, or written."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gym_core.config.blocks import CheckedConfig
from gym_core.config.reading import DEFAULT_METADATA
from gym_core.config.schema import EnvironmentConfig
from gym_core.launch.identity import identity_hash, needed_servers
from gym_core.launch.models import judge_server, policy_server
from gym_core.launch.plan import EnvironmentEntry, environment_entry
from gym_core.launch.run_tasks import choose_dataset, choose_environment, read_tasks
from gym_core.rollout.output import OutputFiles, RunManifest, earlier_manifest, may_be_mended
from gym_core.rollout.plan import plan_rollouts
from gym_core.rollout.saved import SavedRun
from gym_core.rollout.spending import note_failures
from gym_core.servers.resources import ResourcesServerConfig
from gym_core.statistics.spend import SpendTally, estimate_rest
from gym_core.types.cost import RestEstimate, RunPrices, TokenPrices
from gym_core.types.rollout import RolloutKey
from gym_core.types.run import RunOptions


@dataclass(frozen=True)
class ModelPreview:
    server: str
    implementation: str
    model: str
    """As the endpoint calls it; "" for a server that has none."""
    urls: Sequence[str]
    prices: TokenPrices | None


@dataclass(frozen=True)
class SandboxPreview:
    provider: str
    image: str | None
    network: str
    cpu: float
    memory_mib: int


@dataclass(frozen=True)
class ResumePreview:
    """What an output holds already."""

    kept: int = 0
    again: int = 0
    """Masked ones that are tried again."""
    done: frozenset[RolloutKey] = frozenset()


@dataclass(frozen=True)
class RunPreview:
    environment: str
    dataset: str
    path: Path
    tasks: int | None
    """None when the data is not prepared yet."""
    repeats: int
    parallel: int
    servers: Sequence[str]
    policy: ModelPreview | None
    judge: ModelPreview | None
    """None where no model grades."""
    sandbox: SandboxPreview | None
    """None where the resources server lends none."""
    output: Path
    resume: ResumePreview
    left: int | None
    """Rollouts to play; None when the data is not prepared yet."""
    estimate: RestEstimate | None = field(default=None)
    """From the rollouts that the output holds; None without one, and when nothing is left."""


def preview_run(checked: CheckedConfig, options: RunOptions) -> RunPreview:
    """Raises ConfigError for what the run would be refused for: data that is none, an output of another run."""
    entries = {name: environment_entry(checked, block) for name, block in checked.run.environments.items()}
    entry = choose_environment(entries, options.environment, options.split)
    environment = checked.run.environments[entry.name]
    dataset = choose_dataset(entry, options.split)
    path, repeats = Path(dataset.path), options.num_repeats or dataset.num_repeats
    files = OutputFiles(Path(options.output_jsonl_fpath).expanduser().absolute())
    parallel = entry.bounded_parallel(options.num_samples_in_parallel)
    tally = SpendTally(entry.prices)
    resume = _resume(files, entry, options, tally)
    tasks, left = None, None
    if path.is_file():
        found = read_tasks(dataset, limit=options.limit, sampling=checked.run.sampling)
        tasks = len(found)
        left = len(plan_rollouts(found, repeats=repeats, environment=entry.name, done=resume.done))
    return RunPreview(
        environment=entry.name,
        dataset=dataset.name,
        path=path,
        tasks=tasks,
        repeats=repeats,
        parallel=parallel,
        servers=[f"{name} ({_kind(checked, name)})" for name in needed_servers(checked)],
        policy=_model(checked, policy_server(checked, environment), entry.prices.policy),
        judge=_model(checked, judge_server(checked, environment), entry.prices.judge),
        sandbox=_sandbox(checked, environment),
        output=files.rollouts,
        resume=resume,
        left=left,
        estimate=_estimate(tally, left, parallel, entry.prices),
    )


def _resume(files: OutputFiles, entry: EnvironmentEntry, options: RunOptions, tally: SpendTally) -> ResumePreview:
    manifest = RunManifest(run_hash=identity_hash(entry.identity), identity=entry.identity)
    if earlier_manifest(files, manifest, resume=options.resume) is None:
        return ResumePreview()
    done: set[RolloutKey] = set()
    again = 0
    for record in SavedRun(files.rollouts).outlines():
        tally.note_record(record)
        if options.retry_masked and record.verification.is_masked and may_be_mended(record):
            again += 1
        else:
            done.add(record.key)
    note_failures(tally, files)
    return ResumePreview(kept=len(done), again=again, done=frozenset(done))


def _estimate(tally: SpendTally, left: int | None, parallel: int, prices: RunPrices) -> RestEstimate | None:
    return estimate_rest(tally.rollouts(), rollouts=left, parallel=parallel, prices=prices) if left else None


def _kind(checked: CheckedConfig, name: str) -> str:
    server = checked.run.servers[name]
    return f"{server.type}/{server.implementation}"


def _model(checked: CheckedConfig, name: str | None, prices: TokenPrices | None) -> ModelPreview | None:
    if name is None or name not in checked.blocks:
        return None
    fields = checked.blocks[name].model_dump(mode="json")  # secrets are masked in it
    urls = fields.get("base_url") or fields.get("openai_base_url") or []
    return ModelPreview(
        server=name,
        implementation=checked.run.servers[name].implementation,
        model=str(fields.get("model") or fields.get("openai_model") or ""),
        urls=[urls] if isinstance(urls, str) else urls,
        prices=prices,
    )


def _sandbox(checked: CheckedConfig, environment: EnvironmentConfig) -> SandboxPreview | None:
    block = checked.blocks[environment.resources_server.name]
    if not isinstance(block, ResourcesServerConfig) or not block.sandbox_provider:
        return None
    settings = block.sandbox_config
    return SandboxPreview(
        provider=next(key for key in checked.run.sandboxes[block.sandbox_provider] if key != DEFAULT_METADATA),
        image=settings.image,
        network=block.sandbox_network_access,
        cpu=settings.resources.cpu,
        memory_mib=settings.resources.memory_mib,
    )
