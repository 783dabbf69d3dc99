"""The intermediate representation: scalar SSA with structured control flow, its table of operations, and its clean-up
passes."""
