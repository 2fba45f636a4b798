"""The audit as text: lines while it runs, and docs/audit.md. No dates, no machines, no durations."""

from collections.abc import Sequence

from audit import evidence
from audit.digest import digest_line
from audit.expressions import EXPRESSIONS
from audit.game import DEVIATIONS, SHARP, Outcome
from audit.local import ROUNDS as LOCAL_ROUNDS
from audit.mutation import ROUNDS as MUTANT_ROUNDS
from audit.mutation import Catch

_SYMBOLS = {"mu": "µ", "epsilon": "ε"}


def cell_line(outcome: Outcome) -> str:
    """Return one line about a cell."""
    verdict = "ok" if outcome.passed else "FAILED " + "; ".join(outcome.findings)
    tests = ", ".join(
        f"{_SYMBOLS[t.guarantee]} {t.successes}/{t.trials} of {t.bound:.4f} p={t.p_value:.2g} at least {t.at_least:.3f}"
        for t in outcome.tests
    )
    moved = f" moves {outcome.separation:.4f} of {outcome.charged:.4f};" if outcome.charged else ""
    return f"{outcome.name}:{moved} {tests} {verdict}"


def mutant_line(catch: Catch) -> str:
    """Return one line about a mutant."""
    if catch.trouble:
        return f"COULD NOT BE TRIED {catch.mutant.name}: {catch.trouble}"
    return f"{'caught' if catch.caught else 'SURVIVED'} {catch.mutant.name}: {' | '.join(catch.by)}"


def render_page(outcomes: Sequence[Outcome], catches: Sequence[Catch], digest: str, rounds: int) -> str:
    """Return docs/audit.md."""
    return _PAGE.format(
        digest_line=digest_line(digest),
        rounds=f"{rounds:,}",
        expressions=f"{EXPRESSIONS:,}",
        local=LOCAL_ROUNDS,
        level=f"{evidence.LEVEL:g}".replace("e-06", "·10⁻⁶").replace("1·", ""),
        confidence=f"{evidence.CONFIDENCE:.1%}".replace("%", " %"),
        sharp=f"{SHARP:.0%}".replace("%", " %"),
        deviations=DEVIATIONS,
        mutant_rounds=f"{MUTANT_ROUNDS:,}",
        cell_count=len(outcomes),
        mutant_count=len(catches),
        cells="\n".join(line for outcome in outcomes for line in _rows(outcome)),
        mutants="\n".join(_mutant_row(catch) for catch in catches),
    )


def _rows(outcome: Outcome) -> list[str]:
    return [
        f"| {outcome.name} | {_SYMBOLS[t.guarantee]} ≤ {t.charged:.4f} | {outcome.separation / outcome.charged:.4f} "
        f"| {t.trials} | {t.successes} | {t.bound:.4f} | {t.p_value:.2g} | {t.at_least:.3f} "
        f"| {t.power_halved:.3f} | {t.power_root2:.3f} |"
        for t in outcome.tests
    ]


def _mutant_row(catch: Catch) -> str:
    module = catch.mutant.path.removeprefix("curator_service/")
    return f"| {catch.mutant.name} | `{module}` | {'; '.join(_found(by) for by in catch.by)} |"


def _found(by: str) -> str:
    return f"`{by}`" if "::" in by else by


