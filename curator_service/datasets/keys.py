"""Keys: columns that number persons, records or staff, as their names tell.

A name is a hint. It decides nothing by itself: a manifest declares whose rows they are, a draft lists candidates, and a
check counts how often the values of such a column repeat.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum


class KeyOf(StrEnum):
    """The unit that a column seems to number.

    ``PERSON`` is a person in the data, and ``STAFF`` somebody who works with them, such as a physician. ``RECORD`` is
    one of several things of one person, such as a visit. ``UNKNOWN`` is a key whose unit the name does not tell.
    """

    PERSON = "person"
    RECORD = "record"
    STAFF = "staff"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class KnownPerson:
    """The columns that tell persons apart in a known schema.

    Attributes
    ----------
    schema : str
        Its name, for a message.
    columns : tuple of str
        As the source calls them: one, or several that tell persons apart together.
    """

    schema: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Schema:
    """A known schema: the columns of a person, in the order of preference, and other keys; names as `_join` has them.

    `marks` are columns of which a source must have one, where the person's column alone is too common a name.
    """

    name: str
    persons: tuple[tuple[str, ...], ...]
    records: str = ""
    staff: str = ""
    marks: str = ""


_FOLDED = str.maketrans({"ß": "ss", "ø": "o", "Ø": "O", "æ": "ae", "Æ": "Ae", "ł": "l", "Ł": "L", "đ": "d", "Đ": "D"})
_WORDS = re.compile(r"[a-z]+|[^\W\d_a-z]+")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def fold(text: str) -> str:
    """Return a text without accents."""
    apart = unicodedata.normalize("NFKD", text.translate(_FOLDED))
    return unicodedata.normalize("NFC", "".join(sign for sign in apart if not unicodedata.combining(sign)))


def _read(words: str) -> frozenset[str]:
    return frozenset(fold(words).split())


_SCHEMAS = (
    _Schema(
        "OMOP CDM",
        (("personid",),),
        records="measurementid observationid visitoccurrenceid visitdetailid conditionoccurrenceid drugexposureid "
        "procedureoccurrenceid deviceexposureid specimenid noteid observationperiodid conditioneraid drugeraid "
        "doseeraid episodeid payerplanperiodid costid",
        staff="providerid",
    ),
    _Schema(
        "CDISC",
        (("usubjid",), ("studyid", "siteid", "subjid"), ("studyid", "subjid"), ("siteid", "subjid"), ("subjid",)),
        records="visitnum aeseq cmseq dsseq egseq exseq faseq lbseq mhseq prseq qsseq suseq vsseq aseq",
        staff="invid",
    ),
    _Schema(
        "REDCap",
        (("recordid",), ("studyid",)),
        records="redcaprepeatinstance",
        marks="redcapeventname redcaprepeatinstance redcaprepeatinstrument redcapdataaccessgroup",
    ),
    _Schema(
        "FHIR",
        (("subjectreference",), ("patientreference",), ("beneficiaryreference",), ("subject",), ("patient",)),
        records="encounterreference",
        staff="practitionerreference performerreference",
        marks="resourcetype subjectreference patientreference beneficiaryreference",
    ),
    _Schema("MIMIC", (("subjectid",),), records="hadmid stayid icustayid transferid", marks="hadmid stayid icustayid"),
    _Schema("eICU", (("uniquepid",),), records="patientunitstayid patienthealthsystemstayid"),
    _Schema("i2b2", (("patientnum",),), records="encounternum instancenum"),
    _Schema("PCORnet", (("patid",),), records="encounterid diagnosisid proceduresid"),
    _Schema("claims", (("beneid",),), records="clmid clmlinenum", staff="npi atphysnnpi opphysnnpi prscrbrid"),
    _Schema("claims", (("desynpufid",),)),
    _Schema("claims", (("enrolid",),)),
    _Schema("claims", (("memberid",),)),
    _Schema("claims", (("mbrid",),)),
    _Schema("claims", (("msisid",),)),
)
_NATIONAL = _read(
    "ssn socialsecuritynumber nino nhs nhsno nhsnumber chinumber hcn mbi hicn ihi nhi ppsn nir nirano insee ipp "
    "nip bsn burgerservicenummer cpr cprnr cprnummer pnr lopnr personnummer personnr fnr fodselsnummer hetu "
    "henkilotunnus pesel kennitala ahv ahvnr ahvn avs svnr kvnr kvnummer egk steuerid dni nie nuhsa cip cipa "
    "curp nss cpf cns rut rodnecislo jmbg oib egn cnp codicefiscale nif niss rijksregisternummer insz aadhaar "
    "abha idnp tckn nric mykad hkid mynumber passport passportno passportnumber"
)
_STUDY = _read(
    "mrn medicalrecordnumber medrecno hospitalno hospitalnumber hospno hospitalnr empi mpi pid pids ptid ptno "
    "patno patnr patid pat eid seqn pidp hhidpn mergeid idauniq caseid respid respondentid rid iid sid subj "
    "subjid subjectid pseudoid pseudonym pseudonymid ppn screeningno screeningnumber randno randomisationnumber "
    "randomizationnumber randomnumber 病案号 身份证 身份证号 studyid recordid participantid idpaciente idpatient"
)
_KNOWN: dict[str, KeyOf] = dict.fromkeys(_NATIONAL | _STUDY, KeyOf.PERSON)
for _schema in _SCHEMAS:
    _KNOWN |= dict.fromkeys(_schema.records.split(), KeyOf.RECORD) | dict.fromkeys(_schema.staff.split(), KeyOf.STAFF)
    _KNOWN |= dict.fromkeys((one[-1] for one in _schema.persons), KeyOf.PERSON)

_PERSONS = _read(
    "person patient subject participant individual individu individuo respondent proband subj patientin "
    "probandin teilnehmer teilnehmerin versicherter versicherten versicherte personne sujet assure beneficiaire "
    "paciente persona sujeto participante asegurado paziente soggetto partecipante assistito persoon deelnemer "
    "proefpersoon verzekerde pessoa utente sujeito patienten personen deltager deltagare deltaker borger "
    "pacjent osoba potilas henkilo pacient beneficiary enrollee versuchsperson vp vpn pacjenta pacienta "
    "potilaan пациент пациента ασθενης ασθενους 患者 病人 受试者 被験者 환자 مريض المريض"
)
"""Persons, in the languages of hospitals. Such a word is a key even alone."""
_RELATED = _read(
    "pat pt individ member client klient case volunteer student pupil schueler employee mitarbeiter donor "
    "recipient mother father child infant baby twin sibling partner mutter vater kind mere enfant madre padre "
    "hijo figlio moeder resident bewohner mitglied kunde customer user worker insured dossier resp"
)
"""Persons too, but where the word is alone it may be a category."""
_STAFF = _read(
    "provider physician doctor practitioner clinician nurse surgeon prescriber operator rater interviewer "
    "technician radiologist therapist arzt aerztin medecin medico arts huisarts gp investigator reader"
)
_RECORDS = _read(
    "visit encounter episode stay admission hospitalization hospitalisation hadm icustay measurement "
    "observation specimen sample claim event exposure prescription procedure order test image scan series "
    "accession row line seq sequence entry instance form questionnaire session appointment discharge fall "
    "aufenthalt aufnahme besuch visite sejour passage consultation consult visita ingreso episodio ricovero "
    "accesso opname bezoek contact kontakt internamento consulta probe proben befund untersuchung echantillon "
    "prelevement muestra campione monster day week occurrence detail record obs визит 就诊 住院"
)
_THINGS = _read(
    "site center centre clinic ward department unit location country region state county district city zip "
    "postal postcode plz house haus room zimmer bed bett building organization organisation facility lab "
    "laboratory labor device machine scanner concept type status class category group level gender sex race "
    "ethnicity language religion household family hhid couple pair cluster batch plate lot model version page "
    "phone telephone mobile fax telefon icd atc drug product tax arm treatment protocol fam hh school firm "
    "company bank village municipality commune block tract gene"
)
"""No person and nothing of one person: many persons share one, or it is a code."""
_STRONG = _read(
    "id ids identifier identifiant identificador identificativo ident number nummer nr uuid guid pseudonym "
    "kennung numer cislo idcode idno idnr idnum idnumber номер ид αριθμος 编号 編號 番号 番號 号 번호 رقم"
)
_WEAK = _read(
    "no num numero nro code codice codigo cod kode key hash ref reference name nom naam nombre nome index kod "
    "код κωδικος"
)
_QUALIFIERS = _read(
    "unique study trial master global local anon anonymous anonymized anonymised pseudo encrypted hashed "
    "deidentified hospital clinic site center centre source orig original new old fk pk medical research "
    "durable the de du del di da van der la le"
)
_COUNTED = re.compile(
    r"^(?:number|num|no|n|nb|nombre|numero|nummer)_(?:of|de|di|d|van|der)_|^n_|(?:^|_)(?:anzahl|aantal|count)(?:_|$)"
)


def looks_like_key(header: str) -> KeyOf | None:
    """Return the unit that a column seems to number, by its name; None if it looks like no key.

    Parameters
    ----------
    header : str
        As the source writes it.

    Examples
    --------
    >>> looks_like_key("Patienten-Nr."), looks_like_key("measurement_id"), looks_like_key("uric_acid")
    (<KeyOf.PERSON: 'person'>, <KeyOf.RECORD: 'record'>, None)
    """
    words = _split(header)
    if found := _KNOWN.get(_join(words)):
        return found
    if not words or _COUNTED.search("_".join(words)):
        return None
    words = [part for word in words for part in _take_apart(word)]
    endings = _STRONG | _WEAK
    rest = [word for word in words if word not in endings]
    is_numbered = len(rest) < len(words)
    for kind, units in ((KeyOf.PERSON, _PERSONS | _RELATED), (KeyOf.RECORD, _RECORDS), (KeyOf.STAFF, _STAFF)):
        if any(word in units for word in rest):
            others = [word for word in rest if word not in units | _QUALIFIERS | _RECORDS]
            alone = kind is KeyOf.PERSON and any(word in _PERSONS for word in rest)
            return kind if not others and (is_numbered or alone) else None
    if any(word in _THINGS for word in rest):
        return None
    return KeyOf.UNKNOWN if words[-1] in _STRONG or words[0] in {"id", "identifiant"} else None


def find_persons(headers: Iterable[str]) -> list[KnownPerson]:
    """Return the columns that are a person in a known schema, for each schema whose columns these are.

    Parameters
    ----------
    headers : iterable of str
        All columns of a source.

    Examples
    --------
    >>> find_persons(["STUDYID", "USUBJID", "AESEQ"])
    [KnownPerson(schema='CDISC', columns=('USUBJID',))]
    """
    by_name: Mapping[str, str] = {_join(_split(header)): header for header in headers}
    found = []
    for schema in _SCHEMAS:
        if schema.marks and not by_name.keys() & set(schema.marks.split()):
            continue
        columns = next((one for one in schema.persons if set(one) <= by_name.keys()), None)
        if columns is not None:
            found.append(KnownPerson(schema.name, tuple(by_name[name] for name in columns)))
    return found


def _split(header: str) -> list[str]:
    """Return the words of a name, in lower case, without accents and digits."""
    return _WORDS.findall(_CAMEL.sub("_", fold(header)).lower())


def _join(words: Iterable[str]) -> str:
    return "".join(words)


def _take_apart(word: str) -> list[str]:
    """Return the two words of a compound such as ``patientid``; the word alone if it is no such compound."""
    units = _PERSONS | _RELATED | _RECORDS | _STAFF | _THINGS
    for ending in sorted(_STRONG | _WEAK, key=len, reverse=True):
        stem = word.removesuffix(ending)
        if stem != word and stem and (stem in units or ending == "nummer"):
            return [stem, ending]
        stem = word.removeprefix(ending)
        if stem != word and stem in units:
            return [ending, stem]
    return [word]
