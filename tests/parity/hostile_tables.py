#!/usr/bin/env python3
"""Hostile tables, for tests/claims/data 2. Parquet and Arrow need pyarrow; text needs only Python.

    hostile_tables.py FOLDER      writes FOLDER/CASE/..., and FOLDER/cases.tsv

A case is a file, or several, that hold the rows of clean.csv in another spelling, or a fault. A line
of cases.tsv has, separated by tabs: the case's name; the glob of its files; what must happen, `same`
(each row is read as in clean.csv), `none` (no row is read) or the words of a refusal; a setting of the
job that it needs, or the verb `eval` instead of `predict`.
"""
import gzip
import json
import os
import sys

try:
    import pyarrow as pa
    import pyarrow.parquet as pq
except ImportError:
    pa = None

CITIES = ["Paris", "São Paulo", "New York, NY", 'the "Hague"', "two\nlines", "", " padded ", "東京", "x" * 3000]
TAGS = ["a|b", "b", "", "c|a|c", "tag with space|b"]
COLUMNS = ["click", "city", "tags", "price", "ts"]
ROWS = 400
JSON, PARQUET, ARROW = (f"data.format={f}" for f in ("jsonl", "parquet", "arrow"))
BY_TIME = "data.split={by: time, column: ts, valid_from: 1}"  # all rows are for validation


def rows():
    """Cells as text. The click depends on the city, so that each city's weight differs."""
    out = []
    for i in range(ROWS):
        city, tags = CITIES[i % len(CITIES)], TAGS[i * 7 % len(TAGS)]
        click = int(i * 2654435761 % 97 < 10 * (i % len(CITIES)) + 5)
        out.append([str(click), city, tags, f"{i % 13 / 4}", str(1700000000 + 60 * i)])
    return out


def cell(text, delimiter=",", quote_all=False):
    special = any(c in text for c in (delimiter, '"', "\n", "\r")) or text.startswith('"')
    return '"' + text.replace('"', '""') + '"' if special or quote_all else text


def csv_of(lines, delimiter=",", end="\n", header=COLUMNS, quote_all=False):
    """The bytes of a CSV file."""
    out = [] if header is None else [delimiter.join(cell(c, delimiter, quote_all) for c in header)]
    out += [delimiter.join(cell(c, delimiter, quote_all) for c in line) for line in lines]
    return "".join(line + end for line in out).encode()


def changed(lines, at, column, text):
    """Lines with another cell."""
    copy = [list(line) for line in lines]
    copy[at][column] = text
    return copy


def json_lines(lines, lists=False, ascii_only=True):
    """The bytes of an object a line. lists: tags as a list."""
    out = []
    for i, line in enumerate(lines):
        row = dict(zip(COLUMNS, line))
        row["click"], row["price"] = int(row["click"]), float(row["price"])
        if lists:
            row["tags"] = [t for t in row["tags"].split("|") if t]
        out.append(json.dumps(dict(reversed(row.items())) if i % 2 else row, ensure_ascii=ascii_only) + "\n")
    return "".join(out).encode()


class Maker:
    def __init__(self, root):
        self.root, self.cases = root, []

    def case(self, name, data, expected, setting="", suffix=".csv"):
        """data: the bytes of a file, or {file name: bytes}."""
        folder = os.path.join(self.root, name)
        os.makedirs(folder)
        files = data if isinstance(data, dict) else {"rows" + suffix: data}
        for file, text in files.items():
            with open(os.path.join(folder, file), "wb") as f:
                f.write(text)
        glob = next(iter(files)) if len(files) == 1 else "*" + suffix
        self.cases.append((name, os.path.join(folder, glob), expected, setting))


