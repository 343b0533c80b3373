"""A run in which all that a model, a dataset, a judge or a file name may say is an attack on whoever shows it."""

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from gym_core.errors import FailureKind
from gym_core.rollout.sink import read_rows
from gym_core.types.model_call import EndpointReport
from gym_core.types.session import AgentReport
from gym_core.types.wire import JsonObject
from tests.fakes.made_run import ENDPOINT, MadeRollout, MadeRun, MadeTask
from tests.fakes.made_runs import made_picture
from tests.fakes.made_sessions import MadeTurn

CANARY = "__pwned"
"""A page in which something was executed has `window.__pwned`."""
EVIL_HOST = "evil.invalid"
"""Nothing may ask for anything there."""
SEEN = "READ-ME"
"""Stands in every attack, so that a test can tell that the text is shown at all."""

_DO = f"window.{CANARY}=1"
_SVG = f'<svg xmlns="http://www.w3.org/2000/svg" onload="{_DO}"><script>{_DO}</script><circle r="9"/></svg>'

MARKUP = (
    f"<script>{_DO}</script>",
    f"</script><script>{_DO}</script>",
    f"<!--<script>{_DO}//-->",
    f"--><script>{_DO}</script><!--",
    f"<img src=x onerror={_DO}>",
    f"\"><img src=x onerror='{_DO}'>",
    f"'><svg onload={_DO}>",
    f"<iframe srcdoc='<script>parent.{CANARY}=1</script>'></iframe>",
    f"<details open ontoggle={_DO}><summary>x</summary></details>",
    f"<input autofocus onfocus={_DO}>",
    f"<style>@import url(//{EVIL_HOST}/a.css);*{{animation:x}}</style>",
    f"<link rel=stylesheet href=//{EVIL_HOST}/b.css>",
    f"<meta http-equiv=refresh content='0;url=//{EVIL_HOST}/'>",
    f"<base href=//{EVIL_HOST}/>",
    f"<form action=//{EVIL_HOST}/><button autofocus>go</button></form>",
    f"<a href='javascript:{_DO}' id=x>x</a>",
    f"</textarea></title></style></template><script>{_DO}</script>",
    f"<math><mtext><table><mglyph><style><img src=x onerror={_DO}>",
    f"&lt;img src=x onerror={_DO}&gt;",
)
TEMPLATES = (
    f"${{{_DO}}}",
    f"{{{{constructor.constructor('{_DO}')()}}}}",
    f"`+({_DO})+`",
    f"'+({_DO})+'",
    f"\\x3cscript\\x3e{_DO}\\x3c/script\\x3e",
    f"%3Cscript%3E{_DO}%3C/script%3E",
)
LINKS = (
    f"[x](javascript:{_DO})",
    f"![x](http://{EVIL_HOST}/pixel.png)",
    f"javascript:{_DO}",
    f"data:text/html,<script>{_DO}</script>",
    f"http://{EVIL_HOST}/",
)
TERMINAL = (
    "\x1b[2J\x1b[H\x1b[31mred\x1b[0m",
    f"\x1b]8;;http://{EVIL_HOST}/\x1b\\link\x1b]8;;\x1b\\",
    "\x1b]0;title\x07\x1b]2;title\x07",
    "\x1b]52;c;cm0gLXJm\x07",
    "\x9b31mC1\x9d0;title\x9c",
    "first\rsecond\x08\x08\x7f",
    "[bold red]rich markup[/] [link=http://evil.invalid]x[/link] [/]",
)
UNICODE = (
    "\u202eRIGHT-TO-LEFT\u202c \u2066isolate\u2069 \u200fmark",
    "zero\u200bwidth\u200d\u2060\ufeff",
    "\u2028line\u2029paragraph\u0085next",
    "Z\u0351\u036b\u0343\u036a\u0302" * 40,
    "nul\x00inside",
    "\U000e0041\U000e0042tags",
)
PATHS = ("../../../../etc/passwd", "/etc/passwd", "..\\..\\windows", "file:///etc/passwd", "%2e%2e%2fetc%2fpasswd")
NAMES = ("__proto__", "constructor", "toString", "hasOwnProperty", "prototype")
"""Of columns and tools: a page that keeps them in a plain object meets its own."""

FILE_NAME = f"\"><img src=x onerror={_DO}> \x1b[31m\u202e${{7*7}} '`&amp; READ-ME"
"""Without the slash that no name may hold."""

ATTACKS = tuple(
    f"{SEEN} {n} {text}" for n, text in enumerate((*MARKUP, *TEMPLATES, *LINKS, *TERMINAL, *UNICODE, *PATHS))
)

HUGE_LINE_BYTES = 10_000_000

_HIDDEN = frozenset({"Cc", "Cf", "Zl", "Zp", "Cs", "Co", "Cn"})

SVG_PICTURE = _SVG.encode()
HTML_PICTURE = b"\x89PNG\r\n\x1a\n" + f"<html><script>{_DO}</script>{_SVG}</html>".encode()
"""It begins as a PNG, for whoever looks at the first bytes alone."""


@dataclass(frozen=True)
class HostileRun:
    run: MadeRun
    secret: Path
    """A file outside the run's folder, that its assets folder has a link to."""
    link_sha256: str
    """Name of that link."""

    def rollouts(self) -> list[str]:
        """Ids, in the order of `ATTACKS` and `NAMES`; then the huge one, the one with pictures, and the masked one."""
        return [row["_ng_rollout_id"] for row in read_rows(self.run.path)]


