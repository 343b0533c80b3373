"""An export from saved runs to one file, one rollout in memory at a time."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gym_core.capture.images import AssetStore
from gym_core.errors import ConfigError
from gym_core.export.formats.nemo_rl import NoSequence
from gym_core.export.images import ImageMode, copy_images, with_data_urls
from gym_core.export.report import ExportedRun, ExportReport, Tally
from gym_core.export.runs import open_runs, refuse_existing, torn_warning
from gym_core.export.samples import Branches, NoSamples, read_session
from gym_core.export.writers import ExportFormat, ExportWriter, PlayedRollout, open_writer
from gym_core.rollout.output import write_json
from gym_core.rollout.saved import SavedRun
from gym_core.types.rollout import RolloutRecord

WHAT_TO_DO = {
    NoSamples.NO_CAPTURE: "their model calls are not there: a run keeps them in the folder X_captures beside X.jsonl,"
    " which has to be copied along",
    NoSamples.DAMAGED_CAPTURE: "the files of their model calls are damaged: restore X_captures, or play them again",
    NoSamples.WRONG_CAPTURE: "the files of their model calls are those of other rollouts, by the session that each call"
    " names: copy X_captures anew, with its file names",
    NoSamples.CAPTURE_INCOMPLETE: "the files of their model calls lack a call, or its end, and hold no answered one:"
    " restore X_captures, or play them again",
    NoSamples.NO_ANSWERED_CALL: "no call of theirs was answered",
    NoSamples.NO_TOKEN_IDS: "the endpoint gave no token ids or no log-probabilities: serve the policy with vLLM"
    " and run with --model-type vllm_model"
    " ++policy_model.model_servers.vllm_model.return_token_id_information=true, which refuses an endpoint without them",
    NoSamples.NO_SEQUENCE: "none of their branches that were asked for has a token to train: --branches all asks for"
    " every one",
}


@dataclass(frozen=True)
class ExportOptions:
    runs: Sequence[Path]
    output: Path
    format: ExportFormat
    branches: Branches = "main"
    images: ImageMode = ImageMode.REFERENCE
    includes_masked: bool = False
    allows_missing_manifest: bool = False
    """Samples of a run whose look at its endpoint is not known are not checked; without this it is refused."""

    @property
    def report(self) -> Path:
        """Beside the export, what it is."""
        return self.output.with_name(self.output.name + ".json")

    @property
    def images_dir(self) -> Path:
        """Of copied pictures."""
        return self.output.with_name(self.output.name + "_images")


def export_runs(options: ExportOptions) -> ExportReport:
    """Write the export and what it is. Raises ConfigError; a failed export leaves neither file, maybe pictures."""
    runs = open_runs(options.runs)
    refuse_existing(options.output, options.report)
    tally = Tally()
    tally.warnings += _warnings(runs)
    sessions: set[str] = set()
    try:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        with open_writer(options.output, options.format) as writer:
            for run in runs:
                for record in run.records():
                    _refuse_unchecked(run, options)
                    _refuse_again(record, run, sessions)
                    _export(record, run, options, writer=writer, tally=tally)
            _refuse_nothing(tally, options)
            report = _report(options, runs, tally)
            write_json(options.report, report.model_dump(mode="json"))
            writer.publish()
    except OSError as error:
        raise ConfigError(f"export to {options.output}: {error}") from error
    return report


def _refuse_again(record: RolloutRecord, run: SavedRun, sessions: set[str]) -> None:
    """A session's name is its own: it is met again only in a copy of its rollout."""
    capture = record.evidence.capture
    if capture is None:
        return
    if capture.session_id in sessions:
        raise ConfigError(
            f"export: {run.files.rollouts}: session {capture.session_id!r} was exported already: the same run twice, "
            "under two paths? Its samples would count twice"
        )
    sessions.add(capture.session_id)


def _refuse_unchecked(run: SavedRun, options: ExportOptions) -> None:
    if run.lacks is None or options.allows_missing_manifest:
        return
    raise ConfigError(
        f"export: {run.lacks}: without what the run saw of its endpoint nobody can tell whether pictures and"
        " placeholders fit, whether the prompts are garbled, or which kind of log-probabilities these are; copy"
        " the file along, or export unchecked with --allow-missing-manifest"
    )


def _warnings(runs: Sequence[SavedRun]) -> Iterator[str]:
    for run in runs:
        if run.lacks is not None:
            yield f"{run.lacks}: its samples are not checked for pictures, garbled prompts, or kind of logprobs"
        if torn := torn_warning(run):
            yield torn


def _export(
    record: RolloutRecord, run: SavedRun, options: ExportOptions, *, writer: ExportWriter, tally: Tally
) -> None:
    endpoint = run.manifest.endpoint if run.manifest else None
    reading = read_session(record, run.files.captures, run.assets, endpoint=endpoint, branches=options.branches)
    tally.rollouts += 1
    assets, samples = run.assets, reading.samples
    if options.images is ImageMode.INLINE:  # may mask one, so it comes before what is counted and left out
        samples = [with_data_urls(sample, assets) for sample in samples]
    for sample in samples:
        tally.note(sample)
    if reading.missing is not None:
        tally.without_samples[reading.missing] = tally.without_samples.get(reading.missing, 0) + 1
    samples = [sample for sample in samples if options.includes_masked or not sample.mask]
    if options.images is ImageMode.FILES:
        copy_images(samples, assets, options.images_dir)
        assets = AssetStore(options.images_dir)
    if not samples:
        return
    try:
        model = endpoint.model if endpoint else ""
        tally.rows += writer.append(PlayedRollout(record, samples, assets, run.files.captures, model))
    except NoSequence as error:
        tally.left_out[str(error)] = tally.left_out.get(str(error), 0) + 1


def _refuse_nothing(tally: Tally, options: ExportOptions) -> None:
    """Raises ConfigError when there is not one sample: what is wrong is then wrong with all of them."""
    if tally.samples:
        return
    if not tally.rollouts:
        raise ConfigError(f"export: {', '.join(map(str, options.runs))}: no finished rollouts")
    raise ConfigError(
        [
            f"export: {count} rollout{'' if count == 1 else 's'}: {WHAT_TO_DO[NoSamples(why)]}"
            for why, count in tally.without_samples.items()
        ]
    )


def _report(options: ExportOptions, runs: Sequence[SavedRun], tally: Tally) -> ExportReport:
    folder = options.output.parent.resolve()
    return ExportReport(
        format=options.format,
        branches=options.branches,
        images=options.images,
        includes_masked=options.includes_masked,
        runs=[_exported(run, options, folder) for run in runs],
        **vars(tally),
    )


def _exported(run: SavedRun, options: ExportOptions, folder: Path) -> ExportedRun:
    images = options.images_dir if options.images is ImageMode.FILES else run.files.assets
    return ExportedRun(
        path=os.path.relpath(run.files.rollouts, folder),
        run_hash=run.manifest.run_hash if run.manifest else None,
        images_dir=os.path.relpath(images, folder),
        captures_dir=os.path.relpath(run.files.captures, folder),
        endpoint=run.manifest.endpoint if run.manifest else None,
    )
