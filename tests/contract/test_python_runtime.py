"""A living Python does in every provider's sandboxes what it does in one: text alone, as not all carry the toolkit."""

import asyncio

import pytest

from gym_core.errors import SandboxLost
from gym_core.sandbox.contract import Launch, Sandbox
from gym_core.servers.python_runtime import PythonRuntime, RuntimeSettings, Setup
from tests.sandboxes.registry import every_provider
from tests.sandboxes.subject import Ability, Stage

SETUP = Setup({"clue.bin": bytes(range(256))}, "clue = len(open(FOLDER + '/clue.bin', 'rb').read())")


def python_in(sandbox: Sandbox, **settings: float) -> PythonRuntime:
    return PythonRuntime(sandbox, RuntimeSettings.model_validate(settings), SETUP)


async def commands(sandbox: Sandbox) -> str:
    """Of all processes inside but this one."""
    script = "for p in /proc/[0-9]*; do tr '\\0' ' ' <$p/cmdline; echo; done 2>/dev/null"
    return (await sandbox.exec(Launch(argv=["sh", "-c", script]))).stdout.decode()


@every_provider(Ability.PROGRAMS)
async def test_variables_stay_between_pieces_of_code(stage: Stage) -> None:
    python = python_in(await stage.open())
    first = await python.run("x = 20\nprint(clue)")
    second = await python.run("import os\nprint(x + 1, os.getcwd())\nx / 0")
    await python.close()
    assert (first.outcome, first.text) == ("ok", "256\n")
    assert (second.outcome, second.text.splitlines()[0]) == ("raised", "21 /workspace")
    assert second.text.endswith("ZeroDivisionError: division by zero\n")


@every_provider(Ability.PROGRAMS)
async def test_long_code_goes_in_and_long_output_comes_back(stage: Stage) -> None:
    python = python_in(await stage.open(), max_output_chars=400_000)
    long = await python.run("text = '" + "ä" * 100_000 + "'\nprint(len(text))\nprint(text)")
    await python.close()
    assert long.text == "100000\n" + "ä" * 100_000 + "\n"


@every_provider(Ability.PROGRAMS)
async def test_past_its_time_all_that_the_code_started_is_killed(stage: Stage) -> None:
    sandbox = await stage.open()
    python = python_in(sandbox, timeout_s=1)
    late = await python.run(
        "import subprocess\nsubprocess.Popen(['sleep', '4321'], env={}, start_new_session=True)\n"
        "print('so far', flush=True)\nwhile True: pass"
    )
    left = await commands(sandbox)
    after = await python.run("print(clue)")
    await python.close()
    assert (late.outcome, late.text, late.restarted) == ("timed_out", "so far\n", True)
    assert "sleep 4321" not in left
    assert (after.outcome, after.text) == ("ok", "256\n")
    assert "_runtime_" not in await commands(sandbox)


@every_provider(Ability.PROGRAMS)
async def test_code_that_kills_all_it_can_is_told_so_and_the_next_has_a_new_process(stage: Stage) -> None:
    python = python_in(await stage.open())
    died = await python.run("import os\nos.kill(-1, 9)")
    after = await python.run("print(clue)")
    await python.close()
    assert (died.outcome, died.restarted) == ("died", True)
    assert (after.outcome, after.text) == ("ok", "256\n")


ESCAPED = """
import os, signal
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    kill = (
        "import os, time\\nme = str(os.getpid())\\nend = time.monotonic() + 20\\n"
        "while time.monotonic() < end:\\n"
        "  for p in os.listdir('/proc'):\\n"
        "    if p.isdigit() and p not in ('1', me):\\n"
        "      try: os.kill(int(p), 9)\\n"
        "      except OSError: pass\\n"
    )
    os.execvpe("python3", ["python3", "-S", "-c", kill], {"PATH": os.environ["PATH"]})
os.kill(os.getppid(), 9)
while True: pass
"""


@every_provider(Ability.PROGRAMS)
async def test_a_process_that_got_away_and_kills_all_others_is_the_codes_own_doing(stage: Stage) -> None:
    python = python_in(await stage.open(), timeout_s=5)
    first, *others = [await python.run(code) for code in (ESCAPED, "print(1)", "print(2)")]
    await python.close()
    assert first.outcome in ("died", "timed_out")
    assert {execution.outcome for execution in others} <= {"died", "not_run"}
    assert all(execution.notes for execution in others)


@every_provider(Ability.PROGRAMS)
async def test_code_that_forks_without_end_leaves_a_sandbox_that_works(stage: Stage) -> None:
    python = python_in(await stage.open(), timeout_s=3)
    bomb = await python.run("import os\nwhile True:\n  try: os.fork()\n  except OSError: pass")
    after = await python.run("print(clue)")
    await python.close()
    assert (bomb.outcome, bomb.restarted) == ("timed_out", True)
    assert (after.outcome, after.text) == ("ok", "256\n")


@every_provider(Ability.PROGRAMS)
async def test_a_call_that_is_given_up_leaves_no_result_for_the_next(stage: Stage) -> None:
    sandbox = await stage.open()
    python = python_in(sandbox)
    await python.run("x = 1")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await python.run("import time\ntime.sleep(30)\nprint('late')")
    after = await python.run("print('mine', 'x' in globals())")
    await python.close()
    assert after.text == "mine False\n"


@every_provider(Ability.PROGRAMS)
async def test_a_sandbox_that_is_gone_is_an_error_of_ours(stage: Stage) -> None:
    sandbox = await stage.open()
    python = python_in(sandbox)
    await python.run("x = 1")
    await stage.lose(sandbox)
    with pytest.raises(SandboxLost):
        await python.run("print(x)")
    await python.close()
