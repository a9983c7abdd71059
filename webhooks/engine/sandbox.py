"""Confinement: what a process gives up for good before it runs what is not trusted. It needs Linux, and no privilege.

It contains accidents, and input that is made to cause them: memory that grows, loops, crashes, processes without end.
It is no wall against code that wants to do harm, which is still the same user's.
"""

import ctypes
import errno
import os
import resource
import signal
import struct

MEMORY = 512 * 1024 * 1024  # bytes that the process may take for itself
ADDRESSES = 2 * 1024 * 1024 * 1024  # bytes of addresses, which threads and libraries reserve in plenty

_SET_PARENT_DEATH_SIGNAL, _SET_SECCOMP, _SET_NO_NEW_PRIVILEGES = 1, 22, 38  # of prctl
_FILTER = 2

# What filters of system calls are made of, and what they say: go on, or fail as not permitted, or as not known.
_LOAD, _IF_EQUAL, _IF_AT_LEAST, _IF_ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ENDS = {"allow": 0x7FFF0000, "unknown": 0x00050000 | errno.ENOSYS, "refuse": 0x00050000 | errno.EPERM}
_CALL, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16  # where they stand in what a filter looks at
_OTHER_ABI = 0x40000000  # calls of x32 have these numbers
_THREAD = 0x00010000  # of the flags of clone

# By machine: what the kernel calls it; the numbers of clone and clone3, and of all else that makes processes.
_MACHINES = {"x86_64": (0xC000003E, 56, 435, (57, 58)), "aarch64": (0xC00000B7, 220, 435, ())}


def confine() -> None:
    """Confine this process: it has no more memory than `MEMORY`, starts no other processes, and dies with its parent.

    Raises:
        OSError: the system cannot do that.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)  # a whole group may get them; the server then ends this process itself
    for limit, most in ((resource.RLIMIT_DATA, MEMORY), (resource.RLIMIT_AS, ADDRESSES), (resource.RLIMIT_CORE, 0)):
        resource.setrlimit(limit, (most, most))
    _prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    _prctl(_SET_NO_NEW_PRIVILEGES, 1)
    _forbid_processes()


def allow_computing(seconds: float) -> None:
    """Let this process compute for so long from now on; after that the kernel ends it, should nobody else have."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    most = int(usage.ru_utime + usage.ru_stime + seconds) + 2  # whole seconds are counted
    resource.setrlimit(resource.RLIMIT_CPU, (most, resource.RLIM_INFINITY))


def memory() -> int:
    """The bytes of memory that this process has at present."""
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def _forbid_processes() -> None:
    """Refuse what makes processes, but not threads; the limit that the system has counts all of a user's."""
    machine = os.uname().machine
    if machine not in _MACHINES:
        raise OSError(errno.ENOSYS, f"processes cannot be forbidden on {machine}")
    architecture, clone, clone3, others = _MACHINES[machine]
    steps = [
        (_LOAD, _ARCHITECTURE, None, None),
        (_IF_EQUAL, architecture, None, "refuse"),
        (_LOAD, _CALL, None, None),
        (_IF_AT_LEAST, _OTHER_ABI, "refuse", None),
        *((_IF_EQUAL, call, "refuse", None) for call in others),
        (_IF_EQUAL, clone3, "unknown", None),  # its flags cannot be seen; who does not find it takes clone
        (_IF_EQUAL, clone, None, "allow"),
        (_LOAD, _FIRST_ARGUMENT, None, None),
        (_IF_ANY_BIT, _THREAD, "allow", "refuse"),
    ]
    names = list(_ENDS)
    program = b""
    for place, (code, value, then, otherwise) in enumerate(steps):
        jumps = [0 if name is None else len(steps) - place - 1 + names.index(name) for name in (then, otherwise)]
        program += struct.pack("HBBI", code, *jumps, value)
    for value in _ENDS.values():
        program += struct.pack("HBBI", _RETURN, 0, 0, value)
    steps_at = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("HP", len(program) // 8, ctypes.addressof(steps_at))
    _prctl(_SET_SECCOMP, _FILTER, ctypes.create_string_buffer(header, len(header)))


def _prctl(option: int, *arguments: int | ctypes.Array[ctypes.c_char]) -> None:
    words = [ctypes.c_ulong(each) if isinstance(each, int) else each for each in (*arguments, 0, 0, 0)]
    if ctypes.CDLL(None, use_errno=True).prctl(option, *words) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
