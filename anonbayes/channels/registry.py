"""Mechanisms of local privacy, each declared once.

The command line, completion, scenarios, their schema and `choose_channel` use this list; how
reports are written to files is defined by the channel (`Channel.spell`, `Channel.read_texts`).
Nothing large is imported here: a channel's module is imported when the channel is made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from anonbayes.errors import AnonbayesError, ChannelError, one_of

if TYPE_CHECKING:
    import numpy.typing as npt
    import pandas as pd
    from matplotlib.axes import Axes

    from anonbayes.channels.pure import PureChannel
    from anonbayes.domains import Domain
    from anonbayes.notions.ldp import Notion

#: Options of mechanisms besides domain and budget, with descriptions. The options of the command
#: line and the keys of scenarios have these names.
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
    """A mechanism: its name on the command line and in scenarios, and what a report is.

    `factory` is ``module:callable`` below `anonbayes.channels`, called with the domain, the options
    that it `needs` in order, the budget unless there are `budgets`, and the options that it
    `accepts` by keyword. If `numeric`, values are ascending numbers; if `sets`, people have sets.
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
        """Whether it takes a single budget for all values that it protects."""
        return not {"budgets", "matrix"} & set(self.needs)

    def check(self, given: Mapping[str, object], *, prefix: str = "") -> None:
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
        return target(domain, **more, **one)


def _is_empty(value: object) -> bool:
    return isinstance(value, list | tuple | set | dict) and not value


_ALL = (
    MechanismKind(
        "randomized_response",
        "a value, true or any other",
        "pure:RandomizedResponse",
        aliases=("rr", "grr", "krr"),
    ),
    MechanismKind(
        "utility_optimized_rr",
        "the same, protecting sensitive values only",
        "pure:UtilityOptimizedRR",
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
        "subsets:SubsetSelection",
        aliases=("ss",),
        accepts=("d",),
    ),
    MechanismKind(
        "hadamard_response",
        "a number of few bits, quickly counted; for large domains and small budgets",
        "subsets:HadamardResponse",
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
        "several:PaddedSets",
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
        "numbers:SquareWave",
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
        "duchi", "one of two numbers; for means with small budgets", "numbers:Duchi", numeric=True
    ),
)

#: Every mechanism by its name.
MECHANISMS: Mapping[str, MechanismKind] = MappingProxyType({m.name: m for m in _ALL})


def find_mechanism(name: str) -> MechanismKind:
    """Return the mechanism with a name or alias; raise `AnonbayesError` if there is none."""
    for mechanism in MECHANISMS.values():
        if name in mechanism.aliases:
            return mechanism
    one_of("mechanism", name, MECHANISMS)
    return MECHANISMS[name]


def make_channel(name: str, domain: Domain, epsilon: float | None = None, **options: Any) -> Any:
    """Return the channel with a name or alias; `options` are those of `OPTIONS`, or None."""
    return find_mechanism(name).make(domain, epsilon, **options)


