"""What an image's health check asks: `port [HOST:]NUMBER`, who listens; `boards`, does the driver answer.

Exit status 0 or 1, with one line. It imports no farm: a check every few seconds has to be cheap.
"""

from __future__ import annotations

import socket
import sys

CONNECT_S = 5.0


def main(words: list[str]) -> str:
    """Why it isn't well, or nothing."""
    match words:
        case ["port", place]:
            host, _, number = place.rpartition(":")
            return port(host or "127.0.0.1", int(number))
        case ["boards"]:
            return boards()
    return f"want port [HOST:]NUMBER or boards, got {' '.join(words) or 'nothing'}"


def port(host: str, number: int) -> str:
    try:
        socket.create_connection((host, number), CONNECT_S).close()
    except OSError as error:
        return f"nothing listens at {host}:{number}: {error.strerror or error}"
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
