"""A comparison of two runs as lines."""

import shlex
from collections.abc import Mapping

from gym_core.cli.summary import MISSING_NOT_KNOWN, estimate_text, left_out_text
from gym_core.cli.terminal import counted, printable, table
from gym_core.types.comparison import (
    Comparison,
    FlippedTask,
    FlipSide,
    PairedDifference,
    PairedTest,
    PairedTestMethod,
    Pairing,
    RunSide,
)

_MAX_NAME_CHARACTERS = 60
_MAX_ANSWER_CHARACTERS = 30


def comparison_lines(comparison: Comparison, *, max_flips: int) -> list[str]:
    return [
        *(line for letter, side in _sides(comparison) for line in _side_lines(letter, side)),
        *difference_lines(comparison),
        *_flip_lines(comparison, max_flips),
    ]


def difference_lines(comparison: Comparison) -> list[str]:
    """The difference and all that it has to be read with."""
    warnings = [("warning" if d.is_warning else "", d.topic.value, printable(d.what)) for d in comparison.setup]
    return [
        "paired, B - A",
        *table(
            [
                ("difference", _overall_text(comparison.overall)),
                *_test_rows(comparison.test),
                *_pairing_rows(comparison.pairing),
            ]
        ),
        *(["the runs differ in", *table(warnings)] if warnings else []),
        *_groups("by category", comparison.by_category),
        *_groups("by subtype", comparison.by_subtype),
    ]


def _side_lines(letter: str, side: RunSide) -> list[str]:
    reward = side.reward
    left_out = left_out_text(reward.masked, reward.missing, reward.unmeasured_tasks)
    if reward.missing is None:
        left_out = f"{left_out or 'none masked'}, {MISSING_NOT_KNOWN}"
    torn = [f"   the last line is cut off: {side.torn_bytes} bytes were not read"] if side.torn_bytes else []
    return [
        printable(f"{letter}  {side.path}  {side.model or 'model not known'}"),
        f"   mean/reward {estimate_text(reward)}  ({counted(reward.tasks, 'task')}, "
        f"{counted(reward.rollouts, 'rollout')}; {left_out or 'none masked or missing'})",
        *torn,
    ]


def _overall_text(overall: PairedDifference) -> str:
    if overall.mean_a is None or overall.mean_b is None:
        return "not measured: no task was measured in both runs"
    means = f"mean A {overall.mean_a:.4f}, mean B {overall.mean_b:.4f} over {counted(overall.tasks, 'task')}"
    return f"{_difference_text(overall)}  ({means})"


def _difference_text(found: PairedDifference) -> str:
    if found.difference is None:
        return "not measured"
    if found.ci_low_95 is None or found.ci_high_95 is None:
        return f"{found.difference:+.4f}"
    return f"{found.difference:+.4f}  [{found.ci_low_95:+.4f}, {found.ci_high_95:+.4f}]"


def _test_rows(test: PairedTest | None) -> list[tuple[str, str]]:
    if test is None:
        return []
    how = {
        PairedTestMethod.MCNEMAR: "exact McNemar test",
        PairedTestMethod.SIGN_FLIPS: "permutation test, all sign flips",
        PairedTestMethod.SAMPLED_SIGN_FLIPS: f"permutation test, {test.resamples or 0:,} random sign flips, "
        f"seed {test.seed}",
    }[test.method]
    return [("p", f"{test.p_value:.4g}  ({how}; B better at {counted(test.gained, 'task')}, worse at {test.lost})")]


def _pairing_rows(pairing: Pairing) -> list[tuple[str, str]]:
    """How the tasks were found, and what is in no difference."""
    rows = [("pairs", f"{counted(pairing.paired, 'task')}: {pairing.by_content} by content")]
    if pairing.by_row_id:
        rows.append(("", f"{pairing.by_row_id} by the id of their row: same question and key, other request"))
    left_out = [
        (pairing.only_in_a, "only in A"),
        (pairing.only_in_b, "only in B"),
        (pairing.changed, "of one row id, but with another question or key"),
        (pairing.unmeasured_in_a, "without a measured rollout in A"),
        (pairing.unmeasured_in_b, "without a measured rollout in B"),
    ]
    rows += [("left out", f"{counted(count, 'task')} {why}") for count, why in left_out if count]
    for letter, masked, missing in (
        ("A", pairing.masked_rollouts_a, pairing.missing_rollouts_a),
        ("B", pairing.masked_rollouts_b, pairing.missing_rollouts_b),
    ):
        if masked or missing:
            rows.append((f"of pairs, in {letter}", f"{left_out_text(masked, missing, 0)} rollouts"))
    if pairing.uneven:
        rows.append(("uneven", f"{counted(pairing.uneven, 'task')} measured more often in one run than in the other"))
    return rows


def _groups(title: str, groups: Mapping[str, PairedDifference]) -> list[str]:
    rows = [
        (
            printable(name, max_characters=_MAX_NAME_CHARACTERS),
            _difference_text(found),
            f"A {found.mean_a:.4f}, B {found.mean_b:.4f}" if found.mean_a is not None else "",
            counted(found.tasks, "task"),
        )
        for name, found in groups.items()
    ]
    return [title, *table(rows)] if rows else []


def _flip_lines(comparison: Comparison, max_flips: int) -> list[str]:
    flipped = comparison.flipped
    if not flipped:
        return ["no task flipped"]
    lost = sum(flip.direction == "lost" for flip in flipped)
    head = ("", "task", "subtype", "A right", "answer", "rollout", "B right", "answer", "rollout")
    lines = [f"flipped: {lost} lost, {len(flipped) - lost} gained"]
    if max_flips:
        lines += table([head, *map(_flip_row, flipped[:max_flips])])
    if len(flipped) > max_flips:
        lines.append(f"  and {len(flipped) - max_flips} more: --flips {len(flipped)}, or --json")
    command = shlex.join(["gym", "view", comparison.a.path, comparison.b.path])
    lines.append(f"to see them: {printable(command)}")
    lines += [f"  rollouts of {letter} are at {side.address}/rollout/..." for letter, side in _sides(comparison)]
    return lines


def _sides(comparison: Comparison) -> tuple[tuple[str, RunSide], tuple[str, RunSide]]:
    return ("A", comparison.a), ("B", comparison.b)


def _flip_row(flip: FlippedTask) -> tuple[str, ...]:
    task = printable(flip.task, max_characters=_MAX_NAME_CHARACTERS)
    subtype = printable(flip.subtype or flip.category, max_characters=_MAX_NAME_CHARACTERS)
    return (flip.direction, task, subtype, *_flip_cells(flip.a), *_flip_cells(flip.b))


def _flip_cells(side: FlipSide) -> tuple[str, str, str]:
    answer = "none" if side.answer is None else f'"{printable(side.answer, max_characters=_MAX_ANSWER_CHARACTERS)}"'
    return f"{side.right} of {side.measured}", answer, side.rollout_id
