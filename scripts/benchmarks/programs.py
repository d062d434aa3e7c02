"""The reference programs: the same work by a batch engine, as one who knows it well would write it.

Runs in a process of its own (`python -m benchmarks.programs PROGRAM WORKLOAD THREADS`), because the
number of threads is fixed when Polars is imported. It takes one JSON document per line, the input files
and the file to write, does the work and answers with the seconds from before it opened the first input
to when the result was written.

Measured alternatives: words as categoricals, one query per epoch and value_counts per epoch are slower; a
single packed integer as the key of readings or join gains nothing beyond the noise.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any, Literal

Program = Callable[[dict[str, str], str], None]
PROGRAMS = ("polars", "polars-streaming", "duckdb")


def polars_program(workload: str, engine: Literal["in-memory", "streaming"]) -> Program:
    import polars as pl

    def wordcount(files: dict[str, str]) -> pl.LazyFrame:
        lines = pl.scan_parquet(files["lines"], row_index_name="row")
        words = lines.select(
            (pl.col("row") // 100_000).cast(pl.Int64).alias("epoch"),
            pl.col("line").str.split(" ").alias("word"),
        ).explode("word")
        return words.group_by("epoch", "word").agg(pl.len().cast(pl.Int64).alias("count"))

    def readings(files: dict[str, str]) -> pl.LazyFrame:
        value = pl.col("value")
        epoch = (pl.col("ts") // 60).alias("epoch")
        return (
            pl.scan_parquet(files["readings"])
            .group_by(epoch, "house_id", "household_id", "plug_id")
            .agg(
                pl.len().cast(pl.Int64).alias("count"),
                value.mean().alias("mean"),
                value.min().alias("min"),
                value.max().alias("max"),
            )
        )

    def join(files: dict[str, str]) -> pl.LazyFrame:
        epoch = (pl.col("ts") // 60).alias("epoch")
        orders = pl.scan_parquet(files["orders"]).with_columns(epoch)
        payments = pl.scan_parquet(files["payments"]).with_columns(epoch)
        return orders.join(payments, on=["epoch", "id"], suffix="_right").select(
            "epoch", "id", "ts", "amount", "ts_right", "paid"
        )

    query = {"wordcount": wordcount, "readings": readings, "join": join}[workload]

    def program(files: dict[str, str], output: str) -> None:
        query(files).sink_parquet(output, compression="snappy", engine=engine)

    return program


QUERIES = {
    "wordcount": """
        SELECT epoch, word, count(*) AS count FROM (
            SELECT file_row_number // 100000 AS epoch, unnest(string_split(line, ' ')) AS word
            FROM read_parquet('{lines}', file_row_number = true))
        GROUP BY epoch, word""",
    "readings": """
        SELECT ts // 60 AS epoch, house_id, household_id, plug_id,
            count(*) AS count, avg(value) AS mean, min(value) AS min, max(value) AS max
        FROM read_parquet('{readings}')
        GROUP BY ALL""",
    "join": """
        SELECT o.ts // 60 AS epoch, o.id, o.ts, o.amount, p.ts AS ts_right, p.paid
        FROM read_parquet('{orders}') o JOIN read_parquet('{payments}') p
        ON o.id = p.id AND o.ts // 60 = p.ts // 60""",
}


def duckdb_program(workload: str, threads: int) -> Program:
    import duckdb

    query = QUERIES[workload]

    def program(files: dict[str, str], output: str) -> None:
        settings: dict[str, str | bool | int | float | list[str]] = {
            "threads": threads,
            "preserve_insertion_order": False,
        }
        with duckdb.connect(config=settings) as connection:
            quoted = {name: path.replace("'", "''") for name, path in files.items()}
            target = output.replace("'", "''")
            connection.execute(
                f"COPY ({query.format_map(quoted)}) TO '{target}' "
                "(FORMAT parquet, COMPRESSION snappy)"
            )

    return program


def serve(program: Program) -> None:
    """Answer requests from standard input until it ends."""
    for line in sys.stdin:
        request: dict[str, Any] = json.loads(line)
        begin = time.perf_counter()
        program(request["files"], request["output"])
        seconds = time.perf_counter() - begin
        print(json.dumps({"seconds": seconds}), flush=True)


def main(name: str, workload: str, threads: int) -> None:
    if name == "duckdb":
        serve(duckdb_program(workload, threads))
    else:
        serve(polars_program(workload, "streaming" if name.endswith("streaming") else "in-memory"))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