def write_hostile_run(folder: Path, *, huge_line_bytes: int = HUGE_LINE_BYTES, right_ones: int = 1) -> HostileRun:
    """One rollout an attack, one each of `NAMES`, one with the huge line, one with pictures that are none, one masked.

    Of the attacks every second one is right, those with odd numbers (1) or even ones (0).
    """
    run = MadeRun(
        folder,
        FILE_NAME,
        identity={"gym": SEEN, "servers": dict.fromkeys(ATTACKS[:12], ATTACKS[4])},
        endpoint=_hostile_endpoint(),
        environment=ATTACKS[4],
        argv=ATTACKS,
    )
    rollouts = [
        *_one_an_attack(right_ones),
        _with_huge_line(len(ATTACKS), huge_line_bytes),
        _with_pictures(len(ATTACKS) + 1),
    ]
    rollouts.append(_masked(len(ATTACKS) + 2))
    run.plan(rollouts)
    run.write_broken([_masked(0)])
    run.write(rollouts)
    run.finish()
    secret = folder / "secret"
    secret.write_text("SECRET-OUTSIDE")
    link = "5ec2e7" + "0" * 58
    (run.files.assets / link).symlink_to(secret)
    return HostileRun(run, secret, link)


def _hostile_endpoint() -> EndpointReport:
    return ENDPOINT.model_copy(update={"model": ATTACKS[4], "message": ATTACKS[0], "served_models": list(ATTACKS)})


def _one_an_attack(right_ones: int) -> Iterator[MadeRollout]:
    for index, attack in enumerate((*ATTACKS, *NAMES)):
        yield replace(hostile_rollout(index, attack), reward=float(index % 2 == right_ones))


def hostile_rollout(index: int, attack: str) -> MadeRollout:
    """One in which everything is that attack."""
    turns = [
        MadeTurn(
            text=attack,
            reasoning=attack,
            tool="bash",
            arguments={"command": attack, "description": attack, "filePath": attack, attack: attack},
            output=attack + "\n" + "\n".join(ATTACKS),
        ),
        MadeTurn(text=attack, tool=attack, arguments=attack, output=attack, pictures=[made_picture(index)]),
        MadeTurn(text="", tool=NAMES[index % len(NAMES)], arguments='{"command": ["not", "a", "text"]}', output=""),
        MadeTurn(text=f"{attack}\n\\boxed{{{attack}}}"),
    ]
    return MadeRollout(
        MadeTask(
            question=attack,
            gold=attack,
            picture=made_picture(index),
            category=attack,
            subtype=attack,
            task_id=attack,
            taskset=attack,
            fields={"options": [attack, attack], attack: attack, **dict.fromkeys(NAMES, attack)},
        ),
        turns,
        index=index,
        answer=attack,
        details=_hostile_details(attack),
        agent=AgentReport(
            seconds=3.0,
            tool_calls={attack: 1, "bash": 1, **dict.fromkeys(NAMES, 1)},
            notes=[attack, *NAMES],
            versions={attack: attack, "__proto__": attack},
        ),
    )


def _hostile_details(attack: str) -> JsonObject:
    verdict = '{"verdict": "' + attack + '"}'
    return {
        "judge_verdict": attack,
        "judge_reason": attack,
        "judge_raw_reply": verdict,
        "judge_model": attack,
        f"column {attack}": {"nested": [attack]},
    }


def _with_huge_line(index: int, n_bytes: int) -> MadeRollout:
    line = (f"{SEEN} <b>huge</b> \x1b[31m " * (n_bytes // 20))[:n_bytes]
    turns = [
        MadeTurn(text="a huge line", tool="bash", arguments={"command": "cat huge"}, output=line),
        MadeTurn(text="many lines", tool="bash", arguments={"command": "seq"}, output=f"{SEEN}\n" * (n_bytes // 50)),
        MadeTurn(text=line[: n_bytes // 10]),
    ]
    return MadeRollout(MadeTask(f"{SEEN} huge", "1"), turns, index=index, answer=line[:100_000])


def _with_pictures(index: int) -> MadeRollout:
    """Pictures that are programs, damaged, or somewhere else."""
    turns = [
        MadeTurn(text="svg", tool="read", arguments={"filePath": "a.svg"}, output="read", pictures=[SVG_PICTURE]),
        MadeTurn(text="html", tool="read", arguments={"filePath": "a.html"}, output="read", pictures=[HTML_PICTURE]),
        MadeTurn(text="cut", tool="read", arguments={}, output="read", pictures=[made_picture(1)[:80], b""]),
    ]
    url = f"http://{EVIL_HOST}/pixel.png"
    return MadeRollout(MadeTask(f"{SEEN} pictures", "1", image_url=url), turns, index=index, answer="1")


def _masked(index: int) -> MadeRollout:
    task = MadeTask(f"{SEEN} masked", "1", image_url=PATHS[0])
    return MadeRollout(task, [], index=index, failure=FailureKind.SANDBOX_LOST, reason=" ".join(ATTACKS)[:1900])


def hidden_in(text: str) -> set[str]:
    """Characters of a terminal's output that move its cursor, turn the direction of text, or show nothing."""
    return {char for char in text if char != "\n" and unicodedata.category(char) in _HIDDEN}