def spellings(m, clean):
    """Other ways to write the same rows."""
    text = csv_of(clean)
    m.case("every-cell-quoted", csv_of(clean, quote_all=True), "same")
    m.case("crlf", csv_of(clean, end="\r\n"), "same")
    m.case("byte-order-mark", b"\xef\xbb\xbf" + text, "same")
    m.case("mark-and-quotes", b"\xef\xbb\xbf" + csv_of(clean, quote_all=True), "same")
    m.case("no-last-newline", text[:-1], "same")
    m.case("blank-rows-at-the-end", text + b"\n\r\n\n", "same")
    m.case("tabs", csv_of(clean, "\t"), "same", r'data.csv.delimiter="\t"')
    m.case("semicolons", csv_of(clean, ";"), "same", "data.csv.delimiter=;")
    m.case("no-header", csv_of(clean, header=None), "same", "data.csv.header=false")
    m.case("other-names", csv_of(clean, header=["a", "b", "b", "", "e"]), "same", f"data.csv.names=[{','.join(COLUMNS)}]")
    m.case("gzip-of-many-members", b"".join(gzip.compress(text[i : i + 1000]) for i in range(0, len(text), 1000)), "same", suffix=".csv.gz")
    half = ROWS // 2
    m.case("several-files", {"1.csv": csv_of(clean[:half]), "2.csv": csv_of(clean[half:])}, "same")
    m.case("an-empty-part", {"1.csv": csv_of(clean), "2.csv": csv_of([])}, "same")
    m.case("numbers-with-exponents", csv_of([[*r[:3], f"{float(r[3]):.6e}", r[4]] for r in clean]), "same")
    m.case("numbers-with-signs-and-zeros", csv_of([[*r[:3], f"+{float(r[3]):09.4f}", r[4]] for r in clean]), "same")
    m.case("times-out-of-order", csv_of(clean), "same", BY_TIME)


def json_spellings(m, clean):
    m.case("json-lines", json_lines(clean), "same", JSON)
    m.case("json-lists-in-utf-8", json_lines(clean, lists=True, ascii_only=False), "same", JSON)
    m.case("json-crlf-and-spaces", json_lines(clean).replace(b"\n", b"  \r\n").replace(b": ", b"\t:  "), "same", JSON)
    m.case("json-gzip", gzip.compress(json_lines(clean)), "same", JSON, suffix=".gz")
    m.case("json-nulls-and-absent-keys", json_lines(clean).replace(b'"city": ""', b'"city": null').replace(b', "tags": ""', b""), "same", JSON)


def json_faults(m, clean):
    text = json_lines(clean)
    first = text.split(b"\n")[0]
    m.case("json-cut-off", text[:-20], "not a JSON object", JSON)
    m.case("json-unknown-key", text.replace(b'"city"', b'"citty"', 1), "the key 'citty', which data.columns does not name; the nearest is 'city'", JSON)
    m.case("json-twice", text.replace(first, first[:-1] + b', "city": "x"}', 1), "column 'city': the line has it twice", JSON)
    m.case("json-nested", text.replace(b'"Paris"', b'{"name": "Paris"}', 1), "column 'city': an object; expected a text", JSON)
    m.case("json-list-for-one", text.replace(b'"Paris"', b'["Paris"]', 1), "column 'city': a list; expected one value", JSON)
    m.case("json-nan", text.replace(b'"price": 0.0', b'"price": NaN', 1), "expected a value at byte", JSON)
    m.case("json-half-a-pair", text.replace(b"Paris", b"\\ud83d", 1), "expected an escape of a character", JSON)
    m.case("json-array", b"[" + text.replace(b"\n", b",\n")[:-2] + b"]", "expected '{' at byte 1", JSON)


def arrow_table(clean):
    click, city, tags, price, ts = map(list, zip(*clean))
    return pa.table({"click": pa.array(map(int, click), pa.int8()), "city": pa.array([c or None for c in city]),
                     "tags": [[t for t in x.split("|") if t] for x in tags], "price": pa.array(map(float, price)),
                     "ts": pa.array(map(int, ts)).cast(pa.timestamp("s"))})


def parquet_of(table, **options):
    out = pa.BufferOutputStream()
    pq.write_table(table, out, **options)
    return out.getvalue().to_pybytes()


