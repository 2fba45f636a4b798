"""A pack as an RO-Crate 1.1, with what applies of the Five Safes RO-Crate profile.

The context is written out, so that nothing is fetched to read it. Of the profile (https://w3id.org/5s-crate/0.4) there
are the requesting agent, the responsible project, the action that made the result, and its review phases. A pack does
not conform to it, and does not say so: the profile wants RO-Crate 1.2, a workflow that a research environment ran, and
a BagIt archive, and here a curator answered a request.
"""

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from curator_service.datasets.catalogue import Catalogue, Organisation
from curator_service.datasets.repository import Dataset
from curator_service.evidence.facts import CURATOR, OPERATOR, Entry, Evidence, ReleaseFacts, SessionFacts

METADATA = "ro-crate-metadata.json"
_SCHEMA = "http://schema.org/"
_SHP = "https://w3id.org/shp#"
_COMPLETED, _ACTIVE, _POTENTIAL = (f"{_SCHEMA}{state}ActionStatus" for state in ("Completed", "Active", "Potential"))
_OF_SCHEMA = (
    "AssessAction CreateAction CreativeWork Dataset DigitalDocument Organization Person Project SoftwareApplication "
    "about actionStatus additionalType agent author conditionsOfAccess datePublished description email "
    "encodingFormat endTime expires hasPart identifier instrument license memberOf mentions name object provider "
    "publisher result sourceOrganization url"
)
CONTEXT: dict[str, str] = {
    **{term: f"{_SCHEMA}{term}" for term in _OF_SCHEMA.split()},
    "File": f"{_SCHEMA}MediaObject",
    "conformsTo": "http://purl.org/dc/terms/conformsTo",
}
"""Those terms of RO-Crate's context that a pack uses, each as there."""
_TYPES = {".html": "text/html", ".json": "application/json", "": "text/plain"}
_ROOT, _PROJECT, _PERMIT, _SOFTWARE, _CONTROLLER, _TERMS = (
    "./", "#project", "#permit", "#curator", "#controller", "#terms-of-use",
)  # fmt: skip
_Entity = dict[str, Any]
_UNDECLARED = "The hospital that runs this curator; its manifest declares no controller"
_SOFTWARE_ENTITY: _Entity = {
    "@id": _SOFTWARE,
    "@type": "SoftwareApplication",
    "name": "Trusted curator for private regression",
    "description": "Answers requests with statistics that hold calibrated noise, each charged to one privacy budget.",
    "provider": {"@id": _CONTROLLER},
}


def render_crate(evidence: Evidence, files: Mapping[str, str]) -> dict[str, Any]:
    """Return the metadata of a pack as flattened JSON-LD.

    Parameters
    ----------
    files : mapping of str to str
        What each file of the pack is, by its path; the metadata's own is not among them.
    """
    actions = [action for release in evidence.releases for action in _actions(evidence, release)]
    actions += [action for session in evidence.sessions for action in _session_actions(evidence, session)]
    actions += _sign_offs(evidence)
    controller = _controller(evidence.datasets)
    licence, terms = _licence(evidence.datasets)
    root: _Entity = {
        "@id": _ROOT,
        "@type": "Dataset",
        "name": f"Evidence of the {'permit' if evidence.is_of_permit else 'release'} {evidence.subject}",
        "description": "What was released with differential privacy, under which permit and guarantee, and the signed "
        "entries of the ledger that say so.",
        "identifier": evidence.subject,
        "datePublished": evidence.as_of,
        "license": _ref(licence),
        "hasPart": [_ref(path) for path in files],
        "mentions": [_ref(action["@id"]) for action in actions],
        **({"sourceOrganization": _ref(_PROJECT)} if evidence.permit else {}),
        "author": _ref(_CONTROLLER),
        "publisher": _ref(_CONTROLLER),
    }
    descriptor = {
        "@id": METADATA,
        "@type": "CreativeWork",
        "about": _ref(_ROOT),
        "conformsTo": _ref("https://w3id.org/ro/crate/1.1"),
    }
    graph = [
        descriptor,
        root,
        *(_file(path, what) for path, what in files.items()),
        *actions,
        *_people(evidence),
        *_permit(evidence),
        *(_dataset(dataset) for dataset in evidence.datasets),
        _SOFTWARE_ENTITY,
        _organisation(controller),
        *terms,
    ]
    return {"@context": CONTEXT, "@graph": [{name: _alone(value) for name, value in one.items()} for one in graph]}


