"""Tables as text."""

from __future__ import annotations


def text_table(rows: list[dict[str, object]], columns: list[str]) -> str:
    """Rows as aligned text, numbers to the right."""
    cells = [[_cell(row[column]) for column in columns] for row in rows]
    widths = [
        max(len(column), *(len(line[index]) for line in cells))
        for index, column in enumerate(columns)
    ]
    numeric = [all(isinstance(row[column], (int, float)) for row in rows) for column in columns]

    def line(values: list[str]) -> str:
        return "  " + "  ".join(
            value.rjust(width) if right else value.ljust(width)
            for value, width, right in zip(values, widths, numeric, strict=True)
        )

    return "\n".join([line(columns), *(line(values) for values in cells)])


def _cell(value: object) -> str:
    text = "" if value is None else str(value)
    return text if len(text) <= 60 else text[:59] + "…"
