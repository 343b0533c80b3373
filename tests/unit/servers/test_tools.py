"""Tools in a resources server, over its own routes on a real socket."""

import asyncio
import io
import json
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from PIL import Image

from gym_core.capture.images import parse_data_url
from gym_core.errors import EpisodeError, FailureKind, InvalidTask, SessionError
from gym_core.http.client import ServiceClient
from gym_core.servers.tool_threads import ToolThreads
from gym_core.servers.tools import MAX_ARGUMENT_CHARS, schema_of
from gym_core.types.responses import InputImage, InputText
from gym_core.types.tool import ToolAccess, ToolReply, ToolRequest
from tests.fakes.tools import CutArguments, ToolHouse, tool_house
from tests.unit.opencode.pictures import picture

WIDE = picture(size=(20, 10))


@pytest.fixture
async def house() -> AsyncIterator[ToolHouse]:
    async with tool_house() as found:
        yield found


def client_of(house: ToolHouse, access: ToolAccess, token: str | None = None) -> ServiceClient:
    return house.pool.service(access.url, token or access.token)


async def ask(
    house: ToolHouse, access: ToolAccess, name: str, arguments: object = None, call_id: str = "c1"
) -> ToolReply:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments or {})
    asked = ToolRequest(call_id=call_id, name=name, arguments=text)
    raw = await client_of(house, access).call_raw("POST", "/tools", asked.model_dump_json().encode())
    return ToolReply.from_json(raw)


async def put(house: ToolHouse, access: ToolAccess, index: object, content: bytes = WIDE) -> None:
    await client_of(house, access).call_raw("PUT", f"/images/{index}", content)


def told(reply: ToolReply) -> str:
    return "\n".join(part.text for part in reply.content if isinstance(part, InputText))


def sizes(reply: ToolReply) -> list[tuple[int, int]]:
    urls = [part.image_url for part in reply.content if isinstance(part, InputImage)]
    return [Image.open(io.BytesIO(parse_data_url(url))).size for url in urls]


async def test_a_session_is_told_its_tools_with_their_schemas(house: ToolHouse) -> None:
    access = await house.seed()
    cut = access.functions[0]
    assert (cut.name, access.needs_images) == ("cut", True)
    assert cut.parameters == {
        "additionalProperties": False,
        "properties": {
            "left": {"description": "left edge", "maximum": 1, "minimum": 0, "type": "number"},
            "title": {"default": "", "type": "string"},
        },
        "required": ["left"],
        "type": "object",
    }
    assert schema_of(CutArguments) == cut.parameters


async def test_a_tool_sees_the_prompts_image_and_gives_another(house: ToolHouse) -> None:
    access = await house.seed()
    await put(house, access, 0)
    reply = await ask(house, access, "cut", {"left": 0.5})
    assert (sizes(reply), told(reply), reply.is_error) == ([(11, 10)], "from 9", False)


async def test_a_call_that_is_asked_again_runs_once_and_gives_the_same(house: ToolHouse) -> None:
    access = await house.seed()
    await put(house, access, 0)
    first = await ask(house, access, "cut", {"left": 0.5})
    assert await ask(house, access, "cut", {"left": 0.5}) == first
    assert house.server.ran == ["cut"]
    await ask(house, access, "cut", {"left": 0.5}, call_id="c2")
    assert house.server.ran == ["cut", "cut"]


async def test_a_call_whose_caller_left_is_found_running(house: ToolHouse) -> None:
    access = await house.seed()
    left = asyncio.ensure_future(ask(house, access, "wait"))
    while not house.server.ran:  # noqa: ASYNC110 - it happens in the server
        await asyncio.sleep(0.001)
    left.cancel()
    await asyncio.gather(left, return_exceptions=True)
    house.server.go_on.set()
    assert told(await ask(house, access, "wait")) == "waited"
    assert house.server.ran == ["wait"]


