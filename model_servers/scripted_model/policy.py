"""The scripted policy: look at the question, measure the image with a program, look at what came of it, answer.

A pure function of the conversation. It knows what a model in its place would know: the messages. Gold answers, task ids
and generators are out of its sight, so its score is what its solvers earn from pixels.
"""

import json
import re
from collections.abc import Sequence, Set
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, ValidationError

from model_servers.scripted_model.chat import ChatMessage, ToolCall, Turn
from model_servers.scripted_model.library import Solver, solver_for
from model_servers.scripted_model.players.contract import Player, View, boxed, guess, player_for
from model_servers.scripted_model.players.registry import PLAYERS
from model_servers.scripted_model.text_calls import TOLD, results_told

BASH = "bash"
READ = "read"
_CLUE = "image_clue_0"
"""A prompt that names it offers a Python process in which the image is a variable of that name."""

_FILE_PATH = re.compile(r'"filePath"\s*:\s*("(?:[^"\\]|\\.)*")')
_READ_PICTURES = "Attached media from tool result:"
"""How OpenCode opens the user message that carries the pictures of a `read` call: not a question of the user's."""
_AFTER_INSTRUCTION = "\n---\n"
_UNABLE = (
    "I am a scripted policy for visual puzzles: I can measure an image with a program, or guess about one I am shown. "
    "This conversation holds no image, so I cannot answer it, and I cannot grade other answers."
)


class Finding(BaseModel):
    """The JSON line that a solver prints in the sandbox."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    answer: str
    picture: str | None
    """Path in the sandbox of a picture that shows the finding."""


@dataclass(frozen=True)
class _Episode:
    """What the conversation says about where we stand."""

    prompt: str
    """Text of the user's last message, file notes included."""
    has_image: bool
    path: str | None
    """Path of the image in the sandbox, as the harness told it."""
    results: tuple[str, ...]
    """Outputs of the tool calls since that message. By count, not by tool: a harness may rename a call that failed."""
    image_urls: tuple[str, ...]
    """Of all pictures since that message began."""

    @property
    def finding(self) -> Finding | None:
        return next((found for output in reversed(self.results) if (found := _read_finding(output))), None)


def next_turn(messages: Sequence[ChatMessage], tools: Set[str], *, looks: bool = True) -> Turn:
    """The assistant's next turn, given the conversation and the names of the declared tools.

    At most one call to measure and one to look, whatever comes back, or as many as a player makes: the policy always
    ends. One that does not look guesses at once.
    """
    episode = _read_episode(messages)
    if player := player_for(PLAYERS, episode.prompt, tools):
        view = View(episode.prompt, episode.image_urls, episode.results, tools)
        return _played(player, view) if looks else player.guess(view)
    if not looks:
        return guess(episode.prompt, reason="I did not look.")
    finding = episode.finding
    if finding is not None:
        if finding.picture and READ in tools and len(episode.results) == 1:
            return _look_at(finding.picture)
        return _answer(finding, episode.prompt)
    solver = solver_for(episode.prompt)
    if solver and episode.path and BASH in tools and not episode.results:
        return _measure(solver, path=episode.path, question=episode.prompt)
    if solver and _CLUE in episode.prompt and not episode.results:
        return _measure_in_session(solver, episode.prompt)
    if not episode.has_image and not episode.path:
        return Turn(_UNABLE)
    return guess(episode.prompt, reason=_why_guessing(solver, episode, tools))


def _read_episode(messages: Sequence[ChatMessage]) -> _Episode:
    start = max((i for i, message in enumerate(messages) if _is_question(message)), default=None)
    if start is None:
        return _Episode(prompt="", has_image=False, path=None, results=(), image_urls=())
    question = messages[start]
    results = tuple(result for message in messages[start:] for result in _results_in(message))
    image_urls = tuple(url for message in messages[start:] for url in message.image_urls)
    return _Episode(question.text, question.has_image, _image_path(question.text), results, image_urls)


def _played(player: Player, view: View) -> Turn:
    try:
        return player.play(view)
    except ValueError as error:
        return guess(view.question, reason=f"I could not look at a picture: {error}.")


def _is_question(message: ChatMessage) -> bool:
    return message.role == "user" and not message.text.startswith(_READ_PICTURES) and not _is_told(message)


def _is_told(message: ChatMessage) -> bool:
    """Whether it is a user message in which a text dialect tells what came of a call."""
    return message.role == "user" and message.text.startswith(TOLD)


def _results_in(message: ChatMessage) -> list[str]:
    if message.role == "tool":
        return [message.text]
    return results_told(message.text) if _is_told(message) else []


def _image_path(prompt: str) -> str | None:
    match = _FILE_PATH.search(prompt)
    if match is None:
        return None
    try:
        return str(json.loads(match[1]))
    except ValueError:
        return None


def _read_finding(output: str) -> Finding | None:
    """The last line that is a finding: warnings may stand before it and the shell's notes after it."""
    for line in reversed(output.splitlines()):
        try:
            return Finding.model_validate_json(line)
        except ValidationError:
            continue
    return None


def _measure(solver: Solver, *, path: str, question: str) -> Turn:
    command = solver.command(path=path, question=question)
    call = ToolCall(BASH, {"command": command, "description": f"Measure the image: {solver.name}"})
    return Turn(f"I measure the image instead of trusting a glance. {solver.purpose}", (call,))


def _look_at(picture: str) -> Turn:
    return Turn("I look at the place that the program found.", (ToolCall(READ, {"filePath": picture}),))


def _measure_in_session(solver: Solver, question: str) -> Turn:
    # The instruction before it names a tag that ends the rollout wherever it stands, in code too.
    asked = question.rpartition(_AFTER_INSTRUCTION)[2]
    code = solver.session_code(image=_CLUE, question=asked)
    said = f"I measure the image instead of trusting a glance. {solver.purpose}"
    return Turn(f"{said}\n<code>\n```python\n{code}```\n</code>")


def _answer(finding: Finding, question: str) -> Turn:
    said = f"A program measured this answer from the pixels: {finding.answer}."
    return Turn(f"{said}\n\n{boxed(finding.answer, question)}")


def _why_guessing(solver: Solver | None, episode: _Episode, tools: Set[str]) -> str:
    if solver is None:
        return "I have no method for this kind of question."
    if episode.results:
        return "The program that should have measured the image did not print an answer."
    if BASH not in tools:
        return "I have a method for this question but no tool to run it with."
    return "I have a method for this question but was not told where the image file is."
