"""Names of columns that number persons, records or staff."""

import pytest

from curator_service.datasets.keys import KeyOf, find_persons, looks_like_key

_NAMES = {
    KeyOf.PERSON: "person_id PatientID patientid Patienten-Nr. id_paciente codice_paziente patient Subject USUBJID mrn "
    "BENE_ID patid eid SSN cpr lopnr Personnummer henkilötunnus codice_fiscale NHS_Number hospital_number Pat-Nr "
    "Versichertennummer subject.reference pseudonym participant_code mother_id record_id study_id client_id dossier_no "
    "individual Patient_Nummer 患者ID 身份证号 환자번호 Номер_пациента ID_pacjenta vpnr",
    KeyOf.RECORD: "measurement_id visit_no visit_occurrence_id FallNr Aufnahmenummer hadm_id stay_id claim_id AESEQ "
    "EncounterKey sample_id row_id encounter_num VISITNUM",
    KeyOf.STAFF: "provider_id doctor_id NPI Arzt-Nr",
    KeyOf.UNKNOWN: "id ID nr Nummer uuid Kennung hospital_id grade_id idcode",
    None: "uric_acid covid thyroid steroid lipid paid valid grid yes_no diabetes_no number_of_children n_children num "
    "num_visits Anzahl_Kinder patient_age subject_weight patients person_years phone_number Hausnummer zip site_id "
    "household_id gender_concept_id age sex income wage visit visit_date patient_count kindness no name code "
    "famid firm_id",
}


@pytest.mark.parametrize(
    ("header", "unit"), [(header, unit) for unit, headers in _NAMES.items() for header in headers.split()]
)
def test_a_key_is_known_by_its_name_in_the_languages_of_hospitals(header: str, unit: KeyOf | None) -> None:
    assert looks_like_key(header) is unit


@pytest.mark.parametrize(
    ("headers", "schema", "columns"),
    [
        (["measurement_id", "person_id", "value_as_number"], "OMOP CDM", ("person_id",)),
        (["STUDYID", "USUBJID", "AESEQ"], "CDISC", ("USUBJID",)),
        (["STUDYID", "SITEID", "SUBJID", "AESEQ"], "CDISC", ("STUDYID", "SITEID", "SUBJID")),
        (["record_id", "redcap_event_name", "age"], "REDCap", ("record_id",)),
        (["id", "resourceType", "subject.reference"], "FHIR", ("subject.reference",)),
        (["subject_id", "hadm_id", "stay_id"], "MIMIC", ("subject_id",)),
        (["BENE_ID", "CLM_ID", "AT_PHYSN_NPI"], "claims", ("BENE_ID",)),
    ],
)
def test_a_known_schema_says_which_columns_are_a_person(
    headers: list[str], schema: str, columns: tuple[str, ...]
) -> None:
    (found,) = find_persons(headers)
    assert (found.schema, found.columns) == (schema, columns)


def test_a_common_name_is_a_person_of_a_schema_only_beside_its_other_columns() -> None:
    assert find_persons(["record_id", "subject_id", "subject", "age"]) == []
