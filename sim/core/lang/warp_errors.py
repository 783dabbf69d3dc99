"""Names that Warp has for the errors of its compiler, for programs that catch them: variants of `KernelError`."""

from sim.core.lang.errors import KernelError, UnknownAttribute, UnknownName

WarpCodegenError = WarpCodegenIndexError = WarpCodegenTypeError = WarpCodegenValueError = KernelError
WarpCodegenAttributeError = UnknownAttribute
WarpCodegenKeyError = UnknownName
WarpDeterminismError = KernelError
"""Of a kernel that Warp cannot make deterministic.  Here no kernel is refused for that; programs may name it."""
