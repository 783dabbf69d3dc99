"""Functions of the IR as executables, and how their arguments lie in memory."""
