"""Parquet files of chunks: a column for each number of a sample, summaries and a checksum in the footer."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from linkwork.errors import StudyError
from linkwork.simulation.status import has_status
from linkwork.studies.encoding import Nodes, decode_nodes, encode_nodes
from linkwork.studies.packages import import_optional

if TYPE_CHECKING:
    from linkwork.studies.rows import Rows
    from linkwork.studies.study import Study

SEPARATE_COLUMNS = 64  # components of a value that become columns; more become a list
SAMPLED = "sampled "  # prefix of a quantity's columns, where an output has its name
_KEY = b"linkwork.chunk"
_SUMMARIES = b"linkwork.summaries"


class DamagedFile(Exception):
    """A file whose contents are not those that were written."""


def import_parquet() -> Any:
    """Return pyarrow.parquet; an error with the install command where it is missing."""
    return import_optional("pyarrow.parquet", "a study with a folder")


def chunk_bytes(study: Study, rows: Rows, nodes: Nodes) -> bytes:
    """Return the Parquet file of a chunk."""
    import pyarrow as pa

    parquet = import_parquet()
    names, arrays = _columns(study, rows)
    first = int(rows.index[0])
    last = int(rows.index[-1]) + 1
    summaries = base64.b64encode(encode_nodes(nodes))
    key = {
        "study": study.digest,
        "first": first,
        "last": last,
        "checksum": _checksum(names, arrays, summaries),
    }
    fields = [_as_column(pa, x) for x in arrays]
    table = pa.table(fields, names=names)
    sink = pa.BufferOutputStream()
    how = {"compression": "none", "use_dictionary": False, "store_schema": False, "write_statistics": False}
    with parquet.ParquetWriter(sink, table.schema, **how) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({_KEY: json.dumps(key), _SUMMARIES: summaries})
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _columns(study: Study, rows: Rows) -> tuple[list[str], list[np.ndarray]]:
    """Return names and arrays of the columns, of the rows that the study keeps."""
    retained: Any = slice(None)
    if study.rows == "none":
        retained = slice(0, 0)
    elif study.rows == "failed":
        retained = ~has_status(rows.status, study.accepted)
    columns: dict[str, np.ndarray] = {"index": rows.index, "status": rows.status.astype(np.int32)}
    columns["steps"] = rows.steps.astype(np.int64)
    if len(study.models) > 1:
        columns["model"] = rows.model.astype(np.int32)
    values = (
        {} if study.rows == "outputs" else {name: x for name, x in rows.values.items() if name != "model"}
    )
    # a quantity's column makes way for an output of its name
    named = {SAMPLED + name if name in rows.outputs else name: x for name, x in values.items()}
    for name, x in {**named, **rows.outputs}.items():
        flat = x.reshape(len(x), -1)
        if x.ndim == 1:
            columns[name] = x
        elif flat.shape[1] <= SEPARATE_COLUMNS:
            columns |= {f"{name}[{k}]": flat[:, k] for k in range(flat.shape[1])}
        else:
            columns[name] = flat
    return list(columns), [np.ascontiguousarray(x[retained]) for x in columns.values()]


def _as_column(pa: Any, x: np.ndarray) -> Any:
    if x.ndim == 1:
        return pa.array(x)
    return pa.FixedSizeListArray.from_arrays(pa.array(x.reshape(-1)), x.shape[1])


def _checksum(names: list[str], arrays: list[np.ndarray], summaries: bytes) -> str:
    """Return the SHA-256 of columns and summaries."""
    result = hashlib.sha256(json.dumps(names).encode())
    for x in arrays:
        result.update(f"{x.dtype.str}{x.shape}".encode())
        result.update(np.ascontiguousarray(x).data)
    result.update(summaries)
    return result.hexdigest()


def read_chunk(path: Path, study_digest: str, first: int, last: int) -> Nodes:
    """Return the summaries of a chunk's file; `DamagedFile` if it is not as written, StudyError if another
    study's.
    """
    names, arrays, metadata = read_columns(path)
    try:
        key = json.loads(metadata[_KEY])
        summaries = metadata[_SUMMARIES]
        if _checksum(names, arrays, summaries) != key["checksum"]:
            raise DamagedFile("the checksum differs")
        if key["study"] != study_digest:
            raise StudyError(f"study: {path} belongs to another study")
        if (key["first"], key["last"]) != (first, last):
            raise DamagedFile("its samples differ from those in its name")
        return decode_nodes(base64.b64decode(summaries))
    except (KeyError, ValueError, TypeError) as error:
        if isinstance(error, StudyError):
            raise
        raise DamagedFile("its footer is damaged") from None


def read_columns(path: Path) -> tuple[list[str], list[np.ndarray], dict[bytes, bytes]]:
    """Return names and arrays of a file's columns, and its metadata."""
    parquet = import_parquet()
    try:
        with parquet.ParquetFile(path) as file:
            table = file.read(use_threads=False)
            metadata = dict(file.metadata.metadata or {})
        arrays = []
        for column in table.columns:
            x = column.combine_chunks()
            if hasattr(x.type, "list_size"):
                arrays.append(x.flatten().to_numpy(zero_copy_only=False).reshape(-1, x.type.list_size))
            elif hasattr(x.type, "value_type"):
                arrays.append(_lists(x))
            else:
                arrays.append(x.to_numpy(zero_copy_only=False))
        return list(table.column_names), arrays, metadata
    except Exception as error:
        if isinstance(error, MemoryError):
            raise
        raise DamagedFile(f"it cannot be read ({type(error).__name__})") from None


def _lists(x: Any) -> np.ndarray:
    """Return a column of lists of one length as rows; Parquet does not keep that length."""
    flat: np.ndarray = x.flatten().to_numpy(zero_copy_only=False)
    return flat.reshape(len(x), -1)
