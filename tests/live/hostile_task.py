"""One task that means harm: each thing a sandbox must contain. Standard library only; run as a file, inside.

    hostile_task.py look '[["10.0.0.1", 80], ...]'     only looks; may run anywhere
    hostile_task.py links | forks | memory | disk | flood | daemons WORD

Prints a line of JSON where it lives to tell. All but `look` would harm the machine, so they run only where the test has
put the permit, by the sandbox's own `write`, and never as root.
"""
# It is no part of the package: it runs in a sandbox, under whatever Python is there.
# ruff: noqa: PTH102, PTH113, PTH118, PTH123, PTH208, PTH211

import json
import os
import signal
import socket
import sys
import time

PERMIT = "/workspace/.gym-hostile-task-may-run-here"
FLOOD_BYTES = 1 << 30
FILLER = b"\0" * (1 << 20)
FOLDERS = ("/workspace", "/tmp", "/home/agent", "/run", "/dev/shm", "/var/tmp", "/dev", "/")


def look(doors):
    """Which of these addresses and ports let one in."""
    waiting = {}
    for host, port in doors:
        connection = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        connection.settimeout(0.5)
        try:
            connection.connect((host, port))
            waiting[connection] = [host, port]
        except OSError:
            connection.close()
    return {"reached": sorted(waiting.values())}


def links():
    """What an upload or a read of these names would follow, if anybody did."""
    os.chdir("/workspace")
    os.symlink("/etc/shadow", "answer.png")
    os.symlink("/proc/1/environ", "environ.png")
    os.symlink("/", "images")
    os.symlink("/usr/bin", "tools")
    os.symlink("endless", "endless")
    os.mkfifo("pipe.png")
    os.symlink("/dev/zero", "zero.png")
    os.mkdir("folder.png")
    return {"planted": len(os.listdir("."))}


def forks():
    """Processes that make processes, each a session of its own that ignores signals."""
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGCHLD):
        signal.signal(number, signal.SIG_IGN)
    while True:
        try:
            if os.fork() == 0:
                os.setsid()
        except OSError:
            time.sleep(0.1)


def memory():
    held = []
    try:
        while True:
            held.append(bytearray(b"x") * (8 << 20))
    except MemoryError:
        return {"refused_after_mib": len(held) * 8}


def disk():
    """Fills everything that can be written to, and leaves it full."""
    written = {}
    for folder in FOLDERS:
        count = 0
        try:
            with open(os.path.join(folder, "full"), "wb", buffering=0) as file:
                while file.write(FILLER):
                    count += 1
        except OSError:
            pass
        if count:
            written[folder] = count
    return {"written_mib": written}


def flood():
    chunk = b"y" * (1 << 16)
    for _ in range(FLOOD_BYTES // len(chunk) // 2):
        os.write(1, chunk)
        os.write(2, chunk)


def daemons(word):
    """What outlives its command: in sessions of their own, deaf to signals, holding the pipes, and busy."""
    for _ in range(3):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
                    signal.signal(number, signal.SIG_IGN)
                os.execv(sys.executable, [sys.executable, "-c", "import time\nwhile True: time.sleep(0.2)", word])
            os._exit(0)
    time.sleep(0.3)
    return {"left": 3}


def must_be_permitted():
    if not os.path.isfile(PERMIT) or os.getuid() == 0:
        sys.exit("refused: there is no permit here; this is no sandbox of the test")


def main(attack, *words):
    if attack == "look":
        print(json.dumps(look(json.loads(words[0]))))
        return
    must_be_permitted()
    told = {"links": links, "forks": forks, "memory": memory, "disk": disk, "flood": flood, "daemons": daemons}[attack](
        *words
    )
    if told is not None:
        print(json.dumps(told), flush=True)


main(*sys.argv[1:])
