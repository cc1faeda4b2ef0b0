"""Mechanisms of local privacy, each declared once.

Command line, completion, scenarios, their schema and `choose_channel` read this list; how reports
are written to files is a method of the channel (`Channel.spell`, `Channel.read_texts`). Nothing
large is imported here: a channel's module is loaded when it is made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from anonbayes.errors import AnonbayesError, one_of

if TYPE_CHECKING:
    from anonbayes.domains import Domain

__all__ = ["MECHANISMS", "OPTIONS", "MechanismKind", "find_mechanism", "make_channel"]

#: What a mechanism may take beside domain and budget, and what it is. Options of the command line
#: and keys of scenarios have these names.
OPTIONS: Mapping[str, str] = MappingProxyType(
    {
        "sensitive": "the values to protect",
        "g": "the number of symbols of a hash function",
        "d": "the number of values in a report",
        "budgets": "a budget for each value",
        "infinite": "the budget of all reports of a person together",
        "length": "the size to which sets are padded",
        "matrix": "the probability of each report from each value",
        "shares": "the shares of values that the reports should preserve",
    }
)


@dataclass(frozen=True)
class MechanismKind:
    """One mechanism.

    Attributes
    ----------
    name : str
        On the command line and in scenarios.
    title : str
        What a report is, in a few words, for help and completion.
    factory : str
        ``module:callable`` below `anonbayes.channels`, called with the domain, the needed options
        in their order, the budget unless there are `budgets`, and given options by keyword.
    aliases : tuple of str
        Other names.
    needs, accepts : tuple of str
        `OPTIONS` that are required and that are allowed.
    numeric : bool
        Whether values are ascending numbers, such as those of a `BinnedDomain`.
    sets : bool
        Whether people hold sets of values.
    """

    name: str
    title: str
    factory: str
    aliases: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    accepts: tuple[str, ...] = ()
    numeric: bool = False
    sets: bool = False

    @property
    def takes_epsilon(self) -> bool:
        """Whether it takes one budget for all values that it protects."""
        return not {"budgets", "matrix"} & set(self.needs)

    def check(self, given: Mapping[str, Any], *, prefix: str = "") -> None:
        """Raise `AnonbayesError` for an option that is missing or does not apply."""
        for option, value in given.items():
            absent = value is None or (option in self.needs and _is_empty(value))
            if absent and option in self.needs:
                raise AnonbayesError(f"{self.name} needs {prefix}{option}, {OPTIONS[option]}.")
            if not absent and not _is_empty(value) and option not in (*self.needs, *self.accepts):
                raise AnonbayesError(f"{prefix}{option} cannot be used with {self.name}.")

    def make(self, domain: Domain, epsilon: float | None = None, **options: Any) -> Any:
        """Return the channel; see `make_channel`."""
        one = {"epsilon": epsilon} if self.takes_epsilon else {}
        self.check({**dict.fromkeys(self.needs), **options})
        module, _, path = self.factory.partition(":")
        target: Any = import_module(f"anonbayes.channels.{module}")
        for attribute in path.split("."):
            target = getattr(target, attribute)
        more = {o: options[o] for o in (*self.needs, *self.accepts) if options.get(o) is not None}
        channel: Any = target(domain, **more, **one)
        return channel


def _is_empty(value: Any) -> bool:
    return isinstance(value, list | tuple | set | dict) and not value


_ALL = (
    MechanismKind(
        "randomized_response",
        "a value, true or any other",
        "response:RandomizedResponse",
        aliases=("rr", "grr", "krr"),
    ),
    MechanismKind(
        "utility_optimized_rr",
        "the same, protecting sensitive values only",
        "response:UtilityOptimizedRR",
        aliases=("urr",),
        needs=("sensitive",),
    ),
    MechanismKind("rappor", "bits, each flipped with the same probability", "unary:RAPPOR"),
    MechanismKind(
        "unary_encoding", "bits, the optimal ones", "unary:UnaryEncoding.optimal", aliases=("oue",)
    ),
    MechanismKind(
        "utility_optimized_rappor",
        "bits, protecting sensitive values only",
        "unary:UtilityOptimizedRAPPOR.optimal",
        aliases=("urap",),
        needs=("sensitive",),
    ),
    MechanismKind(
        "subset_selection",
        "a set of values; the most accurate for small budgets",
        "subset:SubsetSelection",
        aliases=("ss",),
        accepts=("d",),
    ),
    MechanismKind(
        "hadamard_response",
        "a number of few bits, quickly counted; for large domains and small budgets",
        "hadamard:HadamardResponse",
        aliases=("hr",),
    ),
    MechanismKind(
        "local_hashing",
        "a symbol of a random hash function; for large domains",
        "hashing:LocalHashing.optimal",
        aliases=("olh", "glh"),
        accepts=("g",),
    ),
    MechanismKind(
        "input_discriminative_ue",
        "bits, with a budget per value",
        "discriminative:InputDiscriminativeUE.optimal",
        aliases=("idue",),
        needs=("budgets",),
    ),
    MechanismKind(
        "matrix",
        "a report drawn from a published table of probabilities (post-randomization)",
        "matrix:MatrixChannel",
        aliases=("pram",),
        needs=("matrix",),
    ),
    MechanismKind(
        "invariant_pram",
        "a value, with shares expected to equal the true ones",
        "matrix:MatrixChannel.invariant",
        needs=("shares",),
    ),
    MechanismKind(
        "padded_sets",
        "one member of a set of values; for attributes with several values per person",
        "sets:PaddedSets",
        needs=("length",),
        sets=True,
    ),
    MechanismKind(
        "longitudinal_rappor",
        "bits, remembered and flipped again for every report",
        "longitudinal:LongitudinalUE.rappor",
        aliases=("l_sue",),
        accepts=("infinite",),
    ),
    MechanismKind(
        "longitudinal_osue",
        "the same, more accurate for many values",
        "longitudinal:LongitudinalUE",
        aliases=("l_osue",),
        accepts=("infinite",),
    ),
    MechanismKind(
        "square_wave",
        "a bin near that of a number; for the distribution of numbers",
        "square_wave:SquareWave",
        aliases=("sw",),
        numeric=True,
    ),
    MechanismKind(
        "piecewise",
        "a number near the true one; for means",
        "numbers:Piecewise",
        aliases=("pm",),
        numeric=True,
    ),
    MechanismKind(
        "duchi",
        "one of two numbers; for means with small budgets",
        "numbers:Duchi",
        numeric=True,
    ),
)

#: Every mechanism by its name.
MECHANISMS: Mapping[str, MechanismKind] = MappingProxyType({m.name: m for m in _ALL})


def find_mechanism(name: str) -> MechanismKind:
    """Return the mechanism with that name or alias; raise `AnonbayesError` if there is none.

    Examples
    --------
    >>> find_mechanism("olh").name
    'local_hashing'
    """
    for mechanism in MECHANISMS.values():
        if name in mechanism.aliases:
            return mechanism
    one_of("mechanism", name, MECHANISMS)
    return MECHANISMS[name]


def make_channel(name: str, domain: Domain, epsilon: float | None = None, **options: Any) -> Any:
    """Return the channel with that name.

    Parameters
    ----------
    name : str
        One of `MECHANISMS`, or an alias.
    domain : Domain
        The values.
    epsilon : float
        Budget; not for mechanisms with a budget per value.
    **options
        Those of `OPTIONS` that the mechanism needs or accepts; others may be None.

    Examples
    --------
    >>> from anonbayes import Domain
    >>> make_channel("randomized_response", Domain("answer", ["yes", "no"]), 1.0).epsilon
    1.0
    """
    return find_mechanism(name).make(domain, epsilon, **options)
