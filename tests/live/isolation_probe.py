"""Tries to get out of the sandbox that it runs in. Standard library only; run as a file, inside.

    isolation_probe.py '{"model": [ip, port], "tcp": [[ip, port, label], ...], "udp": [...], "host_pid": 1, "secret": "...",
                         "passive": false, "memory_mib": 256, "workspace_mib": 64, "pids": 64}'

Prints {check: [is_ok, why]}; a check is ok when the attempt failed the way it should. The attacks are real: run as root
outside a sandbox they would harm the machine. So they run only where the sandbox's mark is; a control run outside must
say `passive`, and gets the checks that only look.
"""
# It is no part of the package: it runs in a sandbox, under whatever Python is there.
# ruff: noqa: BLE001, E501, PTH108, PTH115, PTH123, PTH208, SIM115

import ctypes
import errno
import json
import os
import platform
import resource
import socket
import subprocess
import sys
import time

MARKS = ("/.gym_init.py", "/opt/opensandbox/execd")
"""What the providers put into each sandbox: process 1 of ours, or the daemon of OpenSandbox."""

IS_X86 = platform.machine() == "x86_64"
FILLER = b"\0" * (1 << 20)

libc = ctypes.CDLL(None, use_errno=True)


class Probe:
    def __init__(self, config):
        self.config = config
        self.results = {}

    def must_fail(self, name, attempt):
        """The attempt must raise; or return None, when nothing was to be had."""
        try:
            got = attempt()
        except (NameError, TypeError, AttributeError) as error:
            self.results[name] = [False, f"the probe is broken: {error!r}"]
        except Exception as error:
            self.results[name] = [True, f"{type(error).__name__}: {error}"[:120]]
        else:
            self.results[name] = [got is None, "nothing there" if got is None else f"got {str(got)[:120]}"]

    def must_hold(self, name, is_true, why=""):
        self.results[name] = [bool(is_true), str(why)[:120]]

    def look(self):
        try:
            answer = ask(socket.SOCK_STREAM, *self.config["model"])
            self.must_hold("model reachable", b"model" in answer, answer)
        except OSError as error:
            self.must_hold("model reachable", False, error)
        for ip, port, label in self.config["tcp"]:
            self.must_fail(f"tcp {label}", lambda ip=ip, port=port: ask(socket.SOCK_STREAM, ip, port))
        for ip, port, label in self.config["udp"]:
            self.must_fail(f"udp {label}", lambda ip=ip, port=port: ask(socket.SOCK_DGRAM, ip, port))
        self.must_fail("vsock", lambda: socket.socket(40, socket.SOCK_STREAM))
        self.must_fail("abstract socket of the host", abstract_socket)
        self.must_fail("/etc/shadow", lambda: open("/etc/shadow").read() or None)
        self.must_fail("/root", lambda: os.listdir("/root") or None)
        self.must_fail("homes", lambda: [name for name in os.listdir("/home") if name != "agent"] or None)
        self.must_fail("host process", lambda: os.readlink(f"/proc/{self.config['host_pid']}/exe"))
        self.must_fail("secret in an environment", self.find_secret)

    def find_secret(self):
        secret, hits = self.config["secret"].encode(), []
        for pid in processes():
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    if secret in file.read():
                        hits.append(pid)
            except OSError:
                continue
        return hits or None

    def attack(self):
        self.must_fail("dns", lambda: socket.getaddrinfo("example.com", 80))
        self.must_fail("raw socket", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP))
        self.must_fail("packet socket", lambda: socket.socket(17, socket.SOCK_RAW))
        self.must_fail("host path of the tests", lambda: open(self.config["host_file"]).read())
        for path in ("/proc/1/environ", "/proc/1/mem", "/proc/kcore", "/proc/kmsg"):
            self.must_fail(f"read {path}", lambda path=path: open(path, "rb").read(64) or None)
        for path in ("/gym_probe", "/usr/gym_probe", "/etc/gym_probe", "/dev/gym_probe", *MARKS):
            self.must_fail(f"write {path}", lambda path=path: write(path))
        same = open("/proc/sys/kernel/printk_ratelimit").read()
        self.must_fail("write a sysctl", lambda: write("/proc/sys/kernel/printk_ratelimit", same))
        self.must_fail("open sysrq", lambda: os.open("/proc/sysrq-trigger", os.O_WRONLY))
        self.must_fail("writable cgroup", writable_cgroup)
        self.must_fail(
            "device", lambda: [d for d in os.listdir("/dev") if d.startswith(("vd", "sd", "nvme", "kvm"))] or None
        )
        self.must_hold("few processes", len(processes()) < 12, len(processes()))
        self.kernel_calls()
        self.privileges()

    def kernel_calls(self):
        event = ctypes.create_string_buffer(b"\0\0\0\0\x70\0\0\0" + b"\0" * 112)
        numbers = {
            "mount": ((165, 40), (b"none", b"/tmp", b"tmpfs", 0, None)),
            "io_uring": ((425, 425), (4, ctypes.create_string_buffer(120))),
            "bpf": ((321, 280), (0, ctypes.create_string_buffer(72), 72)),
            "keyctl": ((250, 219), (0, -3, 1)),
            "userfaultfd": ((323, 282), (1,)),
            "perf_event": ((298, 241), (event, 0, -1, -1, 0)),
            "ptrace process 1": ((101, 117), (16, 1, 0, 0)),
        }
        for name, ((x86, arm), arguments) in numbers.items():
            self.must_fail(name, lambda n=x86 if IS_X86 else arm, a=arguments: call(n, *a))
        # Too short to be valid, so that it forks nothing where it is not refused.
        libc.syscall(435, ctypes.create_string_buffer(8), 8)
        self.must_hold("clone3 unknown", ctypes.get_errno() == errno.ENOSYS, errno.errorcode[ctypes.get_errno()])
        self.must_fail("user namespace", lambda: subprocess.run(["unshare", "-Ur", "true"], check=True, stderr=-3))
        self.must_fail("kill process 1", lambda: (os.kill(1, 9), time.sleep(0.2))[1])

    def privileges(self):
        with open("/proc/self/status") as file:
            status = dict(line.split(":", 1) for line in file)
        self.must_fail("become root", lambda: os.setuid(0) or "uid 0")
        for name in ("CapEff", "CapPrm", "CapBnd", "CapAmb", "CapInh"):
            self.must_hold(f"no {name}", int(status[name], 16) == 0, status[name])
        self.must_hold("no new privileges", status["NoNewPrivs"].strip() == "1")
        self.must_hold("filter on", status["Seccomp"].strip() == "2")
        self.must_hold("not root", os.getuid() == 1000, os.getuid())
        self.must_fail("core dumps", lambda: resource.setrlimit(resource.RLIMIT_CORE, (1 << 20, 1 << 20)) or "allowed")

    def exhaust(self):
        for folder, limit_mib in (("/workspace", self.config["workspace_mib"]), ("/tmp", 256), ("/dev/shm", 64)):
            written = fill(folder, limit_mib * 2)
            self.must_hold(f"quota of {folder}", written <= limit_mib, f"{written} MiB")
        self.must_hold("fork bomb", *fork_bomb(self.config["pids"] * 3))
        self.must_hold("memory hog", *memory_hog(self.config["memory_mib"] * 2))