@dataclass(frozen=True)
class Advice:
    """Mechanisms that satisfy a guarantee, most accurate first.

    Attributes
    ----------
    notion : Notion
        The guarantee; every channel was audited for it.
    n : int
        Number of reports.
    norm : str
        Norm of the loss.
    channels : mapping of str to Channel
        Channels by name of the mechanism, best first.
    losses : tuple of float
        Expected loss of each channel's empirical estimate: its maximum over all distributions,
        unless a distribution was given.
    """

    notion: Notion
    n: int
    norm: str
    channels: Mapping[str, PureChannel]
    losses: tuple[float, ...]

    @property
    def best(self) -> PureChannel:
        """The channel with the smallest loss."""
        return next(iter(self.channels.values()))

    @property
    def table(self) -> pd.DataFrame:
        """One row per mechanism: expected loss, its ratio to the best, and what is sent."""
        import pandas as pd

        return pd.DataFrame(
            {
                "loss": self.losses,
                "times_best": [loss / self.losses[0] for loss in self.losses],
                "report": [MECHANISMS[name].title for name in self.channels],
            },
            index=pd.Index(list(self.channels), name="mechanism"),
        )

    def plot(self, *, ax: Axes | None = None) -> Axes:
        """Plot expected losses on a logarithmic scale, labelled with multiples of the smallest."""
        from anonbayes.figures import SERIES, make_axes, plain_log_axis

        ax = make_axes(ax, 6.0, 1.2 + 0.3 * len(self.losses))
        names = [_in_words(name) for name in self.channels]
        ax.plot(self.losses, names, "o", color=SERIES[0])
        for name, loss in zip(names, self.losses, strict=True):
            ax.annotate(f"×{loss / self.losses[0]:.3g}", (loss, name), xytext=(7, 0),
                        textcoords="offset points", va="center", fontsize=8)  # fmt: skip
        ax.invert_yaxis()
        ax.margins(x=0.12)
        ax.grid(axis="y", alpha=0.3)
        kind = "squared" if self.norm == "l2" else "absolute"
        ax.set(xlabel=f"Expected sum of {kind} errors,\n{self.n:,} reports")
        ax.set_title("Mechanisms that satisfy the guarantee")
        plain_log_axis(ax)
        return ax


def _in_words(name: str) -> str:
    short = ("rr", "ue", "rappor", "osue", "pram")
    return " ".join(word.upper() if word in short else word for word in name.split("_"))


def choose_channel(
    domain: Domain,
    epsilon: float,
    n: int,
    *,
    sensitive: Iterable[object] | None = None,
    p: npt.ArrayLike | None = None,
    norm: str = "l2",
) -> Advice:
    """Compare all mechanisms that satisfy a guarantee by their expected errors.

    Parameters
    ----------
    domain : Domain
        The values.
    epsilon : float
        Budget, positive.
    n : int
        Number of reports.
    sensitive : iterable, optional
        The values to protect. If given, the guarantee is ULDP; otherwise it is LDP.
    p : array-like, mapping or pandas.Series, optional
        Expected distribution; by default mechanisms are compared by their worst cases.
    norm : {"l1", "l2"}
        ``sum |p_hat - p|`` or ``sum (p_hat - p)^2``.

    Returns
    -------
    Advice
        Audited channels and their expected losses, best first.

    Examples
    --------
    >>> import anonbayes as ab
    >>> domain = ab.Domain("region", range(100))
    >>> advice = ab.choose_channel(domain, epsilon=1.0, n=10_000)
    >>> list(advice.channels)[0], advice.table["times_best"].round(2).tolist()[-1]
    ('subset_selection', 9.61)
    >>> list(ab.choose_channel(domain, 1.0, 10_000, sensitive=range(5)).channels)[0]
    'utility_optimized_rr'
    """
    from anonbayes.arrays import read_whole
    from anonbayes.domains import list_of
    from anonbayes.notions.ldp import LDP
    from anonbayes.notions.selective import ULDP

    read_whole("n", n, least=1, error=ChannelError)
    chosen = None if sensitive is None else list_of("sensitive", sensitive)
    notion: Notion = LDP(epsilon) if chosen is None else ULDP(chosen, epsilon)
    rows = []
    for name, mechanism in MECHANISMS.items():
        options = {} if chosen is None else {"sensitive": chosen}
        if mechanism.numeric or not set(mechanism.needs) <= options.keys():
            continue
        needed = {option: options[option] for option in mechanism.needs}
        channel = mechanism.make(domain, epsilon, **needed)
        if not channel.satisfies(notion).holds:
            continue
        if p is None:
            loss = channel.worst_case_loss(n, norm=norm)
        else:
            loss = channel.expected_loss(p, n, norm=norm)
        rows.append((loss, name, channel))
    rows.sort(key=lambda row: row[0])
    return Advice(
        notion,
        int(n),
        norm,
        {name: channel for _, name, channel in rows},
        tuple(loss for loss, _, _ in rows),
    )
