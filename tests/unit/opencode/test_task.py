"""What a body becomes: prompt and images."""

import base64

import pytest

from agent_servers.opencode_agent.images import named_images
from agent_servers.opencode_agent.prompt import prompt_of
from gym_core.errors import InvalidTask
from gym_core.types.responses import InputImage, InputMessage, InputPart, InputText, OutputMessage, ResponsesBody
from tests.unit.opencode.pictures import data_url, picture


def asking(*parts: InputPart, **fields: str) -> ResponsesBody:
    return ResponsesBody(input=[InputMessage(role="user", content=list(parts))], **fields)  # type: ignore[arg-type]


def shown(content: bytes) -> InputImage:
    return InputImage(image_url=data_url(content))


TEXT = InputText(text="How many?")


@pytest.mark.parametrize(
    ("pictures", "names"),
    [
        ([], []),
        ([picture("PNG")], ["image.png"]),
        ([picture("JPEG")], ["image.jpg"]),
        ([picture("WEBP"), picture("PNG")], ["image_1.webp", "image_2.png"]),
        ([picture("GIF")], ["image.png"]),
    ],
)
def test_images_are_named_by_order_and_content(pictures: list[bytes], names: list[str]) -> None:
    images = named_images(asking(*map(shown, pictures), TEXT))
    assert [image.name for image in images] == names


def test_a_good_image_is_passed_on_byte_for_byte_whatever_its_url_says() -> None:
    jpeg = picture("JPEG")
    mislabelled = InputImage(image_url="data:image/png;base64," + base64.b64encode(jpeg).decode())
    (image,) = named_images(asking(mislabelled, TEXT))
    assert (image.name, image.content) == ("image.jpg", jpeg)


def test_an_uploaded_image_is_not_overwritten() -> None:
    (image,) = named_images(asking(shown(picture()), TEXT), taken=["image.png"])
    assert image.name == "task_image.png"


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com/a.png",
        "sha256:" + "0" * 64,
        "data:image/png;base64,####",
        "data:image/png;base64," + base64.b64encode(picture()[:40]).decode(),
        "data:image/svg+xml;base64," + base64.b64encode(b"<svg/>").decode(),
    ],
)
def test_an_image_that_opencode_would_choke_on_is_the_tasks_fault(url: str) -> None:
    with pytest.raises(InvalidTask, match="image"):
        named_images(asking(InputImage(image_url=url), TEXT))


def test_the_users_text_is_kept_to_the_byte() -> None:
    text = '  "quoted" \\boxed{} $HOME\n\n`x` \u00e9\U0001f600\t'
    assert prompt_of(asking(InputText(text=text))) == text


def test_instructions_come_before_the_users_text() -> None:
    system = InputMessage(role="system", content="Be brief.")
    developer = InputMessage(role="developer", content="No tricks.")
    body = ResponsesBody(
        instructions="Look.", input=[system, developer, InputMessage(role="user", content=[shown(picture()), TEXT])]
    )
    assert prompt_of(body) == "Look.\n\nBe brief.\n\nNo tricks.\n\nHow many?"


@pytest.mark.parametrize(
    "body",
    [
        ResponsesBody(input=[InputMessage(role="system", content="x")]),
        ResponsesBody(input="  "),
        asking(shown(picture())),
        ResponsesBody(input=[InputMessage(role="user", content="a"), InputMessage(role="user", content="b")]),
        ResponsesBody(input=[OutputMessage(id="1", content=[]), InputMessage(role="user", content="b")]),
    ],
)
def test_what_opencode_cannot_be_asked_is_refused(body: ResponsesBody) -> None:
    with pytest.raises(InvalidTask):
        prompt_of(body)
