"""Names that Warp has for the errors of its compiler, for programs that catch them: variants of `KernelError`."""

from sim.core.lang.errors import KernelError, UnknownAttribute, UnknownName

WarpCodegenError = WarpCodegenIndexError = WarpCodegenTypeError = WarpCodegenValueError = KernelError
WarpCodegenAttributeError = UnknownAttribute
WarpCodegenKeyError = UnknownName