async def test_an_id_is_good_for_one_call(house: ToolHouse) -> None:
    access = await house.seed()
    await ask(house, access, "refuse")
    with pytest.raises(SessionError, match="another call") as caught:
        await ask(house, access, "finish")
    assert caught.value.kind is FailureKind.SESSION_CONFLICT


@pytest.mark.parametrize(
    ("name", "arguments", "says"),
    [
        ("fly", {}, "there is no tool 'fly'; there are: cut, wait, toil, refuse, break, blow, finish"),
        ("cut", "{", "the arguments of cut do not fit: "),
        ("cut", "[1]", "the arguments of cut do not fit: "),
        ("cut", "", "left: Field required"),
        ("cut", {"left": 2}, "left: Input should be less than or equal to 1"),
        ("cut", {"left": 0, "rigth": 1}, "rigth: Extra inputs are not permitted"),
        ("cut", '{"left": NaN}', "left: Input should be a finite number"),
        ("cut", "[" * 5000, "the arguments of cut do not fit: "),
        ("cut", json.dumps({"left": 0, "title": "x" * MAX_ARGUMENT_CHARS}), "longer than"),
        ("cut", {"left": "\ud800"}, "the arguments of cut do not fit: "),
        ("refuse", {}, "Error: not today"),
        ("blow", {}, "an image of 4000x4001 pixels is too large"),
    ],
)
async def test_a_models_mistake_is_told_to_the_model(house: ToolHouse, name: str, arguments: object, says: str) -> None:
    reply = await ask(house, await house.seed(), name, arguments)
    assert reply.is_error
    assert says in told(reply)
    assert (len(told(reply)) < 1200, sizes(reply), house.server.ran) == (True, [], [])


async def test_a_tool_that_breaks_is_our_failure(house: ToolHouse) -> None:
    access = await house.seed()
    with pytest.raises(EpisodeError, match=r"tool 'break' broke: KeyError") as caught:
        await ask(house, access, "break")
    assert caught.value.kind is FailureKind.VERIFIER_ERROR
    with pytest.raises(EpisodeError, match="broke"):  # cut without an image on the shelf
        await ask(house, access, "cut", {"left": 0}, call_id="c2")


async def test_a_tool_that_takes_too_long_is_our_failure() -> None:
    async with tool_house(tool_timeout_s=0.01) as house:
        with pytest.raises(EpisodeError, match=r"no result within 0.01 s") as caught:
            await ask(house, await house.seed(), "wait")
        assert caught.value.kind is FailureKind.VERIFIER_ERROR


async def test_a_call_that_takes_as_long_as_the_model_asks_for_is_told_to_the_model() -> None:
    async with tool_house(tool_timeout_s=0.01) as house:
        access = await house.seed()
        late = await ask(house, access, "toil")
        assert (late.is_error, told(late)[:42]) == (True, "Error: toil had no result within 0.01 s: a")
        # Its thread goes on, so nothing else of the session runs beside it.
        behind = await ask(house, access, "toil", call_id="c2")
        assert (behind.is_error, "still runs" in told(behind), house.server.ran) == (True, True, ["toil"])


async def test_a_session_goes_on_when_the_late_call_is_done() -> None:
    async with tool_house(tool_timeout_s=0.1) as house:
        access = await house.seed()
        assert (await ask(house, access, "toil")).is_error
        house.server.rest.set()
        # On a busy machine a thread alone may take that long.
        said = [told(await ask(house, access, "toil", call_id=f"c{n}")) for n in range(2, 12)]
        assert "toiled" in said


async def test_a_late_call_takes_no_thread_from_the_server() -> None:
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    async with tool_house(tool_timeout_s=0.05) as house, asyncio.timeout(10):
        first, second = [await house.seed(name) for name in ("s1", "s2")]
        assert (await ask(house, first, "toil")).is_error
        await put(house, second, 0)
        assert (await ask(house, second, "toil")).is_error
        assert house.server.ran == ["toil", "toil"]


