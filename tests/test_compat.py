"""The one place where ArviZ 0.x and 1.x differ."""

import arviz
import numpy as np
import pytest
import xarray as xr

from anonbayes import compat
from anonbayes.errors import AnonbayesError


@pytest.fixture
def idata():
    rng = np.random.default_rng(3)
    return compat.make_idata(
        {
            "posterior": {
                "pi_Sex": rng.dirichlet([1, 1], size=(4, 50)),
                "cleartext": rng.integers(0, 3, size=(4, 50, 6)).astype("int8"),
            },
            "sample_stats": {"energy": rng.normal(size=(4, 50))},
        },
        coords={"Sex": ["F", "M"]},
        dims={"pi_Sex": ["Sex"], "cleartext": ["row"]},
        attrs={"method": "gibbs"},
    )


def test_the_installed_arviz_takes_what_we_build(idata):
    kind = arviz.InferenceData if compat.has_inference_data() else xr.DataTree
    assert isinstance(idata, kind)
    assert list(arviz.summary(idata, var_names=["pi_Sex"]).index) == ["pi_Sex[F]", "pi_Sex[M]"]


def test_groups_come_apart_as_datasets(idata):
    found = compat.groups(idata)
    assert set(found) == {"posterior", "sample_stats"}
    assert all(type(dataset) is xr.Dataset for dataset in found.values())
    assert found["posterior"]["cleartext"].dtype == np.int8
    assert compat.group(idata, "sample_stats")["energy"].dims == ("chain", "draw")


@pytest.mark.parametrize("wrap", [xr.DataTree.from_dict, lambda groups: groups["posterior"]])
def test_trees_and_datasets_serve_both_generations(idata, wrap):
    posterior = compat.posterior_dataset(idata)
    xr.testing.assert_identical(compat.posterior_dataset(wrap({"posterior": posterior})), posterior)


def test_a_single_node_of_a_tree_is_a_group(idata):
    tree = xr.DataTree.from_dict(compat.groups(idata))
    assert list(compat.groups(tree["sample_stats"])) == ["sample_stats"]


def test_netcdf_gives_back_values_labels_types_and_attributes(idata, tmp_path):
    path = compat.write_groups(compat.groups(idata), tmp_path / "post.nc", attrs=idata.attrs)
    back, attrs = compat.read_groups(path)
    path.unlink()  # nothing keeps the file open, the values are in memory
    assert attrs["method"] == "gibbs"
    for name, dataset in compat.groups(idata).items():
        xr.testing.assert_equal(back[name], dataset)
    assert back["posterior"]["cleartext"].dtype == np.int8


def test_our_file_opens_in_arviz_and_theirs_in_ours(idata, tmp_path):
    ours = compat.write_groups(compat.groups(idata), tmp_path / "ours.nc", attrs={})
    theirs = arviz.from_netcdf(str(ours), engine="h5netcdf")
    xr.testing.assert_equal(
        compat.posterior_dataset(theirs).load(), compat.posterior_dataset(idata)
    )
    idata.to_netcdf(str(tmp_path / "theirs.nc"), engine="h5netcdf")
    xr.testing.assert_equal(
        compat.read_groups(tmp_path / "theirs.nc")[0]["posterior"],
        compat.posterior_dataset(idata),
    )


def test_arrays_get_the_names_arviz_gives():
    dataset = compat.as_dataset({"x": np.zeros((2, 5, 3)), "y": np.zeros(5)})
    assert dataset["x"].dims == ("chain", "draw", "x_dim_0")
    with pytest.raises(AnonbayesError, match="single value"):
        compat.as_dataset(3.0)


def test_statistics_are_those_of_arviz(idata):
    draws = compat.posterior_dataset(idata)["pi_Sex"].values[..., 0]
    selected = compat.select(idata, var_names="pi_Sex")
    assert float(compat.rhat(selected)["pi_Sex"][0]) == pytest.approx(float(arviz.rhat(draws)))
    assert float(compat.ess(selected, method="tail")["pi_Sex"][0]) == pytest.approx(
        float(arviz.ess(draws, method="tail", prob=(0.05, 0.95)))
    )
    assert float(compat.mcse(selected)["pi_Sex"][0]) == pytest.approx(
        np.asarray(arviz.mcse(draws)).item()
    )


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"group": "posteror"}, "Did you mean 'posterior'"),
        ({"var_names": "pi_sex"}, "Did you mean 'pi_Sex'"),
        ({"coords": {"sex": "F"}}, "'sex' is not a dimension"),
        ({"coords": {"Sex": "X"}}, "'X' is not on the dimension 'Sex'"),
    ],
)
def test_what_is_not_there_is_named(idata, kwargs, message):
    with pytest.raises(AnonbayesError, match=message):
        compat.select(idata, **kwargs)


def test_draws_need_both_sample_dimensions():
    with pytest.raises(AnonbayesError, match=r"\['chain'\] is missing"):
        compat.select(xr.Dataset({"x": ("draw", np.zeros(4))}))


def test_a_file_that_is_no_netcdf_is_named(tmp_path):
    with pytest.raises(AnonbayesError, match="is not a file"):
        compat.read_groups(tmp_path / "absent.nc")
    (tmp_path / "text.nc").write_text("no draws here")
    with pytest.raises(AnonbayesError, match="not a netCDF 4 file"):
        compat.read_groups(tmp_path / "text.nc")


def test_dims_must_match_the_array():
    with pytest.raises(AnonbayesError, match="1 dimensions after chain and draw"):
        compat.make_idata({"posterior": {"x": np.zeros((2, 5, 3))}}, dims={"x": ["a", "b"]})
