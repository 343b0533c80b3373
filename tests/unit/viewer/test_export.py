"""The exported file holds what was asked for, opens without anything else, and runs nothing but the page."""

import base64
import hashlib
import json
import re
from pathlib import Path

import pytest

from gym_core.cli.main import main
from gym_core.errors import ConfigError
from gym_core.rollout.sink import encode_line
from gym_core.types.wire import JsonObject
from gym_core.viewer.export import ExportLimits, PageReport, export_page
from gym_core.viewer.shelf import Shelf
from gym_core.viewer.types import RolloutView, RowsPage, RunList
from tests.fakes.hostile_run import CANARY, write_hostile_run
from tests.fakes.made_run import MadeRun
from tests.fakes.made_runs import write_small_run


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> MadeRun:
    return write_small_run(tmp_path_factory.mktemp("small"), n_tasks=4)


def _export(path: Path, output: Path, *rollouts: str, image_bytes: int = 1 << 20) -> tuple[str, JsonObject, PageReport]:
    report = export_page(Shelf([path]), output, rollouts, ExportLimits(image_bytes=image_bytes))
    html = output.read_text(encoding="utf-8")
    (data,) = re.findall(r'<script type="application/json" id="data">([^<]*)</script>', html)
    return html, json.loads(data), report


def test_an_export_holds_rows_rollouts_and_pictures(small: MadeRun, tmp_path: Path) -> None:
    _, data, report = _export(small.path, tmp_path / "out.html")
    (run,) = RunList.model_validate(data["runs"]).runs
    rows = RowsPage.model_validate(data["rows"][run.id])
    views = [RolloutView.model_validate(data["rollouts"][run.id][row.id]) for row in rows.rows]
    shown = {picture.sha256 for view in views for picture in view.pictures}
    assert shown == set(data["images"])
    assert all(url.startswith("data:image/png;base64,") for url in data["images"].values())
    assert (report.rollouts, report.images) == (4, len(shown))


def test_only_the_chosen_rollouts_are_in_it(small: MadeRun, tmp_path: Path) -> None:
    chosen = json.loads(small.path.read_bytes().splitlines()[2])["_ng_rollout_id"]
    _, data, report = _export(small.path, tmp_path / "out.html", chosen)
    assert [list(rollouts) for rollouts in data["rollouts"].values()] == [[chosen]]
    assert report.rollouts == 1
    with pytest.raises(ConfigError, match="no such rollout"):
        _export(small.path, tmp_path / "none.html", "t9-r9-nobody")
    assert not (tmp_path / "none.html").exists()


def test_pictures_that_do_not_fit_are_left_out_and_counted(small: MadeRun, tmp_path: Path) -> None:
    _, data, report = _export(small.path, tmp_path / "out.html", image_bytes=8_000)
    assert sum(map(len, data["images"].values())) * 3 // 4 <= 8_000
    assert "left out" in report.warnings[0]


def test_rollouts_that_do_not_fit_are_left_out_and_it_says_so(small: MadeRun, tmp_path: Path) -> None:
    report = export_page(Shelf([small.path]), tmp_path / "out.html", (), ExportLimits(text_bytes=20_000))
    assert 0 < report.rollouts < 4
    assert "--rollout" in report.warnings[0]


def test_the_policy_names_the_one_script_and_the_one_sheet_that_are_in_it(small: MadeRun, tmp_path: Path) -> None:
    html, _, _ = _export(small.path, tmp_path / "out.html")
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', html)
    assert "unsafe" not in policy
    assert policy.startswith("default-src 'none'")
    assert "connect-src" not in policy
    for tag in ("script", "style"):
        (text,) = re.findall(rf"<{tag}(?: type=\"module\")?>(.*?)</{tag}>", html, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert not re.search(r"<(?:link|img|iframe|base|object|embed)\b", html)


def test_hostile_content_ends_no_block_and_begins_no_tag(tmp_path: Path) -> None:
    made = write_hostile_run(tmp_path / "run", huge_line_bytes=50_000)
    html, data, _ = _export(made.run.path, tmp_path / "out.html")
    (run,) = data["rollouts"].values()
    assert CANARY in json.dumps(run)
    assert len(re.findall(r"</?script", html, re.IGNORECASE)) == 4
    assert "<!--" not in html
    assert CANARY not in re.sub(r'<script type="application/json".*?</script>', "", html)
    assert "\u2028" not in html


def test_a_rollout_that_cannot_be_read_is_left_out_and_named(tmp_path: Path) -> None:
    made = write_small_run(tmp_path / "run", n_tasks=2)
    row = json.loads(made.path.read_bytes().splitlines()[0])
    lines = made.path.read_bytes().splitlines(keepends=True)
    broken = {k: v for k, v in row.items() if k != "_gym_crc32"} | {"responses_create_params": {"input": 7}}
    made.path.write_bytes(encode_line(broken) + lines[1])
    _, data, report = _export(made.path, tmp_path / "out.html")
    assert report.rollouts == 1
    assert row["_ng_rollout_id"] in report.warnings[0]


def test_the_command_writes_the_file_and_says_what_is_in_it(
    small: MadeRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "deep" / "out.html"
    assert main(["view", "--export", str(output), str(small.path)]) == 0
    assert "4 rollouts of 1 run" in capsys.readouterr().out
    assert output.is_file()
    assert main(["view", str(tmp_path / "nothing")]) == 2
    assert "no such file" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["run.jsonl", "page", "page.html.json"])
def test_a_name_that_is_no_pages_is_refused_before_anything_is_read(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["view", "--export", str(tmp_path / name), str(tmp_path / "no-run.jsonl")]) == 2
    assert "not the name of a page" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_first_of_many_runs_is_not_taken_for_the_page(small: MadeRun, tmp_path: Path) -> None:
    first, second = (tmp_path / name for name in ("first.jsonl", "second.jsonl"))
    for path in (first, second):
        path.write_bytes(small.path.read_bytes())
    assert main(["view", "--export", str(first), str(second)]) == 2
    assert first.read_bytes() == small.path.read_bytes()


@pytest.mark.parametrize("is_link", [False, True])
def test_a_page_is_written_over_nothing(
    is_link: bool, small: MadeRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "look.HTML"
    if is_link:
        output.symlink_to("nowhere")
    else:
        output.write_text("mine")
    assert main(["view", "--export", str(output), str(small.path)]) == 2
    assert "is there already" in capsys.readouterr().err
    assert is_link or output.read_text() == "mine"
    assert list(tmp_path.iterdir()) == [output]
