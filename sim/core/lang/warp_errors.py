"""Names that Warp has for the errors of its compiler, for programs that catch them: here all are `KernelError`."""

from sim.core.lang.errors import KernelError

WarpCodegenError = WarpCodegenAttributeError = WarpCodegenKeyError = KernelError
WarpCodegenTypeError = WarpCodegenValueError = KernelError
