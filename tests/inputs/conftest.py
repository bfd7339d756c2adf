"""Files as tests write them."""

from pathlib import Path

import pytest
from support.pair_files import Make, gzipped


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Writes a file and returns its path."""

    def write(name: str, content: str | bytes) -> str:
        path = tmp_path / name
        data = content.encode() if isinstance(content, str) else content
        path.write_bytes(gzipped(data) if name.endswith(".gz") else data)
        return str(path)

    return write
