"""`gym eval rejudge` and `gym eval replay`: a saved run's answers graded again, its tasks played again without a model.

Both are runs: checked, started and followed as `gym eval run` does it.
"""

import argparse
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from gym_core.cli.selection import Selection, add_selectors
from gym_core.cli.terminal import counted, printable, say, table, tell
from gym_core.errors import ConfigError

if TYPE_CHECKING:
    from gym_core.cli.evaluate import Evaluation
    from gym_core.config.schema import RunConfig
    from gym_core.rollout.rejudged import RejudgeReport
    from gym_core.rollout.replayed import ReplayReport
    from gym_core.rollout.saved import SavedRun
    from gym_core.types.wire import JsonObject

REPLAY_MODEL = "replay_model"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_SHOWN = 12
"""Rollouts that a report names on the terminal; the file beside the run has all."""
Use = Literal["rejudge", "replay"]


@dataclass(frozen=True)
class SavedRunCommand:
    """What was asked of which saved run."""

    use: Use
    saved: "SavedRun"
    environment: str
    args: argparse.Namespace

    @classmethod
    def of(cls, use: Use, args: argparse.Namespace) -> "SavedRunCommand":
        """Raises ConfigError for a name that is none, or a path that is no saved run of one environment."""
        from gym_core.capture.images import image_urls
        from gym_core.rollout.saved import SavedRun, has_recorded_calls, known_manifest, no_recorded_calls

        if args.name is not None and not _NAME.fullmatch(args.name):
            raise ConfigError(f"{use}: --name takes letters, digits, '.', '_' and '-', not {args.name!r}")
        if args.model_type is not None:
            raise ConfigError(f"{use}: --model-type has no place here: no model is asked, the recording is the policy")
        saved = SavedRun(Path(args.run_path).expanduser().absolute())
        names, is_recorded, has_pictures = set[str](), False, False
        for record in saved.outlines():
            names.add(record.environment)
            has_pictures = has_pictures or bool(image_urls(record.task.responses_create_params))
            is_recorded = is_recorded or has_recorded_calls(record, saved)
        environments = sorted(names)
        if not environments:
            torn = f" (its last line is cut off: {saved.torn_bytes} bytes)" if saved.torn_bytes else ""
            raise ConfigError(f"{use}: {saved.files.rollouts}: no finished rollouts{torn}")
        if use == "rejudge":
            known_manifest(saved)
        elif not is_recorded:
            raise no_recorded_calls(saved)
        if len(environments) > 1:
            several = ", ".join(map(repr, environments))
            raise ConfigError(f"{use}: {saved.files.rollouts} holds rollouts of {several}: it takes one at a time")
        if saved.torn_bytes:
            tell(f"{use}: {saved.files.rollouts}: the last line is cut off: {saved.torn_bytes} bytes were not read")
        if use == "rejudge" and has_pictures and not saved.files.assets.is_dir():
            tell(f"rejudge: its pictures are missing: {saved.files.assets} is not there; copy it along if you have it")
        return cls(use, saved, environments[0], args)

    def selected(self) -> Selection:
        """What was selected, or else what the run was started with. Raises ConfigError where that is not here."""
        from gym_core.cli.recorded_selection import with_recorded

        given = Selection.of(self.args)
        if given.benchmark or given.environment or given.configs:
            return given
        argv = self.saved.manifest.argv if self.saved.manifest else []
        recorded = with_recorded(given, argv, environment=self.environment, roots=given.roots())
        if recorded is None:
            raise ConfigError(
                f"{self.use}: these rollouts are of the environment {self.environment!r}, which is no benchmark "
                "here: say where it is configured, by --benchmark, --environment or --config"
            )
        return recorded

    def evaluation(self, selected: Selection) -> "Evaluation":
        """Checked, with an output path of its own. Raises ConfigError."""
        from gym_core.cli.evaluate import plan_evaluation

        selection = self._completed(selected)
        output = self.args.output or str(self.output(self.args.name or self._default_name(selection)))
        return plan_evaluation(_with(selection, output_jsonl_fpath=output))

    def output(self, name: str) -> Path:
        done = {"rejudge": "rejudged", "replay": "replayed"}[self.use]
        rollouts = self.saved.files.rollouts
        return rollouts.with_name(f"{rollouts.stem}_{done}-{name}.jsonl")

    def _completed(self, selected: Selection) -> Selection:
        """With the recording as its policy, and what a run of this kind needs or does not."""
        use: JsonObject = {"kind": self.use, "path": str(self.saved.files.rollouts)}
        if self.use == "rejudge":
            use["only_masked"] = bool(self.args.only_masked)
        given = replace(selected, model_type=REPLAY_MODEL)
        given = _with(given, replayed_run=str(self.saved.files.rollouts), environment=self.environment, saved_run=use)
        return given if self.use == "replay" else self._without_sandbox(given)

    def _without_sandbox(self, selection: Selection) -> Selection:
        from gym_core.config.reading import ConfigReading

        run = ConfigReading(selection.compose()).run_config()
        path = _resources_path(run, self.environment)
        return _with(selection, **{f"{path}.sandbox_provider": None, f"{path}.sandbox_network_access": "none"})

    def _default_name(self, selection: Selection) -> str:
        """The same for the same configuration: what judges, or what plays."""
        from gym_core.launch.identity import environment_identity, identity_hash
        from gym_core.launch.models import policy_server

        checked = selection.check()
        environment = checked.run.environments[self.environment]
        identity = environment_identity(checked, environment)
        if self.use == "rejudge":
            played = (environment.agent_server.name, policy_server(checked, environment))
            kept = {name: block for name, block in identity["servers"].items() if name not in played}
            identity = {"servers": kept, "only_masked": bool(self.args.only_masked)}
        return identity_hash(identity)[:8]


