"""LLVM text to machine code: in this process or beside it, from the cache, into memory."""
