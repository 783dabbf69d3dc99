"""Loading compiled objects without LLVM: importing it costs more than everything else that a warm start does.

On Linux on x86-64 the objects that LLVM makes of our kernels are simple: a few sections, absolute 64-bit relocations,
and functions of the C library.  Anything else is left to LLVM's own linker (`load_object` returns None).  System V ABI,
AMD64 supplement; ELF-64.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import importlib.util
import mmap
import platform
import struct
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")
_SYMBOLS, _RELOCATIONS, _NO_BITS = 2, 4, 8  # section types
_ALLOCATED = 2  # section flag
_ABSOLUTE_64 = 1  # relocation type
_UNDEFINED, _SPECIAL = 0, 0xFF00  # section numbers of symbols


def supported() -> bool:
    """Whether this loader knows the machine."""
    return sys.platform == "linux" and platform.machine() == "x86_64" and sys.maxsize > 2**32


@functools.cache
def host() -> str | None:
    """What compiled code depends on, processor and compiler, without asking LLVM; None where that cannot be told."""
    found = importlib.util.find_spec("llvmlite")
    if not supported() or found is None or found.origin is None:
        return None
    try:
        about = Path("/proc/cpuinfo").read_text().split("\n\n")[0]
        stat = (Path(found.origin).parent / "binding" / "libllvmlite.so").stat()
    except OSError:
        return None
    wanted = ("vendor_id", "cpu family", "model", "model name", "stepping", "flags")
    lines = [line for line in about.splitlines() if line.split("\t")[0].strip() in wanted]
    return hashlib.sha256("\n".join([*lines, str(stat.st_size), str(stat.st_mtime_ns)]).encode()).hexdigest()


def load_object(code: bytes, symbols: Sequence[str], known: Mapping[str, int]) -> tuple[Any, list[int]] | None:
    """Puts an object file into memory: what owns it, addresses of `symbols`; None if it holds something unexpected.

    known: addresses of functions that the object may call, beside those of the C library.
    """
    if not supported():
        return None
    (sections_at,) = struct.unpack_from("<Q", code, 40)
    (count,) = struct.unpack_from("<H", code, 60)
    sections = [_SECTION.unpack_from(code, sections_at + 64 * k) for k in range(count)]
    place, size = [-1] * count, 0
    for k, (_, kind, flags, _, _, length, _, _, align, _) in enumerate(sections):
        if flags & _ALLOCATED:
            size += -size % max(align, 1)
            place[k], size = size, size + length
            if kind == _NO_BITS:
                return None
    memory = mmap.mmap(-1, max(size, 1))
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for k, (_, _, _, _, offset, length, _, _, _, _) in enumerate(sections):
        if place[k] >= 0:
            memory[place[k] : place[k] + length] = code[offset : offset + length]
    table = next((s for s in sections if s[1] == _SYMBOLS), None)
    if table is None:
        return None
    names_at = sections[table[6]][4]
    entries = [_SYMBOL.unpack_from(code, table[4] + _SYMBOL.size * k) for k in range(table[5] // _SYMBOL.size)]

    def name_of(entry: tuple[int, ...]) -> str:
        begin = names_at + entry[0]
        return code[begin : code.index(b"\0", begin)].decode()

    def address_of(entry: tuple[int, ...]) -> int | None:
        section, value = entry[3], entry[4]
        if section == _UNDEFINED:
            name = name_of(entry)
            return known.get(name) or _of_library(name)
        return base + place[section] + value if section < _SPECIAL and place[section] >= 0 else None

    for section in sections:
        target = section[7]
        if section[1] != _RELOCATIONS or place[target] < 0:
            continue
        for at in range(section[4], section[4] + section[5], _RELOCATION.size):
            offset, info, addend = _RELOCATION.unpack_from(code, at)
            address = address_of(entries[info >> 32])
            if info & 0xFFFFFFFF != _ABSOLUTE_64 or address is None:
                return None
            struct.pack_into("<Q", memory, place[target] + offset, address + addend)
    found = {name_of(e): address_of(e) for e in entries if e[0]}
    addresses = [found.get(s) for s in symbols]
    protect = _library().mprotect
    protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    if None in addresses or protect(base, len(memory), mmap.PROT_READ | mmap.PROT_EXEC):
        return None
    return memory, addresses  # type: ignore[return-value]


@functools.cache
def _library() -> ctypes.CDLL:
    return ctypes.CDLL(None)


@functools.cache
def _of_library(name: str) -> int | None:
    """Address of a function of the C library."""
    for library in (_library(), ctypes.CDLL("libm.so.6")):
        try:
            return ctypes.cast(getattr(library, name), ctypes.c_void_p).value
        except AttributeError:
            continue
    return None
