"""Numbers in words, and texts read as numbers: what people see and write."""

import importlib
import math

import numpy as np

from anonbayes.cli.options import by_name, parse_number
from anonbayes.figures import _power
from anonbayes.formats import count, number, plain, share, standard_error, with_error
from anonbayes.scenario.keys import in_options
from anonbayes.scenario.outputs import as_json


def test_numbers_as_people_read_them():
    asked = (0.3337, 0.00001, 0.99999, 1.0, math.nan)
    assert [*map(share, asked)] == ["33.4%", "<0.1%", ">99.9%", "100.0%", "–"]
    asked = (0.012345, 1.5, 4690.47, 1e-9, math.inf)
    assert [*map(number, asked)] == ["0.0123", "1.50", "4,690", "1.00e-09", "∞"]
    assert count(1001.0, "row") == "1,001 rows" and count(2, "person", "people") == "2 people"
    assert standard_error(0.0) == "exact" and standard_error(math.nan) == "not known"
    assert standard_error(0.002, of_share=True) == "± 0.20 points"
    assert with_error(2.00934, 0.0153) == "2.009 ± 0.015" and with_error(31.4, 12.0) == "31 ± 12"
    assert [*map(_power, (0.001, 100_000, 1e-5, 2e7))] == ["0.001", "100,000", "10⁻⁵", "2×10⁷"]


def test_values_as_json_takes_them():
    assert plain({"a": np.float64(0.5), "b": [math.inf, np.int64(2)]}) == {"a": 0.5, "b": [None, 2]}
    text = as_json({"format": 1, "rows": [{"row": 0}, {"row": 1}]})
    assert text == '{\n  "format": 1,\n  "rows": [\n    {"row":0},\n    {"row":1}\n  ]\n}'


def test_what_options_say():
    assert by_name(["sex=f,m", "age=18-99"], option="--domain") == {"sex": "f,m", "age": "18-99"}
    assert by_name(["north=4000"], option="--stratum", number=int) == {"north": 4000}
    assert [*map(parse_number, ("1e3", "inf", "many", "nan"))] == [1000.0, math.inf, None, None]
    importlib.import_module("anonbayes.scenario.release_assessment")  # declares these keys
    said = in_options("limits.max_cost = 7 needs [cleartext].", {})
    assert said == "--max-cost 7 needs --cleartext."
