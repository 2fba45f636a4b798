"""Words of a pack: checks of statistical disclosure control, and points left to judge."""

from typing import NamedTuple

from curator_service.privacy.adjacency import Adjacency

DISTRIBUTIONS = {
    "discrete_gaussian": ("Gaussian", 1.96),
    "discrete_laplace": ("Laplace", 2.119),  # ln(20)/√2
}
"""Laws of noise: what each is called, and how many standard deviations 95 of 100 draws stay within."""
PROTECTED = {
    Adjacency.ADD_REMOVE: "whether that person is in the data",
    Adjacency.REPLACE_ONE: "whether that person's data are theirs or another's",
}
"""What cannot be told, by the adjacency of a population."""
COUNTED = {
    Adjacency.ADD_REMOVE: "How many people there are is private, and is not in this pack.",
    Adjacency.REPLACE_ONE: "How many people there are is public for this population; it is not in this pack.",
}


class Check(NamedTuple):
    """A check of statistical disclosure control: whether differential privacy answers it, and why."""

    name: str
    verdict: str
    why: str


ANSWERED, JUDGED = "answered", "to be judged"
CHECKS = (
    Check(
        "Threshold: fewest people behind a number",
        ANSWERED,
        "Every number has noise as large as one person's whole contribution calls for, whatever the size of its group; "
        "so a group can hardly be told from one with a person more or less. Nothing is suppressed, and a small or "
        "negative number is no true count.",
    ),
    Check(
        "Dominance: one person makes up most of a sum",
        ANSWERED,
        "Values are cut to the public bounds, and rows of a person to a public number, before anything is added up. "
        "The noise covers the most that one person can add.",
    ),
    Check(
        "Residuals, degrees of freedom, saturated models",
        ANSWERED,
        "No residual, leverage or fitted value of anybody is released. A model is fitted from noisy sums, and whatever "
        "is computed of them tells no more than they do.",
    ),
    Check(
        "Differencing, linked tables",
        ANSWERED,
        "Answers about nearly the same people each have noise of their own, and each is charged. What all answers "
        "together tell of one person is bounded by the guarantee of the population, however they are combined.",
    ),
    Check(
        "Smallest, largest, percentiles",
        ANSWERED,
        "No value of a row is released. Bounds and levels of columns are declared by the hospital, and are public.",
    ),
    Check(
        "Class disclosure: a whole group shares a trait",
        JUDGED,
        "What is true of a group may be learnt, and then holds for its members too. Differential privacy hides one "
        "person, and neither a group nor what a study is meant to find.",
    ),
    Check(
        "Families, households, wards",
        JUDGED,
        "Of k people together k times as much in ε or µ can be learnt, and k² times as much in ρ.",
    ),
)
TO_JUDGE = (
    "Are bounds, levels, capacity and rows per person taken from knowledge, and not read off these rows? They are "
    "public, and no budget covers them.",
    "Is a row a person, or is the declared subject whom the rows are of? If somebody has more rows than are counted "
    "for one person, they are protected less.",
    "Are the same people in another population, or at another curator? Then the guarantees add up.",
    "Is the guarantee strong enough for these data? The share of right guesses says what it means; it is a decision "
    "of people.",
    "Do the purpose, the legal basis and the conditions cover this release, and where it is going?",
    "Is what will be published computed from this answer alone? Numbers from elsewhere are not covered.",
    "Is the noise stated beside results, so that nobody takes a noisy number for an exact one?",
)
WITHHELD = "It was charged under a permit that is not the reader's. A privacy officer can give the pack with it."