def _ref(name: str) -> dict[str, str]:
    return {"@id": name}


def _alone(value: Any) -> Any:
    """Return a value, of a list with one alone its element: so compact JSON-LD has it."""
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def _file(path: str, what: str) -> _Entity:
    return {"@id": path, "@type": "File", "name": what, "encodingFormat": _TYPES[PurePosixPath(path).suffix]}


def _actions(evidence: Evidence, release: ReleaseFacts) -> list[_Entity]:
    """Return the making of a release, and what checked it before it left; what a person still does is not recorded."""
    folder = f"releases/{release.id}/" if evidence.is_of_permit else ""
    results = ["receipt.json", *(["answer.json"] if evidence.has_answers else [])]
    made: _Entity = {
        "@id": f"#{release.id}",
        "@type": "CreateAction",
        "name": f"Release {release.id}: {release.kind} of {', '.join(release.columns)}",
        "agent": _ref(_person(release.entry.says["actor"])),
        "instrument": _ref(_SOFTWARE),
        "object": [_ref(_dataset_id(release.dataset)), *([_ref(_PERMIT)] if evidence.permit else [])],
        "result": [_ref(f"{folder}{name}") for name in results],
        "endTime": release.entry.time,
        "actionStatus": _COMPLETED,
    }
    return [made, *_checks(release.id, release.entry.time)]


def _session_actions(evidence: Evidence, session: SessionFacts) -> list[_Entity]:
    """Return the questions of a session as one action, and what checked it before an answer left."""
    says, last = session.opened.says, (session.closed or (session.answers or [session.opened])[-1]).time
    made: _Entity = {
        "@id": f"#{session.id}",
        "@type": "CreateAction",
        "name": f"Threshold session {session.id}: {len(session.answers)} questions answered",
        "agent": _ref(_person(says["actor"])),
        "instrument": _ref(_SOFTWARE),
        "object": [_ref(f"#dataset-{says['dataset']}"), _ref(_PERMIT)],
        "result": [_ref(path) for path in session.list_files(has_answers=evidence.has_answers)],
        **({"actionStatus": _ACTIVE} if session.is_open else {"endTime": last, "actionStatus": _COMPLETED}),
    }
    return [made, *_checks(session.id, session.opened.time)]


def _checks(made: str, time: str) -> list[_Entity]:
    """Return the disclosure checks of a release or session."""
    checked: _Entity = {
        "@id": f"#disclosure-{made}",
        "@type": "AssessAction",
        "additionalType": _ref(f"{_SHP}DisclosureCheck"),
        "name": "Differentially private noise added, and charged within the budget, before the answer left: done",
        "description": "What this answers of statistical disclosure control, and what it does not, is in check.html.",
        "agent": _ref(_SOFTWARE),
        "object": [_ref(_ROOT), _ref(f"#{made}")],
        "endTime": time,
        "actionStatus": _COMPLETED,
    }
    judged: _Entity = {
        "@id": f"#disclosure-by-person-{made}",
        "@type": "AssessAction",
        "additionalType": _ref(f"{_SHP}DisclosureCheck"),
        "name": "Disclosure check by a person: none is recorded by the curator",
        "object": [_ref(_ROOT), _ref(f"#{made}")],
        "actionStatus": _POTENTIAL,
    }
    return [checked, judged]


def _sign_offs(evidence: Evidence) -> list[_Entity]:
    """Return who approved the permit: of a release, the terms that it was charged under."""
    if evidence.permit is None:
        return []
    if evidence.is_of_permit:
        entries = [entry for entry in evidence.permit.entries if entry.says["people"]]
    else:
        entries = [entry for entry in (evidence.terms(evidence.releases[0]),) if entry is not None]
    return [_sign_off(entry) for entry in entries]


