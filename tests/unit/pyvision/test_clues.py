"""What the model's code finds, what it is told of what it did, and what is there again after a time-out."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from gym_core.errors import SandboxUnavailable
from gym_core.servers.python_runtime import CodeArguments, Execution
from gym_core.servers.tools import ToolError
from tests.fakes.process_sandbox import ProcessSandbox
from tests.unit.pyvision.servers import make_server, png, seeding, session_of, text_of

THREE = (png(30, 20), png(40, 10, "blue"), png(5, 50))


@pytest.fixture
def sandbox(tmp_path: Path) -> ProcessSandbox:
    return ProcessSandbox(tmp_path)


@pytest.mark.slow  # matplotlib looks for fonts
async def test_images_are_bound_by_their_number_in_the_whole_rollout(sandbox: ProcessSandbox) -> None:
    async with session_of(sandbox, *THREE) as played:
        first = await played.run(
            "print([image_clue_0.size, image_clue_1.size, image_clue_2.size], image_clue_1.getpixel((0, 0)))\n"
            "display(image_clue_0.crop((0, 0, 7, 7)))\ndisplay(image_clue_1.resize((9, 9)))"
        )
        second = await played.run("print(image_clue_3.size, image_clue_4.size, image_clue_0.size)\nimage_clue_3")
        third = await played.run("print(image_clue_5.size)\n1 / 0")
    assert text_of(first) == (
        "Text Result:\n[(30, 20), (40, 10), (5, 50)] (0, 0, 255)\nImage Result:\n<image_clue_3>\n(7x7)\n"
        "</image_clue_3>\n<image_clue_4>\n(9x9)\n</image_clue_4>"
    )
    assert text_of(second) == (
        "Text Result:\n(7, 7) (9, 9) (30, 20)\nImage Result:\n<image_clue_5>\n(7x7)\n</image_clue_5>"
    )
    raised = text_of(third)
    assert raised.startswith("Text Result (the code did not run to its end):\n(7, 7)\nTraceback")
    assert raised.endswith("ZeroDivisionError: division by zero")
    assert [reply.is_error for reply in (first, second, third)] == [False] * 3


@pytest.mark.slow  # matplotlib looks for fonts
async def test_a_figure_of_pyplot_is_shown_and_a_silent_turn_is_said_to_be_one(sandbox: ProcessSandbox) -> None:
    async with session_of(sandbox) as played:
        shown = await played.run("plt.figure(figsize=(2, 1)); plt.imshow(np.zeros((2, 2))); plt.show()")
        silent = await played.run("x = image_clue_0.size")
        kept = await played.run("print(x)")
    assert text_of(shown) == (
        "Text Result:\n(nothing was printed)\nImage Result:\n<image_clue_0>\n(200x100)\n</image_clue_0>"
    )
    assert (text_of(silent), text_of(kept)) == ("Text Result:\n(nothing was printed)", "Text Result:\n(200, 100)")


@pytest.mark.slow  # matplotlib looks for fonts
async def test_past_its_time_the_process_is_new_and_the_clues_are_there_again(sandbox: ProcessSandbox) -> None:
    async with session_of(sandbox, THREE[0], python_runtime={"timeout_s": 1.0}) as played:
        await played.run("mine = 1\ndisplay(image_clue_0.crop((0, 0, 7, 7)))\nimage_clue_0 = None")
        late = await played.run("print('so far', flush=True)\nwhile True: pass")
        after = await played.run("print(image_clue_0.size, image_clue_1.size, 'mine' in globals())")
    told = text_of(late)
    assert told.startswith("Text Result (the code did not run to its end):\nso far\n[the code did not end within 1 sec")
    assert "variables are gone" in told
    assert text_of(after) == "Text Result:\n(30, 20) (7, 7) False"


@pytest.mark.slow  # matplotlib looks for fonts
async def test_pictures_become_variables_whatever_the_models_names_are_bound_to(sandbox: ProcessSandbox) -> None:
    async with session_of(sandbox, THREE[0]) as played:
        shown = await played.run(
            "from IPython.display import display, Image\nImage = os = open = FOLDER = name = None\n"
            "def _bind_clues(*_, **__): raise SystemExit\ndisplay(image_clue_0.crop((0, 0, 7, 7)))"
        )
        after = await played.run("print(image_clue_1.size, Image, name, [n for n in globals() if 'bind' in n])")
    assert text_of(shown).endswith("<image_clue_1>\n(7x7)\n</image_clue_1>")
    assert text_of(after) == "Text Result:\n(7, 7) None None ['_bind_clues']"


@pytest.mark.slow  # matplotlib looks for fonts
async def test_a_picture_that_does_not_become_a_variable_is_said_to_be_none(sandbox: ProcessSandbox) -> None:
    async with session_of(sandbox, THREE[0]) as played:
        shown = await played.run("Image.open = None\ndisplay(image_clue_0.crop((0, 0, 7, 7)))")
    assert text_of(shown).endswith(
        "</image_clue_1>\n[image_clue_1 could not be made variables: TypeError: 'NoneType' object is not callable]"
    )
    assert not shown.is_error


def test_code_that_was_not_run_is_an_error_for_the_model() -> None:
    server = make_server()
    execution = Execution("not_run", "", (), restarted=True, notes=["the process had ended"])
    with pytest.raises(ToolError, match="the process had ended"):
        server.observe(server.make_session(seeding({"question": "?", "expected_answer": "1"})), execution)


async def test_without_a_sandbox_no_code_runs_and_the_rollout_is_masked() -> None:
    server = make_server()
    session = server.make_session(seeding({"question": "?", "expected_answer": "1"}))
    await server.begin_session(session)
    with pytest.raises(SandboxUnavailable, match="name a sandbox_provider"):
        await server.run_code(session, CodeArguments(code="1"))


def test_a_folder_of_videos_must_be_shared(tmp_path: Path) -> None:
    mount = {"source": str(tmp_path), "target": "/videos"}
    server = make_server(sandbox_config={"mounts": [mount]})
    assert server.config.shared_videos == "/videos"
    inside = make_server(sandbox_config={"mounts": [mount]}, videos_path="/videos/train")
    assert inside.config.shared_videos == "/videos/train"
    with pytest.raises(ValidationError, match="is in none of sandbox_config.mounts"):
        make_server(sandbox_config={"mounts": [mount]}, videos_path="/other")


def test_a_call_has_time_for_its_code_and_for_the_pictures_that_it_shows() -> None:
    settings = {"timeout_s": 130}
    with pytest.raises(ValidationError, match=r"tool_timeout_s: 319 is too short .* at least 320"):
        make_server(python_runtime=settings, tool_timeout_s=319)
    assert make_server(python_runtime=settings, tool_timeout_s=320)


@pytest.mark.parametrize(("rate", "turns"), [(-0.1, 3), (2.0, 3), (0.1, -1), (1.0, 30)])
def test_a_bonus_that_is_none_is_refused(rate: float, turns: int) -> None:
    with pytest.raises(ValidationError):
        make_server(tool_reward={"rate": rate, "max_turns": turns})


@pytest.mark.parametrize("config", [{"default_grader": "judge"}, {"graders": {"words": "judge"}}])
def test_a_judge_without_a_server_is_a_mistake_of_the_configuration(config: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match="needs judge_model_server"):
        make_server(**config)


async def test_without_a_judge_there_is_none_to_try() -> None:
    assert (await make_server().check_grader()).judge is None
