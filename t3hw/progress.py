"""Progress on a terminal: what is being done, and for how long. Nothing where output is piped."""

import contextlib
import sys
import threading
import time

__all__ = ["progress"]

#: What takes less is not worth a line.
_QUIET_SECONDS = 2


@contextlib.contextmanager
def progress(what):
    """Show ``what`` and the seconds that it takes, on standard error, while the block runs."""
    if not sys.stderr.isatty():
        yield
        return
    done = threading.Event()
    start = time.monotonic()

    def show():
        if done.wait(_QUIET_SECONDS):
            return
        while True:
            sys.stderr.write(f"\r{what} … {time.monotonic() - start:.0f} s")
            sys.stderr.flush()
            if done.wait(1):
                sys.stderr.write("\r\x1b[K")
                sys.stderr.flush()
                return

    thread = threading.Thread(target=show, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
