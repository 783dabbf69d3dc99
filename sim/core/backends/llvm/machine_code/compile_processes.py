"""Object code that other processes make, while this one goes on tracing and differentiating.

LLVM takes half the time of a first run, and llvmlite lets one thread of a process at a time into it.  What is going to
be needed is handed in here (`begin`), and whoever needs it takes it (`taken`): from the process that has made it, or
that is at it; what nobody has begun yet is made by who takes it.  So nothing waits for a process that is not at work.

Object code is the same bytes, whoever makes it.  Processes start once a program has compiled some text by itself, so
that short ones never have any, and end when they have had nothing to do for a while, or with this one.  Where they
cannot start (frozen programs, no right to), all is as without them.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import itertools
import os
import queue
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO

from sim.core.backends.llvm.machine_code import object_code
from sim.core.backends.llvm.machine_code.object_code import ANSWER, REQUEST

Way = tuple[int, bool, bool]
"""Level, vectors_given, straight: see `ObjectCompiler.build`."""
_AFTER = 1 << 20
"""Characters of LLVM text that a program compiles by itself before it starts processes: a second, or half of one."""
_IDLE = 20.0
"""Seconds without a request after which a process ends: it holds up to 200 MB."""
_MOST = 8


def process_count() -> int:
    """One less than the processors that this program may use, or than `$SIM_NUM_THREADS`, and at most eight."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    chosen = os.environ.get("SIM_NUM_THREADS", "")
    return min(usable, int(chosen) if chosen.isdecimal() else usable, _MOST + 1) - 1


class Request:
    """Text that is to be compiled, by a process or by who needs it: by the one that claims it first."""

    def __init__(self, text: str, way: Way) -> None:
        self.text, self.way = text, way
        self._claimed, self._answered = threading.Lock(), threading.Event()
        self._code = b""

    def claim(self) -> bool:
        return self._claimed.acquire(blocking=False)

    def answer(self, code: bytes) -> None:
        """The first answer counts; b"": there is none."""
        if not self._answered.is_set():
            self._code, self.text = code, ""
            self._answered.set()

    def taken(self) -> bytes | None:
        """The object code; None where whoever asks is to make it."""
        if self.claim():
            return None
        self._answered.wait()
        return self._code or None


class CompileProcess:
    """One process.  Raises OSError where it is no more."""

    def __init__(self) -> None:
        found = importlib.util.find_spec("llvmlite")
        if found is None or found.origin is None or not Path(sys.executable or "").name.lower().startswith("python"):
            raise OSError("this is a frozen program, or one that has Python in it")
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", object_code.__file__, str(Path(found.origin).parents[1])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # what goes wrong is said by who makes the code then
            start_new_session=True,  # it is not for Ctrl-C to end it in the middle of an answer
        )

    def build(self, request: Request) -> bytes:
        to, back = self._pipes()
        text = request.text.encode()
        to.write(REQUEST.pack(len(text), *request.way) + text)
        to.flush()
        header = back.read(ANSWER.size)
        if len(header) < ANSWER.size:
            raise OSError("the process has ended")
        (length,) = ANSWER.unpack(header)
        code = back.read(length)
        if len(code) < length:
            raise OSError("the process has ended")
        return code

    def _pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        assert self._process.stdin is not None and self._process.stdout is not None
        return self._process.stdin, self._process.stdout

    def kill(self) -> None:
        """Who waits for an answer gets none."""
        self._process.kill()

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in self._pipes():
            with contextlib.suppress(OSError):
                pipe.close()


class CompileProcesses:
    """Some processes, and the requests that wait for them.  `begin` and `taken` are called with `compiling` held."""

    def __init__(self) -> None:
        self._forget()
        atexit.register(self._end)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        """The child of a fork has no thread but its own, and the processes are its parent's."""
        self._waiting = queue.PriorityQueue[tuple[int, int, Request | None]]()
        self._requests: dict[str, Request] = {}
        self._running: set[CompileProcess] = set()
        self._numbers = itertools.count()
        self._threads: list[threading.Thread] = []
        self._alone = 0

    def compiled_alone(self, text: str) -> None:
        """This process has compiled a text itself."""
        self._alone += len(text)

    def at_hand(self) -> bool:
        """Whether there are any, now that this one has compiled enough."""
        if self._alone < _AFTER:
            return False
        if not self._threads:
            self._threads = [threading.Thread(target=self._work, daemon=True) for _ in range(process_count())]
            for thread in self._threads:
                thread.start()
        return any(thread.is_alive() for thread in self._threads)

    def begin(self, key: str, text: str, way: Way, soon: bool) -> None:
        """Hands in what will be asked for under this key.

        soon: before all that is not, of which what came last is first: a backward pass asks for it in this order.
        """
        if key not in self._requests:
            request = self._requests[key] = Request(text, way)
            number = next(self._numbers)
            self._waiting.put((0, number, request) if soon else (1, -number, request))

    def taken(self, key: str) -> bytes | None:
        """The object code of a request; None where there is none, and whoever asks is to make it."""
        request = self._requests.pop(key, None)
        return None if request is None else request.taken()

    def _work(self) -> None:
        """What a thread does: it speaks with one process at a time, until one fails or there is no more to do."""
        waiting, running = self._waiting, self._running
        while (request := waiting.get()[2]) is not None:
            if not request.claim():
                continue
            try:
                process = CompileProcess()
            except OSError:
                request.answer(b"")
                return
            running.add(process)
            following: Request | None = request
            try:
                while following is not None:
                    request = following
                    request.answer(process.build(request))
                    following = self._next()
            except OSError:
                return
            finally:
                request.answer(b"")  # whatever it was that went wrong: somebody may wait
                running.discard(process)
                process.end()

    def _next(self) -> Request | None:
        """The next request that nobody has claimed; None where there is none for a while."""
        with contextlib.suppress(queue.Empty):
            while (request := self._waiting.get(timeout=_IDLE)[2]) is not None:
                if request.claim():
                    return request
            self._waiting.put((-1, next(self._numbers), None))  # the end is for `_work` to see
        return None

    def _end(self) -> None:
        """Before the interpreter ends: a thread that reads when it does would stop it with an error."""
        for _ in self._threads:
            self._waiting.put((-1, next(self._numbers), None))
        for process in tuple(self._running):
            process.kill()
        for thread in self._threads:
            thread.join()


compile_processes = CompileProcesses()
