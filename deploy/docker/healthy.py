"""What an image's health check asks: `port NUMBER`, who listens here; `boards`, does the driver answer.

Exit status 0 or 1, with one line. It imports no farm: a check every few seconds has to be cheap.
"""

from __future__ import annotations

import socket
import sys

CONNECT_S = 5.0


def main(words: list[str]) -> str:
    """Why it isn't well, or nothing."""
    match words:
        case ["port", number]:
            return port(int(number))
        case ["boards"]:
            return boards()
    return f"want port NUMBER or boards, got {' '.join(words) or 'nothing'}"


def port(number: int) -> str:
    try:
        socket.create_connection(("127.0.0.1", number), CONNECT_S).close()
    except OSError as error:
        return f"nothing listens on port {number}: {error.strerror or error}"
    return ""


def boards() -> str:
    import pynvml  # only where there is a driver to ask

    try:
        pynvml.nvmlInit()
        return "" if pynvml.nvmlDeviceGetCount() else "the driver sees no board"
    except pynvml.NVMLError as error:
        return f"the driver doesn't answer: {error}"


if __name__ == "__main__":
    if why := main(sys.argv[1:]):
        sys.exit(f"healthy: {why}")
