"""A machine with Debian: boot.sh boots a copy of a root, tests run commands in it."""
import contextlib
import ctypes
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
PATIENCE_S = 300 * int(os.environ.get("QS_TEST_SLOW", "1"))


def wait(what, condition, said=lambda: ""):
    """Returns the first true value of `condition`. After PATIENCE_S fails the test, with the text of `said`."""
    until = time.monotonic() + PATIENCE_S
    while not (value := condition()):
        if time.monotonic() > until:
            raise AssertionError(f"waited {PATIENCE_S} s: {what}\n{said()}")
        time.sleep(0.1)
    return value


def can_watch(count=16, libc=ctypes.CDLL(None)):
    """Whether the user root may have `count` more instances of inotify."""
    watches = [libc.inotify_init1(os.O_CLOEXEC) for _ in range(count)]
    for watch in watches:
        if watch >= 0:
            os.close(watch)
    return min(watches) >= 0


class Machine:
    """`root` is a directory of debian_root.sh; `files` are copied into /root. Call `boot`, and `stop` also after a failed boot."""

    def __init__(self, root, files):
        self.unshare = self.pid = None
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="machine.", dir=pathlib.Path(root).parent))
        self.root = self.directory / "root"
        subprocess.run(["cp", "-a", "--reflink=auto", root, self.root], check=True)
        (self.root / "etc/dpkg/dpkg.cfg.d/99mmdebstrap").unlink()  # it excludes manual pages and documentation
        for file in files:
            shutil.copy(file, self.root / "root")
        (self.root / "etc/machine-id").write_text("")

    def boot(self):
        # Without one for itself systemd ends at once, and some units fail without theirs. All processes of root share them.
        wait("root has instances of inotify to spare (fs.inotify.max_user_instances)", can_watch)
        pidfile = self.directory / "pid"
        log = self.directory / "console"
        with open(log, "ab") as console:
            self.booting = subprocess.Popen(["sh", HERE / "boot.sh", self.root, self.directory.name, pidfile, log], stdin=subprocess.DEVNULL,
                                            stdout=console, stderr=console, start_new_session=True)
        self.wait("boot.sh has started", lambda: pidfile.exists() and pidfile.read_text().strip())
        self.unshare = int(pidfile.read_text())
        children = pathlib.Path(f"/proc/{self.unshare}/task/{self.unshare}/children")
        self.pid = self.wait("boot.sh has made its namespaces", lambda: children.exists() and children.read_text().split())[0]
        # Before that, a command would run in the root of this machine.
        self.wait("systemd runs", lambda: self.name() == "systemd")
        self.wait("the machine is up", lambda: self("systemctl", "is-system-running", code=None).stdout.strip() in ("running", "degraded"))

    def name(self):
        """The name of its first process; empty after its end."""
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            return pathlib.Path(f"/proc/{self.pid}/comm").read_text().strip()
        return ""

    def wait(self, what, condition):
        """As the function, but gives up once the machine has ended."""
        return wait(what, lambda: self.expect_alive() and condition(), self.report)

    def report(self):
        """What can be known of a machine that does not come up."""
        if not self.pid:
            return self.console()
        commands = (["systemctl", "is-system-running"], ["systemctl", "list-jobs"], ["journalctl", "--no-pager", "-n", "50"])
        return self.console() + "".join(f"{done.stdout}{done.stderr}" for done in (self(*command, code=None) for command in commands))

    def expect_alive(self):
        if self.booting.poll() is not None:
            raise AssertionError(f"the machine has ended with {self.booting.returncode}\n{self.console()}")
        return True

    def console(self):
        return (self.directory / "console").read_text(errors="replace")

    def __call__(self, *command, code=0):
        """Runs a command as root and returns its output, or with code=None the completed process. Fails on another exit code."""
        done = subprocess.run(["nsenter", "--target", self.pid, "--all", "--root", "--wd", "env", "-i", "HOME=/root", "LC_ALL=C.UTF-8",
                               "DEBIAN_FRONTEND=noninteractive", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", *command], capture_output=True,
                              text=True, timeout=PATIENCE_S * 2, check=False, stdin=subprocess.DEVNULL)
        if code is None:
            return done
        if done.returncode != code:
            raise AssertionError(f"{' '.join(command)}: exit code {done.returncode}, not {code}\n{done.stdout}{done.stderr}{self.journal()}")
        return done.stdout + done.stderr

    def journal(self):
        return self("journalctl", "--no-pager", "-n", "30", "-u", "queue-sidecar*", code=None).stdout

    def state(self, unit):
        """What systemctl says: whether the unit is enabled, and whether it is active."""
        return tuple(self("systemctl", word, unit, code=None).stdout.strip() for word in ("is-enabled", "is-active"))

    def show(self, unit, name):
        return self("systemctl", "show", "--value", "-p", name, unit).strip()

    def path(self, place):
        return self.root / place.lstrip("/")

    def stop(self):
        if self.unshare and self.booting.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it has ended by itself
                os.kill(self.unshare, signal.SIGKILL)  # the kernel then kills systemd, and with it all processes of the machine
        self.booting.wait(PATIENCE_S)
        shutil.rmtree(self.directory)