def add_saved_run_flags(parser: argparse.ArgumentParser, use: Use) -> None:
    parser.add_argument("run_path", metavar="RUN.jsonl", help="output file of the saved run")
    if use == "rejudge":
        parser.add_argument(
            "--only-masked", action="store_true", help="judge only rows that lack nothing but their grade"
        )
    else:
        parser.add_argument("--limit", type=int, metavar="N", help="only the first N rollouts")
    parser.add_argument("--name", metavar="NAME", help="of the new run's files; default: made from the configuration")
    parser.add_argument("--output", metavar="PATH", help="where the new rollouts go, instead of beside the saved ones")
    parser.add_argument("--concurrency", type=int, metavar="N", help="++num_samples_in_parallel: rollouts in flight")
    add_selectors(parser)


def rejudge_command(args: argparse.Namespace) -> int:
    return _run("rejudge", args, _report_rejudge)


def replay_command(args: argparse.Namespace) -> int:
    return _run("replay", args, _report_replay)


def _run(use: Use, args: argparse.Namespace, report: "Callable[[SavedRunCommand, Evaluation, int], int]") -> int:
    from gym_core.launch.warmup import cool_down, warming_up

    # What cannot be had is refused before a process starts.
    command = SavedRunCommand.of(use, args)
    selected = command.selected()
    with warming_up() as warmup:
        from gym_core.cli.evaluate import REFUSED, dry_run_lines, make_ready
        from gym_core.cli.readiness import warn_of_literal_secrets
        from gym_core.cli.run import run_evaluation

        evaluation = command.evaluation(selected)
        warn_of_literal_secrets(evaluation.checked)
        _tell_differences(command, evaluation)
        if evaluation.checked.run.launch.dry_run:
            cool_down(warmup)
            for line in dry_run_lines(evaluation):
                say(line)
            return 0
        make_ready(evaluation)
    code = run_evaluation(evaluation, warmup)
    return code if code == REFUSED else report(command, evaluation, code)


def _tell_differences(command: SavedRunCommand, evaluation: "Evaluation") -> None:
    """Between the saved run and what this one does, the policy left out: it is the recording."""
    from gym_core.launch.identity import environment_identity
    from gym_core.launch.models import policy_server
    from gym_core.rollout.output import differences

    manifest = command.saved.manifest
    if manifest is None:
        tell(
            f"{command.use}: {command.saved.files.manifest} is not there: what differs from the saved run is not known"
        )
        return
    checked = evaluation.checked
    environment = checked.run.environments[command.environment]
    left_out = {policy_server(checked, environment)}
    left_out |= {environment.agent_server.name} if command.use == "rejudge" else set()

    def compared(identity: "JsonObject") -> "JsonObject":
        return {name: block for name, block in identity.get("servers", {}).items() if name not in left_out}

    for line in differences(compared(manifest.identity), compared(environment_identity(checked, environment))):
        if command.use == "replay" or ".sandbox_" not in line.partition(":")[0]:
            tell(f"{command.use}: differs: {printable(line, max_characters=300)}")