def _sign_off(entry: Entry) -> _Entity:
    return {
        "@id": f"#sign-off-{entry.population}-{entry.sequence}",
        "@type": "AssessAction",
        "additionalType": _ref(f"{_SHP}SignOff"),
        "name": f"Sign-off of the permit, version {entry.says['version']}: approved",
        "description": entry.says["reason"],
        "agent": _ref(_person(entry.says["approved_by"])),
        "object": [_ref(_ROOT), _ref(_PROJECT)],
        "instrument": _ref(_PERMIT),
        "endTime": entry.time,
        "actionStatus": _COMPLETED,
    }


def _people(evidence: Evidence) -> list[_Entity]:
    members = {} if evidence.permit is None else evidence.permit.people
    actors = [release.entry.says["actor"] for release in evidence.releases]
    actors += [session.opened.says["actor"] for session in evidence.sessions]
    if evidence.permit is not None:
        actors += [who for entry in evidence.permit.entries for who in (entry.says["actor"], entry.says["approved_by"])]
    found = sorted({*actors, *members} - {CURATOR}, key=lambda who: (_name(evidence, who), who))
    return [
        {
            "@id": _person(who),
            "@type": "Person",
            "name": _name(evidence, who),
            **({"memberOf": _ref(_PROJECT)} if who in members else {}),
        }
        for who in found
    ]


def _permit(evidence: Evidence) -> list[_Entity]:
    if evidence.permit is None:
        return []
    terms = evidence.terms(None if evidence.is_of_permit else evidence.releases[0])
    assert terms is not None
    says = terms.says
    stated = {"identifier": evidence.permit.id, "description": says["purpose"], "expires": says.get("expires_at", "")}
    conditions = "; ".join(text for text in (says["legal_basis"], says["conditions"]) if text)
    project = says["project"] or f"Grant to {', '.join(says['people'].values())}"
    return [
        {
            "@id": _PROJECT,
            "@type": "Project",
            "name": project,
            **_some({"identifier": evidence.permit.id, "description": says["purpose"]}),
        },
        {
            "@id": _PERMIT,
            "@type": "CreativeWork",
            "name": f"Permit {evidence.permit.id}",
            **_some(stated | {"conditionsOfAccess": conditions}),
        },
    ]


def _dataset(dataset: Dataset) -> _Entity:
    declared = dataset.manifest.catalogue or Catalogue()
    return {
        "@id": _dataset_id(dataset),
        "@type": "DigitalDocument",
        "name": declared.title or dataset.name,
        "conditionsOfAccess": "The rows stay with the curator, and are handed out to nobody.",
        **_some({
            "description": declared.description or dataset.manifest.description,
            "identifier": declared.identifier or dataset.id,
            "url": declared.access_url or "",
        }),
    }  # fmt: skip


def _organisation(controller: Organisation | None) -> _Entity:
    stated = {"name": _UNDECLARED} if controller is None else controller.model_dump(exclude_none=True)
    return {"@id": _CONTROLLER, "@type": "Organization", **stated}


def _controller(datasets: Sequence[Dataset]) -> Organisation | None:
    """Return who decides on the rows, if all datasets declare the same."""
    found = [(dataset.manifest.catalogue or Catalogue()).controller for dataset in datasets]
    return found[0] if found and all(one == found[0] for one in found) else None


def _licence(datasets: Sequence[Dataset]) -> tuple[str, list[_Entity]]:
    """Return under which terms releases are used, if all datasets declare the same; and the entity that says so."""
    found = {(dataset.manifest.catalogue or Catalogue()).licence for dataset in datasets}
    declared = next(iter(found)) if len(found) == 1 else None
    if declared is not None:
        return declared, [{"@id": declared, "@type": "CreativeWork", "name": "Terms of use", "description": declared}]
    text = "The hospital declares no licence: ask it before anything of this is passed on."
    return _TERMS, [{"@id": _TERMS, "@type": "CreativeWork", "name": "Terms of use", "description": text}]


def _some(members: _Entity) -> _Entity:
    return {name: value for name, value in members.items() if value}


def _person(actor: str) -> str:
    return _SOFTWARE if actor == CURATOR else f"#person-{actor.replace(':', '-')}"


def _dataset_id(dataset: Dataset) -> str:
    return f"#dataset-{dataset.name}"


def _name(evidence: Evidence, actor: str) -> str:
    return f"{actor.removeprefix(OPERATOR)} (operator)" if actor.startswith(OPERATOR) else evidence.name_of(actor)
