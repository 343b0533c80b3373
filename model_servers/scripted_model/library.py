"""The solvers as the policy needs them: which question each is for, and its source as a shell command."""

import ast
import posixpath
import re
from dataclasses import dataclass
from functools import cache
from importlib import resources

_SOLVERS_PACKAGE = "model_servers.scripted_model.solvers"
_PICTURE_NAME = "finding.png"
_FOOTER = """
import json, os
PICTURE = {picture!a}
if os.path.exists(PICTURE): os.remove(PICTURE)
print(json.dumps({{"answer": solve({path!a}, {question!a}), "picture": PICTURE if os.path.exists(PICTURE) else None}}))
"""

_SESSION_FOOTER = """
import json, os, tempfile
clue_folder = tempfile.mkdtemp()
clue, PICTURE = os.path.join(clue_folder, "clue.png"), os.path.join(clue_folder, {picture!a})
{image}.save(clue)
print(json.dumps({{"answer": solve(clue, {question!a}), "picture": None}}))
if os.path.exists(PICTURE): Image.open(PICTURE).show()
"""


@dataclass(frozen=True)
class Solver:
    name: str
    """The module's name, such as "count_clusters"."""
    purpose: str
    """First line of the module's docstring."""
    question: re.Pattern[str]
    source: str

    def command(self, *, path: str, question: str) -> str:
        """A bash command that runs the solver on the image at `path` and prints one JSON line with its finding.

        The solver's picture, if it draws one, lies beside the image.
        """
        picture = posixpath.join(posixpath.dirname(path), _PICTURE_NAME)
        # !a in the footer keeps path and question on one line of ASCII, so they cannot end the heredoc.
        program = self.source + _FOOTER.format(picture=picture, path=path, question=question)
        return f"python3 - <<'END_OF_PROGRAM'\n{program}END_OF_PROGRAM"

    def session_code(self, *, image: str, question: str) -> str:
        """Python for a process in which the image is a variable; its one JSON line is the finding.

        The solver's picture, if it draws one, is shown.
        """
        return self.source + _SESSION_FOOTER.format(picture=_PICTURE_NAME, image=image, question=question)


@cache
def solvers() -> tuple[Solver, ...]:
    """Every solver of the folder, by name. Raises ValueError for a module that does not keep the contract."""
    folder = resources.files(_SOLVERS_PACKAGE)
    sources = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".py"))
    return tuple(
        _read_solver(name.removesuffix(".py"), (folder / name).read_text(encoding="utf-8"))
        for name in sources
        if name != "__init__.py"
    )


def solver_for(text: str) -> Solver | None:
    """The first solver whose question occurs in the text."""
    return next((solver for solver in solvers() if solver.question.search(text)), None)


def _read_solver(name: str, source: str) -> Solver:
    """Reads the module without running it: its imports need not exist here."""
    module = ast.parse(source)
    for node in module.body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "QUESTION" for t in node.targets):
            purpose = (ast.get_docstring(module) or name).splitlines()[0]
            return Solver(name, purpose, re.compile(ast.literal_eval(node.value)), source)
    raise ValueError(f"solver {name!r} has no QUESTION")