def _report_rejudge(command: SavedRunCommand, evaluation: "Evaluation", code: int) -> int:
    from gym_core.rollout.output import write_json
    from gym_core.rollout.rejudged import compare_grades

    new = _written(evaluation)
    if new is None:
        return code
    report = compare_grades(command.saved, new)
    path = _beside(new, "_changes.json")
    write_json(path, report.model_dump(mode="json"))
    for line in rejudge_lines(report):
        say(line)
    say(f"  all of them  {path}")
    return code


def rejudge_lines(report: "RejudgeReport") -> list[str]:
    lines = [f"{report.changed} of {counted(report.rows, 'grade')} changed"]
    counts = {
        "raised": report.raised,
        "lowered": report.lowered,
        "masked before, graded now": report.graded,
        "graded before, masked now": report.masked,
        "another verdict, the same reward": report.reworded,
        "still to be judged": report.missing,
    }
    lines += table([(what, str(count)) for what, count in counts.items() if count])
    rows = [(f"task {c.task_id}, repeat {c.repeat}", f"{c.before} -> {c.after}") for c in report.changes[:_SHOWN]]
    return lines + table([(printable(where), printable(what)) for where, what in rows])


def _report_replay(command: SavedRunCommand, evaluation: "Evaluation", code: int) -> int:
    """0 when all that could be replayed came out as it was, else 1; a run that did not end keeps its own code."""
    from gym_core.rollout.output import write_json
    from gym_core.rollout.replayed import compare_replay

    new = _written(evaluation)
    if new is None:
        return code
    report = compare_replay(command.saved, new, limit=evaluation.options.limit)
    path = _beside(new, "_report.json")
    write_json(path, report.model_dump(mode="json"))
    for line in replay_lines(report):
        say(line)
    say(f"  all of them  {path}")
    if code in (0, 1):
        return 0 if report.is_same else 1
    return code


def replay_lines(report: "ReplayReport") -> list[str]:
    counts = sorted(report.counts.items(), key=lambda item: -item[1])
    lines = [f"replay of {counted(len(report.rollouts), 'rollout')}"]
    lines += table([(str(outcome), str(count)) for outcome, count in counts])
    odd = [rollout for rollout in report.rollouts if rollout.detail]
    rows = [(f"task {r.task_id}, repeat {r.repeat}", str(r.outcome), r.detail) for r in odd[:_SHOWN]]
    return lines + table([(printable(where), what, printable(why)) for where, what, why in rows])


def _written(evaluation: "Evaluation") -> "SavedRun | None":
    """The new run; None when it came to nothing."""
    from gym_core.rollout.saved import SavedRun

    with suppress(ConfigError):
        return SavedRun(Path(evaluation.options.output_jsonl_fpath).expanduser().absolute())
    return None


def _beside(run: "SavedRun", ending: str) -> Path:
    return run.files.rollouts.with_name(run.files.rollouts.stem + ending)


def _with(selection: Selection, **values: object) -> Selection:
    """With overrides behind those that the user gave."""
    import json

    words = [f"++{path}={json.dumps(value)}" for path, value in values.items()]
    return replace(selection, overrides=(*selection.overrides, *words))


def _resources_path(run: "RunConfig", environment: str) -> str:
    """Dotted, of the block that grades. Raises ConfigError."""
    if environment not in run.environments:
        there = ", ".join(sorted(run.environments)) or "none"
        raise ConfigError(
            f"config: there is no environment {environment!r}, which these rollouts are of; there are: {there}"
        )
    server = run.servers.get(run.environments[environment].resources_server.name)
    if server is None:
        raise ConfigError(f"config: the resources server of {environment!r} is not configured")
    return server.path
