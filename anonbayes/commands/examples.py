"""Examples of every command, as the help shows them.

Each can be run in an empty directory after those before it: the tests do so. The first ones write
the files that the others read.
"""

from __future__ import annotations

__all__ = ["EXAMPLES", "epilog"]

_SURVEY = "--values single,partnership,married,divorced,widowed"

EXAMPLES: dict[str, tuple[str, ...]] = {
    "datasets list": ("anonbayes datasets list",),
    "datasets show": ("anonbayes datasets show clinic",),
    "datasets export": (
        "anonbayes datasets export clinic",
        "anonbayes datasets export clinic_anatomy",
    ),
    "datasets download": ("anonbayes datasets download adult",),
    "anonymize": (
        "anonbayes anonymize clinic.csv --sensitive diagnosis --scheme recode --local "
        "--k 4 --l 3 --hierarchies clinic_hierarchies --out released.csv",
        "anonbayes anonymize clinic.csv --sensitive diagnosis --k 10 --out boxes.csv",
        "anonbayes anonymize clinic.csv --sensitive diagnosis --scheme anatomy --l 3 "
        "--out qit.csv --anatomy st.csv",
    ),
    "describe": (
        "anonbayes describe released.csv --sensitive diagnosis --hierarchies clinic_hierarchies",
    ),
    "assess": (
        "anonbayes assess released.csv --cleartext clinic.csv --sensitive diagnosis "
        "--hierarchies clinic_hierarchies --out results",
        "anonbayes assess boxes.csv --cleartext clinic.csv --sensitive diagnosis "
        "--domain age=18-95 --out results_boxes",
    ),
    "diagnose": ("anonbayes diagnose results/posterior.nc",),
    "compare": (
        "anonbayes compare released.csv boxes.csv anatomy=qit.csv+st.csv --cleartext clinic.csv "
        "--sensitive diagnosis --hierarchies clinic_hierarchies --group group "
        "--plot tradeoff.png",
    ),
    "init": ("anonbayes init clinic.csv --sensitive diagnosis",),
    "run": ("anonbayes run clinic.toml --set model.draws=500",),
    "channel describe": (
        f"anonbayes channel describe -m randomized_response --epsilon 1 {_SURVEY}",
        "anonbayes channel describe -m utility_optimized_rr --epsilon 1 --values HIV,flu,none "
        "--sensitive HIV",
    ),
    "channel release": (
        "anonbayes channel release clinic.csv --column marital_status -m randomized_response "
        f"--epsilon 1 {_SURVEY} --out reports.csv",
    ),
    "channel estimate": (
        f"anonbayes channel estimate reports.csv -m randomized_response --epsilon 1 {_SURVEY} "
        "--method bayes",
    ),
    "budgets": (
        "anonbayes budgets clinic.csv --column zip --gamma 20 --out budgets.csv",
        "anonbayes budgets clinic.csv --column zip --gamma 50 --users 20000",
        "anonbayes budgets results/posterior.nc --column profession --gamma 50 --users 20000",
    ),
    "pie bound": (
        "anonbayes pie bound -m randomized_response --values 0-99999 --epsilon 8 "
        "--users 1000000 --target-error 0.9",
    ),
    "pie traces": (
        "anonbayes pie traces --users 100 --regions 50 --epsilon 2 --compare 1 --compare 4",
    ),
    "quantize column": (
        "anonbayes quantize column clinic.csv --column age --lower 0 --upper 100 --bins 10 "
        "--out binned.csv",
    ),
    "quantize average": (
        "anonbayes quantize average --numbers 38,52,47,120,61 --lower 0 --upper 200 "
        "--largest-error 10",
    ),
    "quantize leakage": (
        "anonbayes quantize leakage released.csv --sensitive diagnosis "
        "--hierarchies clinic_hierarchies",
    ),
}


def epilog(command: str) -> str:
    """Return the end of a command's help: its examples, each a paragraph of its own."""
    heading = "Example:" if len(EXAMPLES[command]) == 1 else "Examples:"
    return "\n\n".join([heading, *EXAMPLES[command]])
