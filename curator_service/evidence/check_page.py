"""The checker's page: what was released, what protects people, who allowed it, and what is left to judge."""

import math

from curator_service.evidence import words
from curator_service.evidence.facts import Evidence
from curator_service.evidence.layout import STYLE, facts_table, show_time, table
from curator_service.evidence.permission import describe_permission
from curator_service.evidence.released import describe_release, list_releases, title_dataset
from curator_service.kit.html import Markup, element, fill, page, said
from curator_service.ledger.repository import Population
from curator_service.ledger.schemas import describe_spent
from curator_service.privacy.accountant import PURE
from curator_service.privacy.guessing import best_guess, number_up, percent_up


def render_check_page(evidence: Evidence) -> str:
    """Return the page as HTML."""
    what = "permit" if evidence.is_of_permit else "release"
    title = f"Evidence of a {what}"
    return page(
        f"{title}: {evidence.subject}",
        STYLE,
        element(
            "main",
            element("h1", title),
            element(
                "p", element("code", evidence.subject), ", as the ledger stood at ", show_time(evidence.as_of), ".",
                class_="quiet",
            ),
            *_lead(evidence),
            *(list_releases(evidence) if evidence.is_of_permit else describe_release(evidence, evidence.releases[0])),
            *_people(evidence),
            *_meaning(evidence),
            *describe_permission(evidence),
            *_checks(),
            *_verification(evidence),
        ),
        language="en",
    )  # fmt: skip


def _lead(evidence: Evidence) -> list[Markup]:
    parts = []
    if evidence.is_of_permit:
        count = len(evidence.releases)
        answers = "1 answer was" if count == 1 else f"{count} answers were"
        parts.append(fill("{n} given under this permit. No row was handed out.", n=answers))
    else:
        (release,) = evidence.releases
        count = sum(part["numbers"] for part in release.answer["statistics"].values())
        noisy = element("strong", f"{count:,} {'number' if count == 1 else 'numbers'} with noise")
        sentence = "{n} left the curator, of {dataset}. No row was handed out."
        parts.append(fill(sentence, n=noisy, dataset=title_dataset(release)))
    for account in evidence.accounts.values():
        share = element("strong", f"{_guess(account, account.highest_limit)} of 100")
        sentence = (
            "Whoever knows everything about everybody but one person, and reads every answer that may ever be given "
            "about {population} under the highest limit so far, is right in at most {share} guesses {what}. Without "
            "any answer it is 50."
        )
        what = words.PROTECTED[account.adjacency]
        parts.append(fill(sentence, population=said(account.name), share=share, what=what))
    return [element("div", *(element("p", part) for part in parts), class_="lead")]


def _people(evidence: Evidence) -> list[Markup]:
    rows = []
    for dataset in evidence.datasets:
        manifest = dataset.manifest
        person = (
            "each row is declared to be another person's"
            if manifest.subject is None
            else f"at most {manifest.rows_per_person:,} of each person count"
        )
        counted = words.COUNTED[dataset.adjacency]
        rows.append((said(dataset.name), f"{manifest.row_capacity:,}", person, counted))
    return [
        element("h2", "How many people, at most"),
        table("", ("dataset", "rows it may hold", "rows of a person", "how many there are"), rows, figures=(1,)),
    ]


def _meaning(evidence: Evidence) -> list[Markup]:
    parts = [
        element("h2", "What the noise means"),
        element(
            "p",
            "ε, δ, µ and ρ are views of one number, that of the account. The last column is what they mean for one "
            "person: the share of right guesses of somebody who knows all the rest and has read what the line names. "
            "50% is a coin. All of it is rounded up. The lines of a release and of a permit hold if what was asked did "
            "not follow from other answers; the guarantee holds always.",
        ),
    ]
    for account in evidence.accounts.values():
        rows = [
            (what, *_amount(account, units), _guess(account, units) + "%" if is_bound else "–")
            for what, units, is_bound in _list_amounts(evidence, account)
        ]
        heads = ("of", "ε", "δ", "µ", "ρ", "right guesses")
        caption = fill("Population {name}, accountant {how}", name=said(account.name), how=account.accountant.name)
        parts += [
            table(caption, heads, rows, figures=range(1, 6)),
            element("p", describe_spent(account.accountant)),
        ]
    parts.append(
        element(
            "p",
            "The guarantee is that of the highest limit that the population ever had; a higher one takes two people, "
            "and an entry in the ledger, and changes it. It holds for everybody, whoever asks, and however answers are "
            "combined.",
        )
    )
    return parts


