"""The functions of the library: a row for each, and their values and derivatives by the interpreter."""
