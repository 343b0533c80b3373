"""The Python of the sandbox: `bin/python3` and the locked packages, with no path in it that is not there inside.

With the system's interpreter the toolkit is a virtual environment: bin/python3 links to it and pyvenv.cfg lies in the
toolkit's root. A copied interpreter finds its prefix by itself, wherever the toolkit is mounted, and the packages lie
in its own site-packages; where it needs a libpython beside it, bin/python3 is a script that names the folder.
"""

import json
import shutil
from pathlib import Path

from gym_core.errors import SandboxUnavailable
from gym_core.sandbox.toolkit.interpreter import Interpreter, own_stdlib
from gym_core.sandbox.toolkit.pins import Pins
from gym_core.sandbox.toolkit.pip import install_wheels
from gym_core.sandbox.toolkit.process import run_tool

_LEFT_OUT_OF_STDLIB = shutil.ignore_patterns(
    *("test", "tests", "idlelib", "turtledemo", "tkinter", "lib2to3", "ensurepip", "site-packages", "config-*"),
    *("__pycache__", "*.a", "_tkinter*", "_test*.so"),
)
_SHARED_LIBRARY_SCRIPT = """#!/bin/sh
home="${{0%/*}}/../python"
LD_LIBRARY_PATH="$home/lib${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}" exec "$home/bin/{name}" "$@"
"""
_PROBE = """
import io, json, re, sys
import av, cv2, matplotlib.pyplot, numpy, PIL.Image, PIL.ImageDraw, scipy.ndimage, scipy.optimize, scipy.spatial
image = numpy.zeros((8, 8, 3), numpy.uint8)
assert cv2.imdecode(cv2.imencode(".png", image)[1], 1).shape == image.shape
matplotlib.pyplot.figure().savefig(io.BytesIO())
assert {"h264", "mpeg4"} <= av.codecs_available
mapped = {line.split(maxsplit=5)[5].strip() for line in open("/proc/self/maps") if re.search(r" /", line)}
print(json.dumps({"python": sys.version.split()[0], "mapped": sorted(mapped)}))
"""
_SEEN_INSIDE = ("/usr/", "/lib/", "/lib64/", "/dev/")
"""What of the host's files a sandbox sees, besides the toolkit."""


def install_python(root: Path, interpreter: Interpreter, pins: Pins, *, mount: str) -> None:
    """Fill `root`, which sandboxes will see at `mount`. Raises SandboxUnavailable."""
    if interpreter.copied_from:
        site_packages = _copy_interpreter(root, interpreter, prefix=interpreter.copied_from)
    else:
        site_packages = _link_interpreter(root, interpreter)
    (root / "bin" / "python").symlink_to("python3")
    python = root / "bin" / "python3"
    install_wheels(
        pins.lock,
        site_packages,
        # pip refuses to look into a virtual environment that it does not run in, so it is shown the interpreter itself.
        interpreter=None if interpreter.copied_from else interpreter.executable,
        what=f"installing {', '.join(pins.python_packages)}",
    )
    _prune(site_packages)
    compiled = root / "python" if interpreter.copied_from else site_packages
    # Not checked against the sources at import: the tree is read-only, and its times mean nothing.
    run_tool(
        [
            *(str(python), "-I", "-m", "compileall", "-q", "-j", "0", "--invalidation-mode", "unchecked-hash"),
            *("-s", str(root), "-p", mount, str(compiled)),
        ],
        what="compiling the Python packages",
        env={},
        timeout_s=600.0,
    )


def probe_python(root: Path) -> str:
    """Import the packages as an unprivileged user with an empty environment, and see which files that maps.

    Returns the version, of the form "3.11.2". Raises SandboxUnavailable when it fails, or when it used a file that a
    sandbox would not see.
    """
    output = run_tool(
        [str(root / "bin" / "python3"), "-I", "-B", "-c", _PROBE],
        what="importing the Python packages as a sandbox would",
        env={"MPLBACKEND": "Agg"},
        cwd=Path("/"),
        timeout_s=120.0,
        unprivileged=True,
    )
    found = json.loads(output)
    unseen = [path for path in found["mapped"] if not path.startswith((*_SEEN_INSIDE, f"{root.resolve()}/"))]
    if unseen:
        raise SandboxUnavailable(
            f"toolkit: the copied Python uses files that a sandbox does not see: {', '.join(unseen)}. "
            "Install a python3 in /usr (apt install python3), or use one that needs no library outside /usr"
        )
    return str(found["python"])


def _prune(site_packages: Path) -> None:
    """Drop the packages' own tests and scripts, and the RECORD files that list them: what is left is the same in every
    build, whichever interpreter the scripts would have named."""
    shutil.rmtree(site_packages / "bin", ignore_errors=True)
    for tests in list(site_packages.rglob("tests")):
        shutil.rmtree(tests, ignore_errors=True)  # one inside another is gone already
    for record in site_packages.glob("*.dist-info/RECORD"):
        record.unlink()


def _link_interpreter(root: Path, interpreter: Interpreter) -> Path:
    (root / "bin" / "python3").symlink_to(interpreter.executable)
    home, version = interpreter.executable.parent, interpreter.version
    (root / "pyvenv.cfg").write_text(
        f"home = {home}\ninclude-system-site-packages = false\nversion = {version}\n", "utf-8"
    )
    return root / "lib" / f"python{interpreter.version}" / "site-packages"


def _copy_interpreter(root: Path, interpreter: Interpreter, *, prefix: Path) -> Path:
    stdlib = own_stdlib()
    (root / "python" / "bin").mkdir(parents=True)
    (root / "python" / "lib").mkdir()
    shutil.copy(interpreter.executable, root / "python" / "bin")
    shutil.copytree(prefix / stdlib, root / "python" / stdlib, ignore=_LEFT_OUT_OF_STDLIB, dirs_exist_ok=True)
    libraries = list((prefix / "lib").glob(f"libpython{interpreter.version}*.so*"))
    for library in libraries:
        shutil.copy(library, root / "python" / "lib", follow_symlinks=False)
    name, entry = interpreter.executable.name, root / "bin" / "python3"
    if libraries:
        entry.write_text(_SHARED_LIBRARY_SCRIPT.format(name=name), "utf-8")
        entry.chmod(0o755)
    else:
        entry.symlink_to(f"../python/bin/{name}")
    return root / "python" / stdlib / "site-packages"
