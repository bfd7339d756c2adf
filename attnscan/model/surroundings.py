"""What this process must be given so that torch and transformers can be imported at all: docstrings, address space.

Both are checked before the import, which takes seconds and then fails somewhere inside a library, or not at all:
OpenBLAS, short of address space, looks for more without end.
"""

from __future__ import annotations

import os
import sys

from attnscan.errors import MemoryFullError, ModelError

ADDRESS_SPACE, ADDRESS_SPACE_OF_TABLES = 1_500_000_000, 720_000_000
"""Bytes that torch, transformers and a small model reserve; and pandas, pyarrow and scipy, for work without a model.

Measured on 2 cores, with `spare_address_space`: 1.35 GB for one input of the bundled model, and 0.70 GB. At 1.40 GB a
scan of pairs, which has more threads, ends in OpenBLAS.
"""


def check_docstrings() -> None:
    """Raises: ModelError if Python strips docstrings: transformers builds classes from them, and we show our own."""
    if sys.flags.optimize > 1:
        raise ModelError(
            "Python runs without docstrings (-OO), and transformers cannot be imported without them",
            "unset PYTHONOPTIMIZE, or set it to 1",
        )


def check_address_space(*, with_model: bool = True) -> None:
    """Raises: MemoryFullError if the process may not reserve as much memory as the imports do."""
    limit, taken = address_space(), ADDRESS_SPACE if with_model else ADDRESS_SPACE_OF_TABLES
    if limit is not None and limit < taken:
        raise MemoryFullError(
            f"this process may reserve {limit / 1e9:.2f} GB of address space (ulimit -v), "
            f"and {'torch and transformers' if with_model else 'pandas and pyarrow'} take {taken / 1e9:.2f} GB",
            "raise the limit, with ulimit -v unlimited",
        )


def spare_address_space() -> None:
    """Where address space is limited, have libraries reserve no more than they use.

    OpenBLAS is left one thread, since each reserves 40 MB, and its work here is small; Arrow takes its memory from the
    system, since its own allocator begins with 1 GB. Counts only before their import; what the user has set stays.
    """
    if address_space() is not None:
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")


def address_space() -> int | None:
    """How many bytes this process may reserve; None if there is no limit, or the system knows none."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if limit == resource.RLIM_INFINITY else limit


def more_memory(otherwise: str) -> str:
    """A remedy where memory ran out: raise the limit of address space, if there is one, or what helps otherwise."""
    limit = address_space()
    return otherwise if limit is None else f"raise the limit of {limit / 1e9:.2f} GB (ulimit -v), or {otherwise}"
