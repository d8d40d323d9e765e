"""t3hw: open hardware that hides a GEMM's reduce-scatter, with the software that proves it."""

__version__ = "0.1.0"
