"""Opening: made from nothing, upgraded, or refused in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from db.session import open_database, open_existing
from kernels.errors import FarmError


def test_open_makes_folder_and_schema(tmp_path: Path) -> None:
    database = open_database(f"sqlite:///{tmp_path}/new/farm.db")
    with database.reading() as s:
        assert s.exec_driver_sql("SELECT count(*) FROM capability").scalar_one() == 0
    database.close()


def test_open_existing_makes_no_file(tmp_path: Path) -> None:
    with pytest.raises(FarmError, match="farm submit makes one"):
        open_existing(f"sqlite:///{tmp_path}/farm.db")
    assert not list(tmp_path.iterdir())
