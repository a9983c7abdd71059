"""Restrictions of a process before it runs an isolated policy. They need Linux, and no privileges.

They contain accidents, and input that provokes them: growing memory, endless loops, crashes, fork bombs. They do not
contain code that intends harm: the process runs as the user of the server.
"""

import ctypes
import errno
import os
import resource
import signal
import struct

MEMORY = 512 * 1024 * 1024  # bytes of private memory
ADDRESS_SPACE = 2 * 1024 * 1024 * 1024  # bytes; threads and libraries reserve much more than they use

_PR_SET_PDEATHSIG, _PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 1, 22, 38
_SECCOMP_MODE_FILTER = 2

# Instructions and return values of seccomp filters, which are classic BPF programs: see linux/filter.h and seccomp.h.
_LOAD, _JUMP_EQUAL, _JUMP_AT_LEAST, _JUMP_ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_RETURNS = {"allow": 0x7FFF0000, "unknown": 0x00050000 | errno.ENOSYS, "deny": 0x00050000 | errno.EPERM}
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16  # offsets in struct seccomp_data
_X32_BIT = 0x40000000  # set in system call numbers of the x32 ABI
_CLONE_THREAD = 0x00010000  # a flag of clone

# By machine: the audit architecture, and the system call numbers of clone, clone3, and of fork and vfork.
_MACHINES = {"x86_64": (0xC000003E, 56, 435, (57, 58)), "aarch64": (0xC00000B7, 220, 435, ())}


def apply() -> None:
    """Restrict this process permanently: limit its memory, forbid new processes, and kill it when its parent dies.

    Raises:
        OSError: the system does not support it.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)  # they may be sent to the whole group; the server kills this process
    for limit, value in (
        (resource.RLIMIT_DATA, MEMORY),
        (resource.RLIMIT_AS, ADDRESS_SPACE),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(limit, (value, value))
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    _forbid_processes()


def set_cpu_limit(seconds: float) -> None:
    """Limit the CPU time of this process from now on; the kernel then kills it, even if the server is gone."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    limit = int(usage.ru_utime + usage.ru_stime + seconds) + 2  # the kernel counts whole seconds
    resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))


def resident_memory() -> int:
    """Return the resident memory of this process in bytes."""
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def _forbid_processes() -> None:
    """Forbid this process to create others, but not threads. RLIMIT_NPROC does not help: it counts per user."""
    machine = os.uname().machine
    if machine not in _MACHINES:
        raise OSError(errno.ENOSYS, f"new processes cannot be forbidden on {machine}")
    architecture, clone, clone3, fork_calls = _MACHINES[machine]
    instructions = [
        (_LOAD, _ARCHITECTURE, None, None),
        (_JUMP_EQUAL, architecture, None, "deny"),
        (_LOAD, _NUMBER, None, None),
        (_JUMP_AT_LEAST, _X32_BIT, "deny", None),
        *((_JUMP_EQUAL, number, "deny", None) for number in fork_calls),
        (_JUMP_EQUAL, clone3, "unknown", None),  # a filter cannot read its flags; without it, libraries use clone
        (_JUMP_EQUAL, clone, None, "allow"),
        (_LOAD, _FIRST_ARGUMENT, None, None),
        (_JUMP_ANY_BIT, _CLONE_THREAD, "allow", "deny"),
    ]
    labels = list(_RETURNS)
    program = b""
    for position, (code, value, if_true, if_false) in enumerate(instructions):
        to_returns = len(instructions) - position - 1
        jumps = [0 if label is None else to_returns + labels.index(label) for label in (if_true, if_false)]
        program += struct.pack("HBBI", code, *jumps, value)
    for value in _RETURNS.values():
        program += struct.pack("HBBI", _RETURN, 0, 0, value)
    filter_ = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("HP", len(program) // 8, ctypes.addressof(filter_))
    _prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.create_string_buffer(header, len(header)))


def _prctl(option: int, *arguments: int | ctypes.Array[ctypes.c_char]) -> None:
    words = [ctypes.c_ulong(argument) if isinstance(argument, int) else argument for argument in (*arguments, 0, 0, 0)]
    if ctypes.CDLL(None, use_errno=True).prctl(option, *words) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
