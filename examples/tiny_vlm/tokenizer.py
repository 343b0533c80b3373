"""A byte-level BPE tokenizer of Qwen's kind, trained in seconds on text that looks like what agents send.

The text is put together here: documentation and code of the standard library, tool schemas, calls and chats. The same
Python gives the same tokenizer. What is not here: any real vocabulary, so token ids mean nothing to another model.
"""

import ast
import json
import random
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

END_OF_TEXT, END_OF_TURN, IMAGE_PAD, VIDEO_PAD = "<|endoftext|>", "<|im_end|>", "<|image_pad|>", "<|video_pad|>"
VISION_START, VISION_END = "<|vision_start|>", "<|vision_end|>"
SPECIAL_TOKENS = (
    END_OF_TEXT,
    "<|im_start|>",
    END_OF_TURN,
    "<|object_ref_start|>",
    "<|object_ref_end|>",
    "<|box_start|>",
    "<|box_end|>",
    "<|quad_start|>",
    "<|quad_end|>",
    VISION_START,
    VISION_END,
    "<|vision_pad|>",
    IMAGE_PAD,
    VIDEO_PAD,
)
"""Absent from decoded text when special tokens are skipped."""
MARKUP_TOKENS = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>")
"""One token each, and still text, as in Qwen's vocabulary."""

SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""How Qwen cuts text before merging."""

# fmt: off
MODULES = (
    "argparse", "ast", "asyncio/tasks", "asyncio/streams", "calendar", "collections/__init__", "configparser", "csv",
    "datetime", "difflib", "doctest", "email/message", "fileinput", "fractions", "functools", "glob", "heapq",
    "http/client", "http/server", "inspect", "json/decoder", "json/encoder", "logging/__init__", "mimetypes",
    "optparse", "pathlib", "pdb", "pickle", "pprint", "random", "shutil", "smtplib", "sqlite3/dump", "statistics",
    "string", "subprocess", "tarfile", "tempfile", "textwrap", "threading", "tokenize", "traceback", "types",
    "typing", "unittest/case", "urllib/parse", "urllib/request", "uuid", "webbrowser", "zipfile",
)
# fmt: on
MAX_MODULE_CHARS = 60_000
# fmt: off
PROPERTIES = (
    "path", "file_path", "filePath", "command", "description", "pattern", "content", "old_string", "new_string",
    "oldString", "newString", "replaceAll", "offset", "limit", "url", "prompt", "timeout", "workdir", "query",
    "include", "todos", "status", "priority", "subagent_type", "questions", "header", "options", "label", "multiple",
    "id", "name", "image", "x", "y", "width", "height",
)
# fmt: on
TYPES = ("string", "number", "integer", "boolean", "array", "object")
SENTENCES = (
    "You are a coding agent that helps users with software engineering tasks.",
    "Use the instructions below and the tools available to you to assist the user.",
    "IMPORTANT: You must NEVER generate or guess URLs unless you are confident that they help the user.",
    "The absolute path to the file to read, write or modify. Relative paths start at the working directory.",
    "Executes a given bash command in a persistent shell session with optional timeout, and returns its output.",
    "Fast file pattern matching tool that works with any codebase size, and returns matching file paths.",
    "Performs exact string replacements in files. The edit will FAIL if the old string is not found in the file.",
    "Use this tool to create and manage a structured task list for your current session. Mark todos as completed.",
    "Launch a new agent to handle complex, multistep tasks autonomously. Do not use it for a single file.",
    "When making changes to files, first understand the file's code conventions. Mimic code style, use existing "
    "libraries and utilities, and follow existing patterns.",
    "You should be concise, direct, and to the point. Do not add unnecessary preamble or explanation of your code.",
    "Any lines longer than 2000 characters will be truncated. Results are returned with line numbers starting at 1.",
    "Call multiple tools in a single response. If calls depend on each other, run them one after the other.",
    "If the user asks for help or wants to give feedback inform them of the following:",
    "Here is some useful information about the environment you are running in:",
    "Look at the image. What colour is the square? Answer with one word in a box, \\boxed{red}.",
    "How many circles are in the picture? The picture was cropped to the lower left corner and enlarged.",
    "Let me look at the image more closely. I will crop the region with Python and read the result.",
    "The output was truncated. Full output saved to a temporary file. Use Grep to search it or Read with an offset.",
)
COLOURS = ("red", "green", "blue", "yellow", "black", "white", "orange", "purple")


def train_tokenizer(vocab_size: int) -> Tokenizer:
    """`vocab_size` counts the special and markup tokens too; at least 512."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size - len(SPECIAL_TOKENS) - len(MARKUP_TOKENS),
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator(_corpus(), trainer)
    tokenizer.add_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL_TOKENS])
    tokenizer.add_tokens([AddedToken(token, special=False, normalized=False) for token in MARKUP_TOKENS])
    return tokenizer


def _corpus() -> Iterator[str]:
    library = Path(sysconfig.get_paths()["stdlib"])
    for name in MODULES:
        path = library / f"{name}.py"
        if not path.is_file():  # a module that this Python no longer has
            continue
        source = path.read_text(encoding="utf-8")
        yield source[:MAX_MODULE_CHARS]
        docs = "\n".join(_docstrings(source))
        yield from (docs, docs)  # prose counts more than code: prompts are mostly prose
    rng = random.Random(0)
    for _ in range(1500):
        yield _tool_schema(rng)
        yield _chat(rng)


def _docstrings(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""


def _tool_schema(rng: random.Random) -> str:
    names = rng.sample(PROPERTIES, 4)
    properties = {name: {"description": rng.choice(SENTENCES), "type": rng.choice(TYPES)} for name in names}
    parameters = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": properties,
        "required": names[:2],
        "additionalProperties": False,
    }
    function = {"name": rng.choice(PROPERTIES), "description": rng.choice(SENTENCES), "parameters": parameters}
    return json.dumps({"type": "function", "function": function})


def _chat(rng: random.Random) -> str:
    call = {"name": "bash", "arguments": {"command": f"python3 crop.py {rng.randint(0, 99)} && ls -la /work/images"}}
    colour = rng.choice(COLOURS)
    return "\n".join(
        (
            f"system\n{rng.choice(SENTENCES)} {rng.choice(SENTENCES)}",
            f"user\n{rng.choice(SENTENCES)}",
            f"assistant\n{rng.choice(SENTENCES)}\n{json.dumps(call)}",
            f"tool\nCrop saved to /tmp/crop.png\nThe answer is \\boxed{{{colour}}}. It is {colour}.",
        )
    )
