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

    def pattern(files: dict[str, str]) -> pl.LazyFrame:
        # rows less than 17 s apart lie in the same 17 s or in two that follow one another
        steps = pl.scan_parquet(files["steps"])
        span = pl.col("ts") // 17
        low = steps.filter(pl.col("kind") == 1).select(
            "machine", pl.col("ts").alias("begin_ts"), pl.col("value").alias("low")
        )
        near = pl.concat_list(pl.col("begin_ts") // 17, pl.col("begin_ts") // 17 + 1).alias("span")
        high = steps.filter(pl.col("kind") == 2).select(
            "machine", span.alias("span"), pl.col("ts").alias("high_ts"), "value"
        )
        stop = steps.filter(pl.col("kind") == 3).select(
            "machine", span.alias("span"), pl.col("ts").alias("end_ts")
        )
        by = ["machine", "span"]
        rises = (
            low.with_columns(near)
            .explode("span")
            .join(high, on=by)
            .filter(
                pl.col("high_ts").is_between(pl.col("begin_ts"), pl.col("begin_ts") + 17),
                pl.col("value") > pl.col("low"),
            )
        )
        return (
            rises.with_columns(near)
            .explode("span")
            .join(stop, on=by)
            .filter(pl.col("end_ts").is_between(pl.col("high_ts"), pl.col("begin_ts") + 17))
            .select(
                (pl.col("end_ts") // 60).alias("epoch"),
                "machine",
                "begin_ts",
                "end_ts",
                (pl.col("value") - pl.col("low")).alias("rise"),
            )
        )

    query = {"wordcount": wordcount, "readings": readings, "join": join, "pattern": pattern}[
        workload
    ]

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
    "pattern": """
        WITH steps AS (SELECT *, ts // 17 AS span FROM read_parquet('{steps}')),
        low AS (SELECT *, unnest([ts // 17, ts // 17 + 1]) AS near FROM steps WHERE kind = 1),
        rises AS (
            SELECT l.machine, l.ts AS begin_ts, h.ts AS high_ts, h.value - l.value AS rise,
                unnest([l.ts // 17, l.ts // 17 + 1]) AS near
            FROM low l JOIN steps h ON h.kind = 2 AND l.machine = h.machine AND l.near = h.span
            WHERE h.ts BETWEEN l.ts AND l.ts + 17 AND h.value > l.value)
        SELECT s.ts // 60 AS epoch, r.machine, r.begin_ts, s.ts AS end_ts, r.rise
        FROM rises r JOIN steps s ON s.kind = 3 AND r.machine = s.machine AND r.near = s.span
        WHERE s.ts BETWEEN r.high_ts AND r.begin_ts + 17""",
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
