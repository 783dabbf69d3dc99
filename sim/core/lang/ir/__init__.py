"""The intermediate representation: scalar SSA with structured control flow, its op table, and its clean-up passes."""
