"""Tables from files and frames: equal content is equal, whatever holds it; what cannot be read says so in one message."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from aitest_lib.data.sampling import StratifiedSampler
from aitest_lib.data.table import BATCH_ROWS, TableSource, memory_source, to_frame, to_table
from aitest_lib.errors import InputError, UnavailableError

FRAME = pd.DataFrame(
    {
        "age": [17, 90, 17, 45],
        "rate": [0.1, -2.5, np.nan, 1e-7],
        "job": pd.Series(["cook", None, "nurse", 'a "b", c'], dtype=object),
        "member": [True, False, False, True],
        "since": pd.to_datetime(["2020-01-31", "1999-12-01", None, "2024-02-29"]),
        "visits": pd.array([1, None, 3, 2**24 + 1], dtype="Int64"),
    }
)


def ids(source: TableSource) -> list[str]:
    return StratifiedSampler().choose(source, source.schema.names, [], None, 7).seed_ids


def written(tmp_path, name: str, content: str | bytes) -> TableSource:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return TableSource(str(path))


def as_jsonl(frame: pd.DataFrame) -> str:
    rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
    return "".join(json.dumps(row, default=lambda value: value.date().isoformat()) + "\n" for row in rows)


def problem(source: TableSource) -> str:
    with pytest.raises(InputError) as caught:
        source.schema  # noqa: B018  (reads the file)
        source.rows  # noqa: B018
        list(source.batches())
    text = str(caught.value)
    assert "\n" not in text
    return text


class TestEqualContent:
    @pytest.fixture
    def sources(self, tmp_path) -> dict[str, TableSource]:
        FRAME.to_csv(tmp_path / "t.csv", index=False)
        FRAME.to_parquet(tmp_path / "t.parquet")
        FRAME.iloc[::-1][FRAME.columns[::-1]].to_parquet(tmp_path / "reversed.parquet")
        pq.write_table(pa.Table.from_pandas(FRAME), tmp_path / "small.parquet", row_group_size=1)
        (tmp_path / "t.jsonl").write_text(as_jsonl(FRAME))
        paths = ("t.csv", "t.parquet", "reversed.parquet", "small.parquet", "t.jsonl")
        return {name: TableSource(str(tmp_path / name)) for name in paths} | {"frame": memory_source(FRAME)}

    def test_has_equal_seeds_in_equal_order(self, sources):
        expected = ids(sources["frame"])
        assert len(set(expected)) == 4
        assert {name: ids(source) for name, source in sources.items()} == dict.fromkeys(sources, expected)

    def test_has_equal_types(self, sources):
        expected = {
            "age": pa.int64(),
            "rate": pa.float64(),
            "job": pa.string(),
            "member": pa.bool_(),
            "since": pa.timestamp("us"),
            "visits": pa.int64(),
        }
        for name, source in sources.items():
            assert {field.name: field.type for field in source.schema} == expected, name

    def test_has_equal_rows(self, sources):
        expected = sources["frame"].take(np.array([3, 0, 0]), FRAME.columns).to_pylist()
        for name in ("t.csv", "t.parquet", "small.parquet", "t.jsonl"):
            assert sources[name].take(np.array([3, 0, 0]), FRAME.columns).to_pylist() == expected, name
            assert sources[name].rows == 4

    @pytest.mark.parametrize("index", [[5, 5, 5, 5], ["a", "b", "c", "d"]])
    def test_an_index_plays_no_part(self, tmp_path, index):
        frame = FRAME.set_axis(index)
        frame.to_parquet(tmp_path / "indexed.parquet")
        expected = ids(memory_source(FRAME))
        assert ids(memory_source(frame)) == expected
        assert ids(TableSource(str(tmp_path / "indexed.parquet"))) == expected

    @pytest.mark.parametrize(
        "changed",
        [
            FRAME.astype({"job": "category", "age": "int8"}),
            FRAME.astype({"age": "float64", "visits": "float64"}),
            FRAME.astype({"age": "UInt16", "job": "string", "member": "boolean", "rate": "Float64"}),
            FRAME.convert_dtypes(dtype_backend="pyarrow"),
            FRAME.assign(since=FRAME["since"].dt.tz_localize("UTC")),
        ],
        ids=["categories", "floats", "nullable", "arrow", "time zone"],
    )
    def test_storage_types_play_no_part(self, changed):
        assert ids(memory_source(changed)) == ids(memory_source(FRAME))

    def test_any_changed_cell_changes_its_id(self):
        expected = set(ids(memory_source(FRAME)))
        for name, value in {"age": 18, "rate": 0.1000001, "job": "cook ", "member": False, "visits": None}.items():
            changed = FRAME.copy()
            changed.loc[0, name] = value
            assert len(expected - set(ids(memory_source(changed)))) == 1, name

    def test_a_frames_digest_knows_its_types(self):
        text = memory_source(pd.DataFrame({"day": ["2020-01-01"]}))
        date = memory_source(pd.DataFrame({"day": pd.to_datetime(["2020-01-01"])}))
        assert text.digest() != date.digest()
        assert text.schema.field("day").type == pa.string()


class TestValues:
    def test_ids_beyond_24_and_53_bits_stay_apart(self, tmp_path):
        numbers = [2**24 + 1, 2**24 + 2, 2**53 + 1, 2**53 + 2, 2**62 + 1]
        frame = pd.DataFrame({"id": numbers})
        frame.to_csv(tmp_path / "t.csv", index=False)
        pq.write_table(pa.table({"id": pa.array(map(Decimal, numbers), pa.decimal128(20, 0))}), tmp_path / "t.parquet")
        jsonl = written(tmp_path, "t.jsonl", as_jsonl(frame) + '{"id": null}\n')
        for source in (memory_source(frame), TableSource(str(tmp_path / "t.csv")), TableSource(str(tmp_path / "t.parquet"))):
            assert source.take(np.arange(5), ["id"]).column("id").to_pylist() == numbers
        assert jsonl.take(np.arange(6), ["id"]).column("id").to_pylist() == [*numbers, None]

    def test_ids_beyond_64_bits_are_text(self, tmp_path):
        source = written(tmp_path, "t.csv", "id,x\n12345678901234567890,1e300\n12345678901234567891,2\n,3\n")
        assert source.take(np.arange(3), ["id"]).column("id").to_pylist() == [
            "12345678901234567890",
            "12345678901234567891",
            None,
        ]
        assert source.schema.field("x").type == pa.float64()

    def test_what_is_missing_in_a_csv(self, tmp_path):
        source = written(tmp_path, "t.csv", "n,c\nNA,NA\n,\nnull,?\n1,None\n2,n/a\n")
        assert source.take(np.arange(5), ["n", "c"]).to_pydict() == {
            "n": [None, None, None, 1, 2],
            "c": [None, None, "?", "None", None],
        }

    def test_a_type_comes_from_all_rows(self, tmp_path):
        source = written(tmp_path, "t.csv", "x\n" + "1\n" * 400_000 + "1.5\n")
        assert source.schema.field("x").type == pa.float64()

    def test_clock_times_are_text(self, tmp_path):
        source = written(tmp_path, "t.csv", "at\n09:30\n23:15\n")
        assert source.take(np.arange(2), ["at"]).column("at").to_pylist() == ["09:30", "23:15"]

    def test_names_with_dots_spaces_and_letters_of_all_kinds(self, tmp_path):
        frame = pd.DataFrame({"a": [1], "a.b": [2], "a.b.c": [3], "größe in cm": [4], "": [5]})
        frame.to_parquet(tmp_path / "t.parquet")
        assert TableSource(str(tmp_path / "t.parquet")).take(np.array([0]), frame.columns).to_pylist() == frame.to_dict(
            "records"
        )

    def test_columns_without_any_value_are_text(self, tmp_path):
        source = written(tmp_path, "t.csv", "a,b\n1,\n2,\n")
        assert source.schema.field("b").type == pa.string()
        assert source.take(np.array([0]), ["b"]).to_pylist() == [{"b": None}]

    def test_a_byte_order_mark_is_no_part_of_a_name(self, tmp_path):
        assert written(tmp_path, "t.csv", "\ufeffa,b\n1,2\n").schema.names == ["a", "b"]


class TestFrames:
    def test_there_and_back(self):
        source = memory_source(FRAME)
        table = source.take(np.arange(4), source.schema.names)
        frame = to_frame(table, ["rate", "visits"])
        assert {name: kind.str for name, kind in frame.dtypes.items()} == {
            "age": "<i8",
            "rate": "<f8",
            "job": "|O",
            "member": "|b1",
            "since": "<M8[us]",
            "visits": "<f8",
        }
        assert to_table(frame, table.schema).equals(table)

    def test_a_type_hangs_on_the_column_not_on_the_batch(self):
        table = pa.table({"n": [1, 2, None], "b": [True, False, None]})
        for part in (table, table.slice(0, 2), table.slice(2)):
            frame = to_frame(part, ["n", "b"])
            assert (frame["n"].dtype, frame["b"].dtype) == (np.float64, object)
        assert to_frame(table.slice(0, 2))["n"].dtype == np.int64

    def test_large_ids_with_gaps_keep_their_digits(self):
        table = pa.table({"id": [2**53 + 1, None]})
        frame = to_frame(table, ["id"])
        assert frame["id"].dtype == pd.Int64Dtype()
        assert to_table(frame, table.schema).equals(table)

    def test_columns_can_be_written(self):
        frame = to_frame(pa.table({"a": [1, 2], "b": ["x", "y"]}))
        frame.loc[0, "a"] = 5
        frame.loc[0, "b"] = "z"
        assert frame.to_dict("list") == {"a": [5, 2], "b": ["z", "y"]}


class TestStreams:
    ROWS = 1_000_000

    @pytest.fixture(scope="class")
    @classmethod
    def large(cls, tmp_path_factory) -> TableSource:
        path = tmp_path_factory.mktemp("large") / "t.parquet"
        pq.write_table(pa.table({"id": pa.array(range(cls.ROWS)), "half": pa.nulls(cls.ROWS, pa.string())}), path)
        return TableSource(str(path))

    def test_a_million_rows_come_in_pieces(self, large):
        sizes = [batch.num_rows for batch in large.batches()]
        assert sum(sizes) == large.rows == self.ROWS
        assert max(sizes) <= BATCH_ROWS
        assert "_table" not in large.__dict__

    def test_the_first_piece_needs_no_other(self, large):
        first = next(iter(large.batches(["id"])))
        assert first.column("id").to_pylist() == list(range(first.num_rows))
        assert first.column_names == ["id"]

    def test_rows_are_taken_in_the_order_asked_for(self, large):
        wanted = np.array([999_999, 3, 70_000, 3, 0])
        assert large.take(wanted, ["id"]).column("id").to_pylist() == wanted.tolist()
        assert large.take(wanted[:0], ["id"]).num_rows == 0


class TestProblems:
    @pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
    def test_no_file(self, tmp_path, ending):
        text = problem(TableSource(str(tmp_path / f"none.{ending}")))
        assert text == f"data {tmp_path}/none.{ending}: there is no such file; in a suite, paths are relative to it"

    @pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
    def test_a_folder(self, tmp_path, ending):
        (tmp_path / f"t.{ending}").mkdir()
        assert "Is a directory; expected a readable table file" in problem(TableSource(str(tmp_path / f"t.{ending}")))

    @pytest.mark.parametrize("name", ["t.xlsx", "t", "t.csv.gz"])
    def test_an_unknown_ending(self, tmp_path, name):
        assert "expected one of .csv, .parquet, .pq, .jsonl, .ndjson" in problem(written(tmp_path, name, "a\n1\n"))

    @pytest.mark.parametrize("url", ["nope://x/t.csv", "nope://x/t.parquet"])
    def test_an_unknown_protocol(self, url):
        assert "expected a path or an fsspec URL" in problem(TableSource(url))

    def test_a_server_that_is_not_there(self):
        with pytest.raises(UnavailableError, match="cannot be read"):
            TableSource("ftp://127.0.0.1:9/t.csv").schema  # noqa: B018

    @pytest.mark.parametrize("name", ["t.csv", "t.jsonl"])
    def test_an_empty_file(self, tmp_path, name):
        assert problem(written(tmp_path, name, "")).endswith("got an empty file, expected rows")

    @pytest.mark.parametrize(("name", "content"), [("t.csv", "a,b\n"), ("t.jsonl", "\n")])
    def test_no_rows(self, tmp_path, name, content):
        assert problem(written(tmp_path, name, content)).endswith("got no rows, expected at least one")

    def test_no_rows_in_a_frame_or_in_parquet(self, tmp_path):
        FRAME.iloc[:0].to_parquet(tmp_path / "t.parquet")
        for source in (TableSource(str(tmp_path / "t.parquet")), memory_source(FRAME.iloc[:0])):
            assert problem(source).endswith("got no rows, expected at least one")

    def test_a_column_twice(self, tmp_path):
        expected = "column 'a' occurs twice; rename one of them"
        assert problem(written(tmp_path, "t.csv", "a,b,a\n1,2,3\n")).endswith(expected)
        pq.write_table(pa.table([[1], [2]], names=["a", "a"]), tmp_path / "t.parquet")
        assert problem(TableSource(str(tmp_path / "t.parquet"))).endswith(expected)
        with pytest.raises(InputError, match=expected):
            memory_source(pd.DataFrame([[1, 2]], columns=["a", "a"]))
        with pytest.raises(InputError, match="column '1' occurs twice"):
            memory_source(pd.DataFrame([[1, 2]], columns=[1, "1"]))
        assert "Column(/a) was specified twice" in problem(written(tmp_path, "t.jsonl", '{"a": 1, "a": 2}\n'))

    def test_nested_columns(self, tmp_path):
        pq.write_table(pa.table({"tags": [["x"]], "n": [1]}), tmp_path / "t.parquet")
        sources = [TableSource(str(tmp_path / "t.parquet")), written(tmp_path, "t.jsonl", '{"tags": ["x"], "n": 1}\n')]
        for source in sources:
            text = problem(source)
            assert "column 'tags' has type list<" in text
            assert text.endswith("expected numbers, text, booleans or dates; drop or convert it")
        with pytest.raises(InputError, match="column 'tags' has type list"):
            memory_source(pd.DataFrame({"tags": [["x"]]}))

    def test_infinities(self, tmp_path):
        expected = "column 'x' holds an infinity, expected finite numbers or missing values"
        FRAME.assign(x=[1.0, np.inf, 2, 3]).to_parquet(tmp_path / "t.parquet")
        assert expected in problem(TableSource(str(tmp_path / "t.parquet")))
        assert expected in problem(written(tmp_path, "t.csv", "x\n1\n-inf\n"))
        with pytest.raises(InputError, match=expected):
            memory_source(pd.DataFrame({"x": [np.inf]}))

    def test_text_that_is_not_utf_8(self, tmp_path):
        assert "if it is text, save it as UTF-8" in problem(written(tmp_path, "t.csv", "name\nM\xfcller\n".encode("latin1")))
        assert "not UTF-8" in problem(written(tmp_path, "t.csv", "gr\xf6sse\n1\n".encode("latin1")))
        assert "not UTF-8" in problem(written(tmp_path, "keys.jsonl", '{"gr\xf6sse": 1}\n'.encode("latin1")))
        assert "column 'name' holds text that is not UTF-8" in problem(
            written(tmp_path, "t.jsonl", '{"name": "M\xfcller"}\n'.encode("latin1"))
        )

    @pytest.mark.parametrize(
        ("name", "content"),
        [
            ("t.parquet", b"a,b\n1,2\n"),
            ("t.parquet", b""),
            ("t.parquet", b"PAR1PAR1"),
            ("t.pq", b"x" * 5_000),
            ("t.jsonl", b"a,b\n1,2\n"),
            ("t.jsonl", b'[{"a": 1}]\n'),
            ("t.jsonl", b'{"a": 1}\n{"a": "x"}\n'),
            ("t.csv", b"a,b\n1,2,3\n"),
        ],
    )
    def test_content_that_is_not_what_the_ending_says(self, tmp_path, name, content):
        text = problem(written(tmp_path, name, content))
        assert text.startswith(f"data {tmp_path}/{name} cannot be read: ")
        assert text.endswith("check that it is the format its ending says")

    def test_a_broken_row_is_not_shown(self, tmp_path):
        text = problem(written(tmp_path, "t.csv", "a,b\n1,2\n123-45-6789,secret,3\n"))
        assert "Expected 2 columns, got 3;" in text
        assert "secret" not in text

    def test_a_page_damaged_deep_inside(self, tmp_path):
        path = tmp_path / "t.parquet"
        pq.write_table(pa.table({"x": np.arange(200_000)}), path, row_group_size=50_000, use_dictionary=False)
        place = pq.ParquetFile(path).metadata.row_group(3).column(0).data_page_offset
        data = bytearray(path.read_bytes())
        data[place : place + 200] = b"\xff" * 200
        path.write_bytes(data)
        source = TableSource(str(path))
        assert source.rows == 200_000
        assert "cannot be read: " in problem(source)

    @pytest.mark.parametrize(
        "values",
        [[1, "secret"], [2**70], [1j], [pd.Period("2020")], [object()], [datetime.date(2020, 1, 1), "secret"]],
        ids=["mixed", "huge", "complex", "period", "object", "dates"],
    )
    def test_a_frames_column_of_no_known_type(self, values):
        with pytest.raises(InputError, match=r"data: column 'x' mixes types .*; make it one of these") as caught:
            memory_source(pd.DataFrame({"n": [0] * len(values), "x": pd.Series(values, dtype=object)}))
        assert "secret" not in str(caught.value)

    def test_numbers_beyond_64_bits(self, tmp_path):
        pq.write_table(pa.table({"id": pa.array([2**63], pa.uint64())}), tmp_path / "t.parquet")
        assert problem(TableSource(str(tmp_path / "t.parquet"))).endswith(
            "column 'id' has type uint64 with values beyond int64; store it as text"
        )

    def test_bytes_and_durations(self):
        for values, kind in ((b"x", "binary"), (datetime.timedelta(1), "duration")):
            with pytest.raises(InputError, match=f"column 'x' has type {kind}"):
                memory_source(pd.DataFrame({"x": [values]}))

    def test_what_is_no_frame(self):
        with pytest.raises(InputError, match="got a list, expected a pandas DataFrame or a path"):
            memory_source([[1, 2]])

    def test_a_frame_of_another_process(self):
        with pytest.raises(InputError, match="memory of another process; run it again from there"):
            TableSource("memory:0123").rows  # noqa: B018
