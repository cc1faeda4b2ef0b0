"""Text files: nothing is guessed, and every fault is named with its file."""

import pytest

from anonbayes.errors import TableError
from anonbayes.io.text import check_names, read_csv_text


def written(tmp_path, data):
    file = tmp_path / "t.csv"
    file.write_bytes(data if isinstance(data, bytes) else data.encode())
    return file


def test_cells_stay_text(tmp_path):
    frame = read_csv_text(written(tmp_path, "a;b;c\n01;NA;null\n1e5;; x \n"))
    assert frame.to_numpy().tolist() == [["01", "NA", "null"], ["1e5", "", " x "]]


def test_crlf_bom_quotes_and_blank_lines(tmp_path):
    frame = read_csv_text(written(tmp_path, '\ufeffa;b\r\n"x;y";1\r\n\r\nü;2\r\n'))
    assert list(frame.columns) == ["a", "b"]
    assert frame.to_numpy().tolist() == [["x;y", "1"], ["ü", "2"]]


@pytest.mark.parametrize(
    ("data", "part"),
    [
        ("a;b\n", "header but no rows"),
        ("", "is empty"),
        ("a;b\n1;2;3\n", "line 2"),
        ("a;b\n1;2\n3\n", "line 3: 1 cells where 2"),
        ("a;a\n1;2\n", "'a' appears twice"),
        ("a;\n1;2\n", "column 2 has no name"),
        ('a;b\n"x;2\n', "not a table"),
        ("a;b\nZürich;1\n".encode("latin-1"), "not UTF-8 text .line 2."),
        ("a;b\n1;2\n".encode("utf-16"), "not UTF-8"),
    ],
)
def test_faults_are_named(tmp_path, data, part):
    with pytest.raises(TableError, match=part) as caught:
        read_csv_text(written(tmp_path, data))
    assert "t.csv" in str(caught.value)


def test_no_file_directory_and_separator(tmp_path):
    with pytest.raises(TableError, match="no file"):
        read_csv_text(tmp_path / "absent.csv")
    with pytest.raises(TableError, match="cannot be read"):
        read_csv_text(tmp_path)
    with pytest.raises(TableError, match="single character"):
        read_csv_text(tmp_path / "t.csv", sep=";;")


def test_names():
    check_names(["a", "b"], "here")
    with pytest.raises(TableError, match="3 is not text"):
        check_names(["a", 3], "here")


@pytest.mark.parametrize("encoding", ["no such", None, 8, "utf-8\0"])
def test_an_unknown_encoding(encoding, tmp_path):
    (tmp_path / "t.csv").write_text("a;b\n1;2\n")
    with pytest.raises(TableError, match=r"encoding=.* is not known"):
        read_csv_text(tmp_path / "t.csv", encoding=encoding)
