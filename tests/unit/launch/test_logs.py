import logging
from pathlib import Path

from gym_core.launch.logs import JsonLines, log_tail


def test_the_tail_of_a_log_reads_like_a_traceback(tmp_path: Path) -> None:
    path = tmp_path / "agent.log"
    try:
        raise RuntimeError("no disk")
    except RuntimeError as error:
        record = logging.LogRecord("any", logging.ERROR, __file__, 1, "broke", (), (type(error), error, None))
    record.__dict__["stage"] = "open"
    path.write_text(f"a word of Python's\n{JsonLines('agent').format(record)}\n[1]\n")
    assert log_tail(path).splitlines() == [
        "a word of Python's",
        "error: broke stage=open",
        "RuntimeError: no disk",
        "[1]",
    ]


def test_only_the_end_of_a_log_is_shown_and_none_is_no_error(tmp_path: Path) -> None:
    path = tmp_path / "agent.log"
    path.write_text("a" * 100 + "\nend\n")
    assert log_tail(path, max_bytes=6) == "a\nend"
    assert log_tail(tmp_path / "none.log") == ""