_PAGE = """# Audit

`make audit` writes this page, and only when everything on it holds. It asks two questions. Does the service keep its
guarantee, seen from outside? Would the audit notice if it did not?

{digest_line}

The digest covers `audit` and the files that [the trusted core](trusted-core.md) names under "The guarantee". When one
of them changes, `.ci/run` audits again.

## The game

Two neighbouring datasets are registered with a real curator, from CSV files and manifests. A fair coin chooses one. The
service sells a fresh release of it, on the path of its HTTP endpoint. The attacker sees the answer, its stated noise
and its stated cost, and knows both datasets. It guesses the coin by the likelihood ratio, which no guess can beat.

A release that costs µ lets nobody guess right more often than Φ(µ/2). A release of pure ε lets nobody guess right more
often than e^ε/(1 + e^ε), however the answers are selected that count. An exact binomial test rejects a cell at the
level {level}. Each cell is played {rounds} times.

The neighbours are the worst that we know. `moved` says how far the exact statistics move, in the stated noise, as a
part of what is charged: it must not exceed 1, and must reach {sharp}, or the cell would prove little. A row that is
added has every entry at its bound. A row (x, y) that replaces (v, w) meets the joint bound of XᵀX, Xᵀy and yᵀy in one
of its two corners. In the first y = 1, w = −1 and x·v = R² B/4A, where A and B are what XᵀX and Xᵀy cost alone. In the
second a row that counts for nothing takes the place of one that counts. With two categories the bound itself is not
quite reached: √10 of √11 in L2, and 10 of 11 in L1, where {sharp} is not asked for. A person of two rows has three in
the file.

`at least` is the lower confidence bound of Clopper and Pearson on the true µ or ε, one-sided, at {confidence}. The last
two columns are the audit's power: the chance that this cell alone would have been rejected if the noise had half of its
stated scale, or if a sensitivity had been too small by √2.

Laplace noise is furthest from its worst case where many entries share a price. So it is played on one term, with nearly
all of the price on one statistic. Each such cell has two lines: all guesses against the µ that is charged, and the
telling answers against e^ε. Which answers tell is fixed before the first is drawn.

A whole plan is several releases of one budget, each asked for by the noisy numbers before it: marginals, XᵀX of rows
that these recentre, a score at coefficients made of that, another request in between, and a score where the last one
led. The attacker guesses once, by all answers together, and is held against the root of the sum of what they cost.
Plans are bought half as often as cells are played.

A stopping analyst buys one release again and again until the answers say enough or the curator refuses: a limit holds
eight of them, or three under a pure account. All runs count, those that he stopped early too. He is held against the
limit. What he had spent when he stopped is no bound under `gdp`: he must be right more often than it would allow, or
the game would prove little. Under a pure account it is a bound, so there he is held against the mean of what each run
had spent. He plays a quarter as often as cells are played.

A **threshold session** is asked first what the person moves one way, then what the person moves the other way or not at
all: the worst case of the proof. The attacker guesses once, by the exact chance of all its answers under either
dataset, summed over the hidden noise of the threshold. Only answers that tell enough count. They are held against e^ε
of what was charged, also those of two sessions at once. A session between releases of one budget is held against the
root of the sum of what all of them cost. `moved` is about the answers that tell most. It reaches 1 only after many
questions, so {sharp} is not asked for here. A **local report** is made of one of two records, by the client itself,
{local} times as often as a cell is played.

The answers of a session that tell most are rare, and guesses alone would find small flaws in them late. So all answers
of sessions and reports must also come as often as their exact chances say. `found` is then the larger power of the two
tests.

| cell | claim | moved | guesses | right | bound | p-value | at least | found: half | found: √2 |
| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
{cells}

Every cell checks more, at {deviations} standard errors: noise is at least as wide as stated, entries of one release
and releases in a row are not correlated, no draw comes twice. The account holds the sum of what the answers state.
Beside the cells, the same request is bought twice in one process and in two forked ones: no entry is ever the same. A
budget for one release does not sell two. {expressions} random features of expressions, bases and interactions are
coded from hostile rows: none fails, warns, leaves the bounds that sensitivities rest on, or depends on the rows beside
it, and what answers state of each is read as the same one.

## The mutants

Each mutant is a small change of the source that breaks the guarantee, made in a copy. First the cells named for it are
played, {mutant_rounds} times each; then its test files run, until one finds it. Where a mutant names single tests, each
of them must turn red on both databases. The tests are green without a mutant. All {mutant_count} are caught.

| mutant | in | found by |
| --- | --- | --- |
{mutants}

Rounding and clipping can change places without harm on both lattices: their bounds are integers, so to clip and then to
round gives the same integer. Where a row is shrunk it is not so, and a mutant rounds there to nearest. The lattice of a
request clips again what ingest has clipped: from outside, the loss of one of the two clips is not seen.

## What it does not show

- A test of thousands of answers sees a flaw of a tenth of µ, not one of a thousandth. Flaws that small (9 of σ², one
  unit of the lattice, minus zero) are for proofs and unit tests; the mutants show that those look.
- Cells have up to five terms and a price near µ = 1. Published calibrations and the account in ρ are left to the
  tests.
- Sessions have up to eight questions and two positive answers. More are left to the tests.
- The worst neighbours are those of our own proofs. A pair that the proofs overlook is searched for in
  `tests/unit/privacy`, not here.
- Time, memory and logs are not watched.
"""