def _list_amounts(evidence: Evidence, account: Population) -> list[tuple[str, int, bool]]:
    """Return what each amount is of, its units, and whether it bounds what was learnt."""
    found = []
    sums_bound = account.accountant is PURE
    if not evidence.is_of_permit:
        (release,) = evidence.releases
        what = "this release" if release.source is None else "the answer that it was cut out of"
        found.append((what, release.units, True))
    if evidence.permit is not None and account.name in evidence.permit.highest_limits:
        limit = evidence.permit.highest_limits[account.name]
        charged = evidence.permit.spent.get(account.name, 0)
        found.append(("charged and held under this permit so far", charged, sums_bound))
        if limit is not None:
            found.append(("the permit’s highest limit", limit, True))
    found.append(("charged and held of the population so far", account.posted + account.pending, sums_bound))
    found.append(("the population’s guarantee, its highest limit", account.highest_limit, True))
    return found


def _amount(account: Population, units: int) -> tuple[str, ...]:
    amount = account.view(units)
    numbers = (amount.epsilon, amount.delta, amount.mu, amount.rho)
    return tuple("–" if one is None else "no bound" if one == math.inf else number_up(one) for one in numbers)


def _guess(account: Population, units: int) -> str:
    return percent_up(best_guess([(account.accountant, units)]), 1)


_CLASSES = {words.ANSWERED: "answered", words.JUDGED: "judge"}


def _checks() -> list[Markup]:
    rows = [
        (check.name, element("span", check.verdict, class_=_CLASSES[check.verdict]), check.why)
        for check in words.CHECKS
    ]
    return [
        element("h2", "Checks of statistical disclosure control"),
        table("", ("check", "by differential privacy", "why"), rows),
        element("h2", "What a checker still must judge"),
        element("ul", *(element("li", text) for text in words.TO_JUDGE)),
    ]


def _verification(evidence: Evidence) -> list[Markup]:
    commands = "\n".join(["sha256sum --check SHA256SUMS", verify_command(evidence)])
    install = element("code", "pip install dp-curator-client")
    return [
        element("h2", "How to check this without the curator"),
        element("p", "In the folder of this page. ", install, " has the second command."),
        element("pre", commands),
        element(
            "p",
            "The first finds a file that was changed since the pack was made. The second finds whether the curator "
            "signed each entry, and whether an answer is the one that its entry states. It trusts the first key in ",
            element("code", "keys.json"),
            ": hold its id against what the hospital has published.",
        ),
        facts_table([("first key", element("code", evidence.keys[0].key_id)), *_signatures(evidence)]),
        element(
            "p",
            "Receipts, and answers with theirs, are signed. This page, the record of processing, the research object "
            "and the registry’s entry are written from them and from declarations, and are not signed: whoever doubts "
            "one compares it with the receipts, or asks the hospital for the same pack, which is the same to the byte "
            "while the ledger stands where it stood.",
        ),
    ]


def verify_command(evidence: Evidence) -> str:
    """Return the command that verifies every signed file of a pack."""
    permit = " permit/*.json" if evidence.permit is not None else ""
    if evidence.is_of_permit:
        return f"curator-verify --key keys.json{permit}{' releases/*/*.json' if evidence.releases else ''}"
    source = " source/receipt.json" if evidence.releases[0].source else ""
    answer = " answer.json" if evidence.has_answers else ""
    return f"curator-verify --key keys.json receipt.json{answer}{source}{permit}"


def _signatures(evidence: Evidence) -> list[tuple[str, str]]:
    if evidence.is_of_permit:
        return []
    (release,) = evidence.releases
    receipt = release.entry.receipt
    return [
        ("entry hash", element("code", receipt.entry_hash)),
        ("answer digest", element("code", release.entry.says["answer_digest"])),
        ("signed by", element("code", release.entry.says["key_id"])),
    ]