async def test_a_call_that_never_began_is_our_failure() -> None:
    async with tool_house(tool_timeout_s=0.05) as house:
        house.server.threads = ToolThreads(1)
        first, second = [await house.seed(name) for name in ("s1", "s2")]
        assert (await ask(house, first, "toil")).is_error
        with pytest.raises(EpisodeError, match=r"all 1 threads of tools were busy for 0.05 s") as caught:
            await ask(house, second, "toil")
        assert (caught.value.kind, house.server.ran) == (FailureKind.VERIFIER_ERROR, ["toil"])


async def test_a_call_has_its_whole_time_from_when_a_thread_is_free() -> None:
    async with tool_house(tool_timeout_s=0.3) as house:
        house.server.threads = ToolThreads(1)
        held, clock = threading.Event(), asyncio.get_running_loop().time
        await house.server.threads.start(held.wait, 30, timeout_s=1)
        behind = asyncio.ensure_future(ask(house, await house.seed(), "toil"))
        await asyncio.wait([behind], timeout=0.05)
        freed = clock()
        held.set()
        assert "ask for less" in told(await behind)
        assert clock() - freed >= 0.3


async def test_a_tool_may_end_the_episode(house: ToolHouse) -> None:
    reply = await ask(house, await house.seed(), "finish")
    assert (told(reply), reply.ends) == ("bye", True)


async def test_nothing_of_a_refused_output_stays_on_the_shelf(house: ToolHouse) -> None:
    access = await house.seed()
    await ask(house, access, "blow")
    await put(house, access, 0)  # would be refused behind an image of a tool
    assert sizes(await ask(house, access, "cut", {"left": 0}, call_id="c2")) == [(20, 10)]


@pytest.mark.parametrize("limits", [{"max_images": 2}, {"max_bytes": 2 * len(WIDE)}])
async def test_a_full_shelf_is_told_to_the_model(limits: dict[str, int]) -> None:
    async with tool_house(tool_images=limits) as house:
        access = await house.seed()
        await put(house, access, 0)
        replies = [await ask(house, access, "cut", {"left": 0}, call_id=f"c{n}") for n in range(4)]
        assert [reply.is_error for reply in replies][-1]
        assert "no more fit" in told(replies[-1])


@pytest.mark.parametrize("content", [b"", b"GIF89a", WIDE[:40], b"<svg/>"])
async def test_a_prompt_image_that_is_none_is_the_tasks_fault(house: ToolHouse, content: bytes) -> None:
    with pytest.raises(InvalidTask, match="image 0"):
        await put(house, await house.seed(), 0, content)


async def test_a_prompt_image_of_too_many_pixels_is_refused_before_it_is_decoded() -> None:
    async with tool_house(tool_images={"max_pixels": 100}) as house:
        with pytest.raises(InvalidTask, match="20x10 pixels"):
            await put(house, await house.seed(), 0)


async def test_prompt_images_come_once_and_in_order(house: ToolHouse) -> None:
    access = await house.seed()
    await put(house, access, 0)
    await put(house, access, 0)
    for index, content in ((2, WIDE), (0, picture(color="blue"))):
        with pytest.raises(SessionError):
            await put(house, access, index, content)
    for path in ("-1", "x", "1e3", "99999999"):
        with pytest.raises(ValueError, match="no number"):
            await put(house, access, path)


async def test_a_token_is_good_for_its_session_alone(house: ToolHouse) -> None:
    one, two = await house.seed("s1"), await house.seed("s2")
    assert one.token != two.token
    for token in (two.token, "run-token", "x"):
        with pytest.raises(SessionError):
            await client_of(house, one, token).call_raw("PUT", "/images/0", WIDE)
    with pytest.raises(SessionError):
        await client_of(house, one, two.token).call_raw(
            "POST", "/tools", ToolRequest(call_id="c", name="finish", arguments="").model_dump_json().encode()
        )


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b'{"call_id": "a/b", "name": "cut", "arguments": ""}'])
async def test_a_request_that_is_no_call_is_refused(house: ToolHouse, body: bytes) -> None:
    access = await house.seed()
    reply = await client_of(house, access).send("POST", "/tools", body=body)
    assert reply.status == 422
