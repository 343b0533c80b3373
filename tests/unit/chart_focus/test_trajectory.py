"""Outcome flags, parse outcomes and regions, from trajectories alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gym_core.statistics.regions import Region
from gym_core.types.responses import OutputItem
from resources_servers.chart_focus.runtime import FAILED, NOTHING_SHOWN
from resources_servers.chart_focus.task import ChartTask
from resources_servers.chart_focus.trajectory import RAN, ParseOutcome, ToolFlag, read_trajectory
from tests.unit.chart_focus.trajectories import BARS, FOCUS, SHOWN, TABLE, UNLISTED, misread, reply, runs, says

OK, NONE, UNKNOWN = ParseOutcome.OK, ParseOutcome.NO_TOOL, ParseOutcome.UNKNOWN
IMAGE = SHOWN[1]


@pytest.mark.parametrize(
    ("items", "parse", "flag"),
    [
        ([], NONE, 0),
        (runs(FOCUS), OK, 1),
        (runs("f = focus_on_x_values_with_mask\n" + FOCUS), OK, 1),
        (runs(UNLISTED), OK, -1),
        (runs("# focus_on_x_values_with_draw(\n" + UNLISTED), OK, -1),
        (runs("print('focus_on_x_values_with_draw()')\n" + UNLISTED), OK, -1),
        (runs("if 0:\n    " + FOCUS + "\n" + UNLISTED), OK, 1),  # what was not reached looks the same from here
        (runs("f = focus_on_x_values_with_draw\ndisplay(f(image_1, ['B'], x_values_bbox))"), OK, -1),
        (runs(FOCUS.replace("x_values", "y_values")), OK, -1),  # there, but not listed for upright bars
        (runs(FOCUS, f"{FAILED}\nKeyError: 'Z'"), OK, -10),
        (runs(FOCUS, NOTHING_SHOWN), OK, -10),
        (runs(UNLISTED, f"{FAILED}\n{RAN}"), OK, -10),
        (runs(FOCUS, [IMAGE]), OK, -10),
        (runs("display(", f"{FAILED}\nSyntaxError"), UNKNOWN, -10),
        (runs("  \n", "Error"), UNKNOWN, -10),
        (runs(FOCUS)[:1], OK, -10),  # never run
        (misread(), UNKNOWN, -10),
        (runs(FOCUS + "\n#" + "x" * 20_000), OK, -1),
    ],
)
def test_flags(items: list[OutputItem], parse: ParseOutcome, flag: int) -> None:
    played = read_trajectory(BARS, reply(says("THOUGHT 0"), *items, says("FINAL ANSWER: 20. TERMINATE")))
    assert (played.parse, played.flag) == (parse, ToolFlag(flag))


@pytest.mark.parametrize(
    ("task", "code", "regions"),
    [
        (BARS, FOCUS, [(10, 0, 20, 50)]),
        (BARS, FOCUS.replace('["B"]', '"B"'), [(10, 0, 20, 50)]),
        (BARS, "wanted = ['A', 'C']\n" + FOCUS.replace('["B"]', "wanted"), [(0, 0, 10, 50), (20, 0, 30, 50)]),
        (BARS, FOCUS.replace('["B"], ', 'names=["B"], boxes='), [(10, 0, 20, 50)]),
        (BARS, FOCUS.replace('["B"]', '["B", "Z"]'), [(10, 0, 20, 50)]),
        (BARS, FOCUS.replace('["B"]', "sorted(x_values_bbox)"), []),
        (TABLE, 'display(focus_on_rows_with_draw(image_1, ["Ann"], rows_bbox))', [(0, 20, 100, 40)]),
        (
            TABLE,
            'a = focus_on_columns_with_mask(image_1, ["Goals"], columns_bbox)\n'
            'display(focus_on_rows_with_draw(a, ["Ann"], rows_bbox))',
            [(50, 20, 100, 40)],
        ),
    ],
)
def test_regions_are_those_of_the_names_in_the_code(
    task: ChartTask, code: str, regions: list[tuple[int, int, int, int]]
) -> None:
    played = read_trajectory(task, reply(*runs(code), says("done")))
    assert list(played.focused) == [Region(*region) for region in regions]


def test_a_failed_action_focused_on_nothing() -> None:
    assert read_trajectory(BARS, reply(*runs(FOCUS, FAILED))).focused == ()


def test_many_regions_are_cut_before_they_cost_much() -> None:
    names = {f"n{i}": (i, 0, i + 1, 50) for i in range(500)}
    task = BARS.model_copy(update={"boxes": {"x_values": names}})
    code = f"n = {list(names)}\n" + "focus_on_x_values_with_draw(image_1, n, x_values_bbox)\n" * 100
    assert len(read_trajectory(task, reply(*runs(code))).focused) == 200


def test_an_answer_beside_the_action_is_told() -> None:
    early = reply(says("ACTION 0: ... FINAL ANSWER: 20"), *runs(FOCUS), says("FINAL ANSWER: 21"))
    bold = reply(says("**FINAL ANSWER**: 20"), *runs(FOCUS), says("FINAL ANSWER: 21"))
    late = reply(says("ACTION 0:"), *runs(FOCUS), says("FINAL ANSWER: 21"))
    assert [read_trajectory(BARS, each).answered_early for each in (early, bold, late)] == [True, True, False]


def test_the_first_action_counts_and_all_are_counted() -> None:
    played = read_trajectory(BARS, reply(*runs(FOCUS), says("and again"), *runs(UNLISTED)[:1]))
    assert (played.flag, played.actions) == (ToolFlag.USED, 2)


@given(st.text(alphabet=st.sampled_from("()[]{}\"'\\\n#: ,=abB_") | st.characters(), max_size=200), st.booleans())
def test_whatever_stands_in_the_code_gets_a_flag(code: str, is_called: bool) -> None:
    code = f"focus_on_x_values_with_draw(image_1, {code}, x_values_bbox)" if is_called else code
    code = code.encode("utf-8", "replace").decode()
    played = read_trajectory(BARS, reply(*runs(code)))
    assert played.flag in ToolFlag
    assert (played.parse is UNKNOWN) == (played.flag is ToolFlag.FAILED)


@pytest.mark.parametrize("code", ["(" * 10_000, "-" * 15_000 + "1", "[" * 90 + "]" * 90, "\x00", "x = '\\ud800'"])
def test_code_made_to_break_a_reader_gets_one_too(code: str) -> None:
    assert read_trajectory(BARS, reply(*runs(code))).flag in (ToolFlag.FAILED, ToolFlag.UNLISTED)


@pytest.mark.parametrize("names", ["[0x" + "f" * 5000 + "]", "[[0x" + "f" * 5000 + "]]", "[" * 80 + "1" + "]" * 80])
def test_names_that_cannot_be_written_out_are_not_known(names: str) -> None:
    code = f"{UNLISTED}\nif 0: focus_on_x_values_with_draw(image_1, {names}, x_values_bbox)"
    played = read_trajectory(BARS, reply(*runs(code), says("FINAL ANSWER: 5. TERMINATE")))
    assert (played.flag, played.focused) == (ToolFlag.USED, ())
