"""What the policy says in these sessions, told by the conversation alone: `--script` of the tiny engine.

A session's number, in its prompt, decides what happens in it: which pictures it begins with, which odd things the model
writes, whether its answer is cut. The text is forced onto the model, which scores every token of it.
"""

import json
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gym_core.types.wire import JsonObject

SCENARIO = re.compile(r"Scenario (play|side|stall) (\d+)")
STALLED = re.compile(r"Scenario stall (\d+)")
"""The relay never finishes answers to these."""
MAX_OUTPUT_TOKENS = 640
"""Of one call. Answers are shorter, but for those that are meant to be cut."""
WORDS = ("look", "at", "the", "left", "edge", "then", "count", "what", "stands", "there", "and", "compare", "parts")

CROP = """python3 -c "from PIL import Image as I; i=I.open('{name}')
for n,x in(('a',{x}),('b',{y})): i.crop((x,0,x+56,56)).save(n+'.png')\""""

ASK_ASIDE = """python3 -c "
import json,urllib.request as u
o=json.load(open('/home/agent/.gym-run/opencode.json'))['provider']['policy']['options']
f={{'type':'function','function':{{'name':'bash','parameters':{{}}}}}}
for k,t in ('side',90),('side',90),('stall',2):
 d={{'max_tokens':16,'tools':[f],'messages':[{{'role':'user','content':'Scenario %s {number}'%k}}]}}
 r=u.Request(o['baseURL']+'/chat/completions',json.dumps(d).encode(),{{'Authorization':'Bearer '+o['apiKey']}})
 try:print(u.urlopen(r,timeout=t).status)
 except OSError as e:print(e)
\""""
"""Code in the sandbox talks to the policy by itself: one question twice, and one that it does not wait for."""


@dataclass(frozen=True)
class Writing:
    """How answers are written in one session."""

    number: int
    has_thoughts: bool
    rng: random.Random

    def sentence(self, words: int = 5) -> str:
        return " ".join(self.rng.choices(WORDS, k=words))

    def turn(self, said: str, *calls: str) -> str:
        thought = f"<think>\n{self.sentence()}\n</think>\n\n" if self.has_thoughts else ""
        return thought + "\n".join([said, *calls] if said else calls)


def call(name: str, arguments: JsonObject | str) -> str:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return f'<tool_call>\n{{"name": "{name}", "arguments": {text}}}\n</tool_call>'


def shell(command: str) -> str:
    return call("bash", {"command": command, "description": "work"})


def read(path: str) -> str:
    return call("read", {"filePath": f"/workspace/{path}"})


def parallel(writing: Writing) -> str:
    return writing.turn(writing.sentence(), shell("echo one"), read("a.png"), shell("echo two"))


def odd_spaces(writing: Writing) -> str:
    return writing.turn("", call("bash", '{ "description" : "w",\n  "command":"echo  a"  ,"timeout":60000 }'))


def odd_numbers(writing: Writing) -> str:
    return writing.turn(writing.sentence(), call("bash", '{"command": "echo n", "description": "w", "timeout": 6e4}'))


def escapes(writing: Writing) -> str:
    return writing.turn("", call("bash", '{"command": "echo caf\\u00e9 \\/", "description": "1.0"}'))


def equal_keys(writing: Writing) -> str:
    return writing.turn("", call("bash", '{"command": "echo k", "description": "a", "description": "b"}'))


def malformed(writing: Writing) -> str:
    return writing.turn(writing.sentence(), '<tool_call>\n{"name": "bash", "arguments": {"command": "ls\n</tool_call>')


def unknown_tool(writing: Writing) -> str:
    return writing.turn("", call("measure", {"what": "red", "size": 1.0}))


def wrong_case(writing: Writing) -> str:
    return writing.turn("", call("Bash", {"command": "echo case", "description": "w"}))


def wrong_arguments(writing: Writing) -> str:
    return writing.turn("", call("bash", '{"command": 5}'))


def cut_call(writing: Writing) -> str:
    return writing.turn(
        "", call("bash", {"command": "echo " + writing.sentence(MAX_OUTPUT_TOKENS), "description": "w"})
    )


def same_twice(writing: Writing) -> str:
    return writing.turn(writing.sentence(), read("b.png"), read("b.png"))


def aside(writing: Writing) -> str:
    return writing.turn("", shell(ASK_ASIDE.format(number=writing.number)))


MOVES: tuple[Callable[[Writing], str], ...] = (
    parallel, odd_spaces, wrong_case, aside, odd_numbers, malformed, escapes, unknown_tool, equal_keys, same_twice,
    cut_call, wrong_arguments,
)  # fmt: skip
CUT_ANSWER_EVERY = 6


def prompt_pictures(number: int) -> int:
    return 1 + number % 2


def names_of(number: int) -> list[str]:
    """Of the prompt's pictures, as the harness calls them."""
    return ["image.png"] if prompt_pictures(number) == 1 else ["image_1.png", "image_2.png"]


def turns_of(number: int, *, has_thoughts: bool) -> list[str]:
    """All that the policy says in a session, in order."""
    rng = random.Random(number)
    writing = Writing(number, has_thoughts, rng)
    names = names_of(number)
    x, y = rng.randrange(8), rng.randrange(48, 57)
    looked = ["a.png", "b.png", *(names if len(names) == 2 else [])]
    rng.shuffle(looked)
    turns = [
        writing.turn(writing.sentence(), shell(CROP.format(name=names[-1], x=x, y=y))),
        writing.turn("", *map(read, looked)),
        MOVES[number % len(MOVES)](writing),
        rng.choice(MOVES[:3])(writing),
    ]
    long = writing.sentence(MAX_OUTPUT_TOKENS) if number % CUT_ANSWER_EVERY == CUT_ANSWER_EVERY - 1 else ""
    return [*turns, writing.turn(f"{long} The answer is \\boxed{{42}} of {number}.")]


def speak(messages: Sequence[JsonObject], tools: Sequence[JsonObject] | None) -> str | None:
    return _speak(messages, has_thoughts=False)


def think_and_speak(messages: Sequence[JsonObject], tools: Sequence[JsonObject] | None) -> str | None:
    """For an engine that reads reasoning: one that never ends its thought has said nothing."""
    return _speak(messages, has_thoughts=True)


def _speak(messages: Sequence[JsonObject], *, has_thoughts: bool) -> str | None:
    """None, where the model is to speak for itself: when it is asked aside, or by nobody's session."""
    asked = " ".join(text_of(message) for message in messages if message["role"] == "user")
    found = SCENARIO.search(asked)
    if found is None or found[1] == "side":
        return None
    if found[1] == "stall":
        return " ".join(WORDS)
    turns = turns_of(int(found[2]), has_thoughts=has_thoughts)
    spoken = len([message for message in messages if message["role"] == "assistant"])
    return turns[min(spoken, len(turns) - 1)]


def text_of(message: JsonObject) -> str:
    content = message.get("content")
    if not isinstance(content, list):
        return str(content or "")
    return " ".join(str(part.get("text", "")) for part in content)
