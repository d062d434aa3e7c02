"""Raw bytes into typed rows: text lines, CSV and JSON lines (DESIGN §8).

`parse` cuts a stream into blocks of whole records, converts each block in one call of a column
kernel, and only where that fails looks for the rows that can't be used. A row is good or dead by
its own bytes alone, so neither the size of the blocks nor the rows around it change what becomes of
it.

Row numbers count every record of the file from 0, dead ones included, a CSV header excluded. Blank
lines are records of a text file, but not of CSV and JSON files.
"""

from streammine.model.formats.blocks import RECORD_LIMIT_BYTES, ByteStream
from streammine.model.formats.parsing import FormatKind, ParsedBlock, RawFormat, csv_header, parse

__all__ = [
    "RECORD_LIMIT_BYTES",
    "ByteStream",
    "FormatKind",
    "ParsedBlock",
    "RawFormat",
    "csv_header",
    "parse",
]
