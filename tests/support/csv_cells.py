"""The texts that cells of CSV stand for."""

import re


def text_of(cell: str) -> str:
    """The text that `safe_cell` made a formula of; any other cell as it is.

    >>> text_of('="=""x""&A1"'), text_of("model")
    ('="x"&A1', 'model')
    """
    if not cell.startswith('="'):
        return cell
    return re.sub('""|"&"', lambda quotes: '"' if quotes[0] == '""' else "", cell[2:-1])
