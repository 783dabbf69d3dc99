"""The workflow fuzzer: programs that are drawn, run on `sim` and on a stand-in, and made small."""