def arrow_of(table, rows=100, **options):
    out = pa.BufferOutputStream()
    with pa.ipc.new_file(out, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as file:
        for batch in table.to_batches(max_chunksize=rows):
            file.write_batch(batch)
    return out.getvalue().to_pybytes()


def with_column(table, name, column):
    return table.set_column(table.schema.get_field_index(name), name, column)


def table_spellings(m, clean):
    table = arrow_table(clean)
    numbers = table.column("click").to_pylist()
    half = ROWS // 2
    for codec in ("none", "snappy", "gzip", "zstd", "lz4"):
        m.case(f"parquet-{codec}", parquet_of(table, compression=codec, row_group_size=90), "same", PARQUET)
    m.case("parquet-without-dictionaries", parquet_of(table, use_dictionary=False, data_page_version="2.0"), "same", PARQUET)
    m.case("parquet-int96-times", parquet_of(table, use_deprecated_int96_timestamps=True), "same", PARQUET)
    m.case("parquet-columns-reversed", parquet_of(table.select(COLUMNS[::-1])), "same", PARQUET)
    m.case("parquet-decimal-ignored", parquet_of(table.append_column("d", pa.array([1] * ROWS, pa.decimal128(5, 2)))), "column 'd'", PARQUET)
    m.case("parquet-several", {"1.csv": parquet_of(table.slice(0, half)), "2.csv": parquet_of(table.slice(half))}, "same", PARQUET)
    m.case("parquet-no-rows", parquet_of(table.slice(0, 0)), "none", PARQUET)
    m.case("arrow-dictionaries", arrow_of(with_column(table, "city", table.column("city").dictionary_encode())), "same", ARROW)
    m.case("arrow-lz4", arrow_of(table, compression="lz4"), "same", ARROW)
    m.case("arrow-large-types", arrow_of(with_column(with_column(table, "city", table.column("city").cast(pa.large_string())), "tags",
                                                     table.column("tags").cast(pa.large_list(pa.large_string())))), "same", ARROW)
    m.case("arrow-float-labels", arrow_of(with_column(table, "click", pa.array(map(float, numbers), pa.float32()))), "same", ARROW)


def table_faults(m, clean):
    table = arrow_table(clean)
    good = parquet_of(table)
    m.case("parquet-footer-cut-off", good[:-6], "rows.csv: ", PARQUET)
    m.case("parquet-wrong-magic", b"PAR2" + good[4:-4] + b"PAR2", "rows.csv: ", PARQUET)
    m.case("parquet-damaged-pages", good[:200] + b"\xff" * 400 + good[600:], "rows.csv", PARQUET)
    m.case("parquet-empty", b"", "rows.csv: ", PARQUET)
    m.case("parquet-encrypted", good[:-4] + b"PARE", "rows.csv: ", PARQUET)
    m.case("parquet-as-csv", good, "is a Parquet file; expected data.format: parquet")
    m.case("csv-as-parquet", csv_of(clean), "rows.csv: ", PARQUET)
    m.case("parquet-decimal", parquet_of(with_column(table, "price", pa.array([1] * ROWS, pa.decimal128(9, 2)))), "column 'price' is of type decimal", PARQUET)
    m.case("parquet-struct", parquet_of(with_column(table, "city", pa.array([{"a": 1}] * ROWS))), "column 'city' is of type struct", PARQUET)
    m.case("parquet-list-of-lists", parquet_of(with_column(table, "tags", pa.array([[["a"]]] * ROWS))), "column 'tags': a list of lists", PARQUET)
    m.case("parquet-map", parquet_of(with_column(table, "tags", pa.array([[("a", 1)]] * ROWS, pa.map_(pa.string(), pa.int32())))), "column 'tags' is of type map", PARQUET)
    m.case("parquet-float-id", parquet_of(with_column(table, "city", pa.array([1.5] * ROWS))), "column 'city' is of kind categorical", PARQUET)
    m.case("parquet-missing-column", parquet_of(table.drop_columns(["price"])), "has no column 'price'", PARQUET)
    m.case("parquet-mixed", {"1.csv": good, "2.csv": parquet_of(table.rename_columns(["click", "town", "tags", "price", "ts"]))}, "column 2 is 'town'", PARQUET)
    m.case("parquet-infinity", parquet_of(with_column(table, "price", pa.array([float("inf")] * ROWS))), "column 'price': 'inf' is not a finite number", PARQUET)
    m.case("arrow-cut-off", arrow_of(table)[:-100], "rows.csv: ", ARROW)
    m.case("arrow-damaged", arrow_of(table)[:900] + b"\xff" * 64 + arrow_of(table)[964:], "rows.csv", ARROW)


def faults(m, clean):
    """Files that must be refused, and the words of the refusal."""
    text = csv_of(clean)
    m.case("empty", b"", "is empty; expected a header with the names of the columns")
    m.case("header-only", csv_of([]), "none")
    m.case("short-row", csv_of(clean[:9] + [clean[9][:4]] + clean[10:]), "the row has 4 cells; expected 5")
    m.case("long-row", csv_of(clean[:9] + [clean[9] + ["x"]] + clean[10:]), "the row has 6 cells; expected 5")
    m.case("duplicate-names", csv_of(clean, header=["click", "city", "city", "price", "ts"]), "columns 2 and 3 are both 'city'")
    m.case("missing-column", csv_of([[*r[:3], r[4]] for r in clean], header=[*COLUMNS[:3], "ts"]), "has no column 'price'")
    m.case("unknown-column", csv_of([r + ["1"] for r in clean], header=COLUMNS + ["citty"]), "has the column 'citty', which data.columns does not name")
    m.case("huge-cell", csv_of(changed(clean, 3, 1, "x" * 70000)), "column 'city': the value is longer than 64 KiB")
    m.case("huge-row", csv_of(changed(clean, 3, 1, "x" * 2000000)), "has a row longer than 1048576 bytes|longer than")
    m.case("unclosed-quote", text.replace(b"\n0,Paris,", b'\n0,"Paris,', 1), "quote")
    m.case("text-after-quote", text.replace(b'"New York, NY"', b'"New York, NY" USA', 1), "column 'city': the value has text after its closing quote")
    m.case("zero-byte", text.replace(b"Paris", b"Pa\0is", 1), "column 'city': the value has a zero byte")
    m.case("latin-1", text.replace("São".encode(), b"S\xe3o", 1), "column 'city': the value is not valid UTF-8")
    m.case("utf-16", text.decode().encode("utf-16"), "UTF-16|not valid UTF-8|zero byte|has no column")
    m.case("old-mac-lines", csv_of(clean, end="\r"), "ends its lines with CR alone")
    m.case("word-for-number", csv_of(changed(clean, 3, 3, "n/a")), "column 'price': 'n/a' is not a number")
    m.case("comma-in-number", csv_of(changed(clean, 3, 3, "1,000.5")), "column 'price': '1,000.5' is not a number")
    m.case("number-too-large", csv_of(changed(clean, 3, 3, "1e99")), "column 'price': '1e99' is not a finite number")
    m.case("nan", csv_of(changed(clean, 3, 3, "nan")), "column 'price': 'nan' is not a")
    m.case("hexadecimal", csv_of(changed(clean, 3, 3, "0x10")), "column 'price': '0x10' is not a number")
    m.case("label-3", csv_of(changed(clean, 3, 0, "3")), "column 'click': the label is 3, and not 0 or 1", "eval")
    m.case("label-yes", csv_of(changed(clean, 3, 0, "yes")), "column 'click': the label is not a number")
    m.case("time-in-another-format", csv_of(changed(clean, 3, 4, "2024-01-31")), "column 'ts': '2024-01-31' is no", BY_TIME)
    m.case("mixed-schemas", {"1.csv": text, "2.csv": csv_of([[r[1], r[0], *r[2:]] for r in clean], header=["city", "click", *COLUMNS[2:]])}, "column 1 is")
    m.case("gzip-cut-off", gzip.compress(text)[:-200], "gzip|truncated|ends", suffix=".csv.gz")
    m.case("gzip-damaged", gzip.compress(text)[:300] + b"\xff" * 50 + gzip.compress(text)[350:], "gzip|damaged|invalid", suffix=".csv.gz")
    m.case("gzip-by-name-only", text, "same", suffix=".csv.gz")


def main():
    root = sys.argv[1]
    os.makedirs(root, exist_ok=True)
    clean = rows()
    with open(os.path.join(root, "clean.csv"), "wb") as f:
        f.write(csv_of(clean))
    m = Maker(root)
    spellings(m, clean)
    faults(m, clean)
    json_spellings(m, clean)
    json_faults(m, clean)
    if pa:
        table_spellings(m, clean)
        table_faults(m, clean)
    with open(os.path.join(root, "cases.tsv"), "w") as f:
        f.writelines("\t".join(c) + "\n" for c in m.cases)


main()
