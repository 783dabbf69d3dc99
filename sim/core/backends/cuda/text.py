"""IR to CUDA C++ text: one kernel, readable, with the user's names and source lines.

The kernel takes the argument block of `base.py` by value, as a struct with the same layout.  Text that depends on how
arrays lie at a launch has a plain form that is always right (`careful`): no wide loads, and an atomic for every
accumulation that no promise covers.
"""

from __future__ import annotations

from pathlib import PurePath

from sim.core.backends.base import symbol_name
from sim.core.backends.cuda.accesses import CudaAccesses
from sim.core.backends.cuda.prelude import BLOCK, PRELUDE
from sim.core.backends.cuda.writer import cuda_type, identifier
from sim.core.lang.ir.core import walk
from sim.core.lang.types import ArrayType


class CudaText(CudaAccesses):
    """Text of one kernel.  `text()` gives the whole; `kernel()` the kernel without the helpers before it."""

    def arguments(self) -> list[str]:
        """The struct that the argument block is; gives the parameters their names."""
        lines = [f"struct {self.struct} {{", "    long long dim[4];", "    long long *error;"]
        taken: set[str] = set()
        for p in self.func.params:
            member = identifier(p.name)
            while member in taken:
                member += "_"
            taken.add(member)
            if isinstance(p.type, ArrayType):
                self.names[p] = member
                lines.append(f"    sim_array<{p.type.ndim}> {member};  // {p.type}")
            else:
                self.names[p] = f"args.{member}"
                lines.append(f"    alignas(8) {cuda_type(p.type)} {member};")
        return [*lines, "};"]

    @property
    def symbol(self) -> str:
        return symbol_name(self.func)

    @property
    def struct(self) -> str:
        return f"arguments_of_{self.symbol}"

    def kernel(self) -> str:
        """The kernel and the struct of its arguments."""
        head = self.arguments()
        self.put("const unsigned thread = first_thread;")
        dims = self.func.dims
        if dims > 1:
            self.put("unsigned rest = thread;")
            for axis in range(dims - 1, 0, -1):
                self.put(f"const int tid{axis} = (int)(rest % (unsigned)args.dim[{axis}]);")
                self.put(f"rest /= (unsigned)args.dim[{axis}];")
            self.put("const int tid0 = (int)rest;")
        self.block(self.rematerialised.body)
        body = self.lines
        serial = self.func.attrs.get("serial")
        if serial:
            begin = ["    // The threads share a log: one of them does the work of all, in order.", "    if (blockIdx.x | threadIdx.x) return;",
                     "    for (unsigned first_thread = 0; first_thread < count; ++first_thread) {"]  # fmt: skip
            body = ["    " + line for line in body] + ["    }"]
        else:
            begin = [
                f"    const unsigned first_thread = blockIdx.x * {BLOCK}u + threadIdx.x;",
                "    if (first_thread >= count) return;",
            ]
        log = ", long long *const printed" if self.prints else ""
        where = self.func.span
        return "\n".join([
            f"// kernel {self.func.name}" + (f" ({PurePath(where.file.replace(chr(92), '/')).name}:{where.line})" if where else ""),
            *head,
            f'extern "C" __global__ void __launch_bounds__({BLOCK}) {self.symbol}(const __grid_constant__ {self.struct} args{log}) {{',
            "    const unsigned count = (unsigned)(args.dim[0] * args.dim[1] * args.dim[2] * args.dim[3]);",
            *begin, *body, "}", "",
        ])  # fmt: skip

    def text(self) -> str:
        return PRELUDE + "\n" + self.kernel()

    def aligned(self) -> list[tuple[int, int]]:
        """(number of a parameter, bytes to which its data must be aligned) for wide loads and stores."""
        if self.careful:
            return []
        found = {}
        for op in walk(self.func.body):
            if op.name in ("load", "store") and self.wide(op):
                found[op.operands[0]] = self.wide(op)
        return [(k, found[p]) for k, p in enumerate(self.func.params) if p in found]
