"""What several test files share."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import HealthCheck, settings

from tests.strict_sparse import check_indices

check_indices()

ROOT = Path(__file__).parents[1]

# How fast a machine is says nothing about the code. The same examples every time, so that a
# failure is one of the change at hand; HYPOTHESIS_PROFILE=explore looks for new ones.
TIMES = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile("same", deadline=None, derandomize=True, suppress_health_check=TIMES)
settings.register_profile("explore", deadline=None, max_examples=1000, suppress_health_check=TIMES)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))


@pytest.fixture(scope="session")
def golden() -> dict[str, Any]:
    """Reference values; the file says where they come from."""
    return json.loads((ROOT / "tests" / "golden" / "reference.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Directory of the real ARX and Anatomy tables, which lies beside the repository."""
    folder = ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("the tables in ../shared/data are not here")
    return folder


@pytest.fixture(autouse=True)
def close_figures():
    """No test leaves pictures to the next one."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.fixture(scope="session")
def client():
    """Two worker processes on this machine."""
    from anonbayes.cluster import local_client

    with local_client(2) as found:
        yield found


@pytest.fixture
def wards() -> pd.DataFrame:
    """Seven rows in three groups and one suppressed row; every kind of text cell."""
    return pd.DataFrame(
        {
            "age": ["20-24", "[20, 25)", "20-24", ">=25", ">=25", "25-29", "*"],
            "sex": ["f", "f", "f", "*", "{f, m}", "*", "*"],
            "zip": ["4550*", "4550*", "455**", "45511", "45511", "45511", "*"],
            "illness": ["flu", "cold", "flu", "cold", "cold", "asthma", "flu"],
        }
    )


@pytest.fixture
def ward_domains() -> dict[str, object]:
    return {
        "age": range(20, 30),
        "sex": ["f", "m"],
        "zip": ["45501", "45502", "45511", "46000"],
    }