def ask(kind, ip, port):
    with socket.socket(socket.AF_INET6 if ":" in ip else socket.AF_INET, kind) as connection:
        connection.settimeout(1.0)
        connection.connect((ip, port))
        connection.sendall(b"GET /probe HTTP/1.0\r\n\r\n")
        return connection.recv(100)


def abstract_socket():
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(1.0)
        connection.connect("\0gym-isolation-probe")
        return connection.recv(10)


def processes():
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]


def write(path, text="x"):
    with open(path, "w") as file:
        file.write(text)
    return f"wrote {path}"


def writable_cgroup():
    for folder, _, files in os.walk("/sys/fs/cgroup"):
        if files and os.access(folder, os.W_OK):
            return folder
    return None


def call(number, *arguments):
    if (result := libc.syscall(number, *arguments)) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return f"returned {result}"


def fill(folder, mib):
    """MiB that could be written, in files of a size that nobody minds; they are removed again."""
    written, paths = 0, []
    try:
        while written < mib:
            paths.append(f"{folder}/fill-{written}")
            with open(paths[-1], "wb", buffering=0) as file:
                for _ in range(8):
                    if file.write(FILLER) < len(FILLER):
                        return written
                    written += 1
    except OSError:
        pass
    finally:
        for path in paths:
            os.unlink(path)
    return written


def fork_bomb(count):
    children, why = [], "not stopped"
    try:
        while len(children) < count:
            pid = os.fork()
            if pid == 0:
                time.sleep(60)
                os._exit(0)
            children.append(pid)
    except OSError as error:
        why = f"stopped at {len(children)}: {error}"
    for pid in children:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
    return len(children) < count, why


def memory_hog(mib):
    pid = os.fork()
    if pid == 0:
        held = []
        try:
            for _ in range(mib // 8):
                held.append(bytearray(8 << 20))
                time.sleep(0.02)
        except MemoryError:
            os._exit(3)
        os._exit(7)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return status in (-9, 3), f"ended with {status}"


def main():
    probe = Probe(json.loads(sys.argv[1]))
    if not probe.config["passive"]:
        if not any(map(os.path.exists, MARKS)):
            sys.exit("refused: there is no sandbox here; a control run must say passive")
        probe.attack()
        probe.exhaust()
    probe.look()
    print(json.dumps(probe.results))


main()
