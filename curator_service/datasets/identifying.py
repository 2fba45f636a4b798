"""Headers of columns that identify a person: names, addresses and telephones, in the languages of hospitals."""

import re
from itertools import pairwise

from curator_service.datasets.keys import fold

_IDENTIFYING = (
    "email mail epost phone telephone mobile fax passport iban address street surname firstname lastname fullname "
    "forename middlename maidenname username initials "  # English
    "vorname nachname zuname familienname geburtsname rufname anschrift adresse strasse hausnummer telefon handy mobil "
    "unterschrift kurzel initialen "  # German
    "prenom prenoms patronyme nomdefamille rue tel portable courriel "  # French
    "apellido apellidos direccion domicilio calle telefono movil celular correo "  # Spanish
    "cognome indirizzo cellulare "  # Italian
    "voornaam achternaam roepnaam geboortenaam adres woonadres straat huisnummer telefoon mobiel "  # Dutch
    "sobrenome apelido endereco morada rua telefone telemovel "  # Portuguese
    "fornamn efternamn fornavn efternavn etternavn adress gatuadress "  # Swedish, Danish, Norwegian
    "imie nazwisko ulica prijmeni ulice etunimi sukunimi osoite puhelin keresztnev vezeteknev"
)
_STEMS = (
    "vorname", "nachname", "familienname", "geburtsname", "telefon", "telephone", "adresse", "address", "anschrift",
    "strasse", "email", "surname", "firstname", "lastname", "prenom", "cognome", "apellido", "voornaam", "achternaam",
    "telefoon", "telefono", "telefone", "direccion", "indirizzo", "endereco",
)  # fmt: skip
"""Within longer words, such as `hausarztadresse`."""
_OTHER_SCRIPTS = (
    "имя фамилия отчество телефон адрес улица прізвище име презиме όνομα επώνυμο διεύθυνση τηλέφωνο "
    "姓名 氏名 住所 地址 电话 電話 이름 주소"
)
_NAMES = "name names nom noms nombre nombres nome nomi naam namen navn namn jmeno nimi nev ime"
_NAME_ENDINGS = ("name", "naam", "namn", "navn")


def find_words(header: str) -> list[str]:
    """Return the words of a header, in lower case and plain letters."""
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", header)
    return re.findall(r"[a-z0-9]+", fold(apart).lower().encode("ascii", "ignore").decode())


def is_identifying(header: str) -> bool:
    """Return True if a column's name is typical of one that identifies a person, whatever it holds."""
    if not set(header.casefold().split()).isdisjoint(_OTHER_SCRIPTS.split()):
        return True
    words = find_words(header)
    joined = {*words, *(one + other for one, other in pairwise(words))}
    return not joined.isdisjoint(_IDENTIFYING.split()) or any(stem in word for word in words for stem in _STEMS)


def is_name(header: str) -> bool:
    """Return whether a column of texts is called a name, and of nothing else."""
    words = find_words(header)
    return bool(words) and set(words).issubset(_NAMES.split())


def ends_as_name(header: str) -> bool:
    """Return whether a column is called the name of something, which may be a person."""
    return any(word in _NAMES.split() or word.endswith(_NAME_ENDINGS) for word in find_words(header))
