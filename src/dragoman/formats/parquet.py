"""Parquet: the rows of a file for training, in bounded memory."""

import io
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import IO, Any

from dragoman.errors import DataError, optional
from dragoman.formats.lines import EncodingErrors, open_bytes
from dragoman.formats.rows import Row, by_language, first_line

LARGEST_BLOCK = 1 << 26
"""Bytes of text that rows of a file may take at a time."""


def rows(path: Path, _encoding_errors: EncodingErrors, _repairs: Counter[str]) -> Iterator[Row]:
    """Yield the rows of a Parquet file, with a thousand in memory at a time, or fewer if their texts are long.

    Raises:
        DataError: it is packed or damaged, or needs too much memory.
        MissingExtra: pyarrow is not installed.
    """
    with optional("pyarrow", "parquet"):
        import pyarrow
        import pyarrow.parquet
    with open_bytes(path) as file:
        if not isinstance(getattr(file, "raw", None), io.FileIO):  # it is read from its end
            raise DataError(f"{path} is a packed Parquet file; unpack it first, which costs little space")
        try:
            batch_size = _rows_at_a_time(file)
            batches = pyarrow.parquet.ParquetFile(file).iter_batches(batch_size=batch_size)
            for number, record in enumerate(chain.from_iterable(batch.to_pylist() for batch in batches), 1):
                yield number, by_language(record)
        except (pyarrow.ArrowException, ValueError, OSError) as error:
            raise DataError(f"{path} is not a Parquet file, or is damaged: {first_line(error)}") from None


def _rows_at_a_time(file: IO[bytes]) -> int:
    """Return the number of rows that fit into memory, whatever they hold: a text that many rows repeat is kept once."""
    import pyarrow.parquet

    metadata = pyarrow.parquet.read_metadata(file)
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        for column in map(group.column, range(group.num_columns)):
            if column.total_uncompressed_size > max(LARGEST_BLOCK, 1000 * column.total_compressed_size):
                raise ValueError(f"column {column.path_in_schema} unpacks to more than a thousand times its size")
            if column.num_values > 1000 * max(group.num_rows, 1000):
                raise ValueError(f"column {column.path_in_schema} holds lists of more than a thousand values")
    columns = [metadata.schema.column(number) for number in range(metadata.num_columns)]
    texts = [column.path for column in columns if column.physical_type == "BYTE_ARRAY"]
    table = pyarrow.parquet.ParquetFile(file, read_dictionary=texts)
    longest = max((_longest(array) for batch in table.iter_batches(batch_size=1000) for array in batch), default=0)
    return max(1, min(1000, LARGEST_BLOCK // max(1, longest)))


def _longest(array: Any) -> int:
    """Return the bytes of the longest text in an array of Arrow."""
    import pyarrow.compute
    from pyarrow import types

    compute: Any = pyarrow.compute
    if types.is_dictionary(array.type):
        array = array.dictionary
    if types.is_string(array.type) or types.is_binary(array.type):
        return compute.max(compute.binary_length(array)).as_py() or 0
    if types.is_struct(array.type):
        return max(map(_longest, array.flatten()), default=0)
    return _longest(array.flatten()) if types.is_list(array.type) else 0
