"""What a cubin says of its kernels, without a GPU: registers, stack, size of the arguments, and instructions by kind.

The numbers stand in the ELF sections `.nv.info` (one attribute after another: format, number, size or value);
instructions come from `nvdisasm`, where it is installed.
"""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
import tempfile
from collections import Counter
from dataclasses import dataclass, field

REGISTERS, FRAME, ARGUMENTS = 0x2F, 0x11, 0x19
_WITH_VALUE = 4
_INSTRUCTION = re.compile(r"\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]+)")
_SECTION = re.compile(r"\s*\.section\s+\.text\.([\w$]+)")
DOUBLE = ("DADD", "DMUL", "DFMA", "DSETP", "DMNMX")


@dataclass
class KernelReport:
    registers: int = 0
    stack: int = 0
    argument_bytes: int = 0
    instructions: Counter = field(default_factory=Counter)

    def count(self, *names: str) -> int:
        """Instructions whose first word is one of these."""
        return sum(n for op, n in self.instructions.items() if op.split(".")[0] in names)

    @property
    def atomics(self) -> int:
        return self.count("RED", "REDG", "ATOM", "ATOMG")

    @property
    def local(self) -> int:
        """Loads and stores of the thread's own memory: spills, and arrays that registers cannot hold."""
        return self.count("LDL", "STL")

    @property
    def wide(self) -> int:
        """Loads and stores of 128 bits."""
        return sum(n for op, n in self.instructions.items() if op.split(".")[0] in ("LDG", "STG") and ".128" in op)


def reports(cubin: bytes) -> dict[str, KernelReport]:
    """By symbol of each kernel."""
    assert cubin[:4] == b"\x7fELF"
    (headers,) = struct.unpack_from("<Q", cubin, 40)
    count, names_at = struct.unpack_from("<HH", cubin, 60)
    sections = [struct.unpack_from("<IIQQQQIIQQ", cubin, headers + 64 * k) for k in range(count)]

    def text(at: int) -> str:
        return cubin[at : cubin.index(b"\0", at)].decode()

    named = {text(sections[names_at][4] + s[0]): s for s in sections}
    symbols, strings = named[".symtab"], named[".strtab"][4]
    symbol = [text(strings + struct.unpack_from("<I", cubin, symbols[4] + 24 * k)[0]) for k in range(symbols[5] // 24)]
    out = {name[6:]: KernelReport() for name in named if name.startswith(".text.kernel_")}
    for name, s in named.items():
        if not name.startswith(".nv.info"):
            continue
        for attribute, value in _attributes(cubin[s[4] : s[4] + s[5]]):
            if name == ".nv.info" and attribute in (REGISTERS, FRAME) and isinstance(value, bytes):
                of, number = struct.unpack_from("<II", value)
                if symbol[of] in out:
                    setattr(out[symbol[of]], "registers" if attribute == REGISTERS else "stack", number)
            elif attribute == ARGUMENTS and isinstance(value, int) and name[9:] in out:
                out[name[9:]].argument_bytes = value
    return out


def _attributes(data: bytes) -> list[tuple[int, bytes | int]]:
    found: list[tuple[int, bytes | int]] = []
    at = 0
    while at + 4 <= len(data):
        kind, attribute, size = struct.unpack_from("<BBH", data, at)
        at += 4
        if kind == _WITH_VALUE:
            found.append((attribute, data[at : at + size]))
            at += size
        else:
            found.append((attribute, size))  # the value stands in the place of the size
    return found


def disassembler() -> str | None:
    """The path of nvdisasm, or None."""
    try:
        from cuda.pathfinder import find_nvidia_binary_utility

        found = find_nvidia_binary_utility("nvdisasm")
    except (ImportError, RuntimeError):
        found = None
    return found or shutil.which("nvdisasm")


def with_instructions(cubin: bytes) -> dict[str, KernelReport]:
    """As `reports`, with the instructions counted."""
    out = reports(cubin)
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        text = subprocess.run([str(disassembler()), "-c", file.name], capture_output=True, text=True, check=True).stdout
    current = None
    for line in text.splitlines():
        section = _SECTION.match(line)
        if section:
            current = section[1]
        elif current in out and (found := _INSTRUCTION.match(line)):
            out[current].instructions[found[1]] += 1
    return out
