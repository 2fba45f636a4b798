"""Displayed names: names of every script are taken, and what hides, turns or imitates is refused or made visible."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curator_service.identity.names import (
    EMAIL_MAX,
    NAME_MAX,
    STORED_MAX,
    NameRefused,
    make_plain,
    read_email,
    read_name,
)
from curator_service.identity.people import Person
from curator_service.identity.repository import PersonName, StoredName
from curator_service.kit.names import DECEIVING

GOOD = (
    "Ada Lovelace", "O'Neil-Smith, MD (DSB)", "João d’Ávila", "Nguyễn Thị Hồng", "Łukasz Żółć", "Þórður", "ʻŌlelo",
    "Анна Мюллер", "Dr. Μαρία Παπαδοπούλου", "Ὀδυσσεύς", "שרה כהן", "בן־דוד", "ג׳ורג׳",
    "عليرضا", "علی\u200cرضا", "محمّد",
    "क्षितिज", "தமிழ்", "ශ\u0dca\u200dරී", "ศิริพร น้ำฝน", "བཀྲ་ཤིས", "မြန်မာ", "አበበ", "ქეთევან", "山田太郎", "佐々木 さくら",
    "ジョン・スミス", "김철수", "Anna Мария",
)  # fmt: skip
UNSEEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
BAD = {
    "\u0410da": "Cyrillic in a word that has Latin letters",
    "Gr\u0430ce": "Cyrillic in a word that has Latin letters",
    "p\u03bflly": "Greek in a word that has Latin letters",
    "\u0440\u0430\u0443\u0440\u0430l": "Cyrillic in a word that has Latin letters",
    "Ada\u0561": "Armenian in a word that has Latin letters",
    "\u05d0\u0627": "Arabic in a word that has Hebrew letters",
    "Ada \u202eecalevoL": "turns the direction",
    "Ada\u2066": "turns the direction",
    "Ada\u200f": "turns the direction",
    "A\u200bda": "cannot be seen",
    "A\u200dda": "cannot be seen",
    "A\u200cda": "cannot be seen",
    "A\u00adda": "cannot be seen",
    "\ufeffAda": "cannot be seen",
    "Ada\U000e0041": "cannot be seen",
    "A\u034fda": "cannot be seen",
    "A\u115fda": "cannot be seen",
    "A\u3164da": "cannot be seen",
    "Ada\ufe0f": "cannot be seen",
    "A\U000e0100da": "cannot be seen",
    "Ada\x00": "cannot be seen",
    "Ada\x1b[31m": "cannot be seen",
    "Ada\x9b31m": "cannot be seen",
    "\U0001d400da": "another form of a letter",
    "\uff21da": "another form of a letter",
    "\ufb01n": "another form of a letter",
    "\u2160da": "no letter",
    "Ada\u2800": "no letter",
    "Ada\U0001f600": "no letter",
    "Ada\ue000": "no letter",
    "Ada\ud800": "no letter",
    "Ada\u0378": "no letter",
    "Ada\u2024": "no letter",
    "Ada\\u202e": "no letter",
    "b" + 5 * "\u0302": "has 4 already",
    "Ada \u0301": "mark without a letter",
    "\u0301da": "mark without a letter",
    "": "has a letter",
    " \u00a0": "has a letter",
    "1815": "has a letter",
    "x" * (NAME_MAX + 1): f"at most {NAME_MAX}",
}
"""Of names that are refused, what the refusal says."""


@pytest.mark.parametrize("name", GOOD)
def test_names_of_every_script_are_taken(name: str) -> None:
    assert read_name(name) == unicodedata.normalize("NFC", name)
    assert read_name(f" {name}\u00a0\n") == read_name(name)
    assert make_plain(name, NAME_MAX) == read_name(name)


@pytest.mark.parametrize("name", BAD, ids=ascii)
def test_what_hides_turns_or_imitates_is_refused_with_its_reason(name: str) -> None:
    with pytest.raises(NameRefused, match=BAD[name]) as raised:
        read_name(name)
    assert raised.value.member == "display_name"
    assert str(raised.value).isascii()


def test_a_refusal_names_the_character() -> None:
    with pytest.raises(NameRefused, match=r"^character 3, U\+0430, is Cyrillic"):
        read_name("Gr\u0430ce")


def test_spellings_of_one_name_are_stored_alike() -> None:
    assert read_name("A\u030agne") == read_name("\u00c5gne") == read_name("\u212bgne")


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("\u0410da", "\\u0410da"),
        ("Ada \u202eecalevoL", "Ada \\u202eecalevoL"),
        ("\u0440\u0430l", "\\u0440\\u0430l"),
        ("\U0001d400da", "\\U0001d400da"),
        ("Ada\\u202e", "Ada\\u005cu202e"),
        (" A\u200bda\n", "A\\u200bda"),
        ("\u05d0\u0627", "\u05d0\\u0627"),
    ],
)
def test_a_provider_s_name_has_escapes_in_the_places_of_such_characters(name: str, shown: str) -> None:
    assert make_plain(name, NAME_MAX) == shown


@given(st.text(max_size=2 * NAME_MAX))
def test_whatever_a_provider_states_deceives_nobody_and_can_be_stored(text: str) -> None:
    shown = make_plain(text, NAME_MAX)
    assert len(shown) <= STORED_MAX
    shown.encode()
    assert not DECEIVING.search(shown)
    assert not {unicodedata.category(letter) for letter in set(shown) - {"\u200c", "\u200d"}} & UNSEEN


@given(st.text(alphabet=st.characters(min_codepoint=0x20, max_codepoint=0x500), max_size=NAME_MAX))
def test_what_is_taken_is_shown_as_it_is(text: str) -> None:
    try:
        name = read_name(text)
    except NameRefused:
        return
    assert make_plain(name, NAME_MAX) == name == read_name(name)


@pytest.mark.parametrize("address", ["", "ada@hospital.example", "a.b+c@x", "o'neil@sub.hospital.example"])
def test_addresses_are_taken(address: str) -> None:
    assert read_email(f" {address} ") == address


@pytest.mark.parametrize(
    "address",
    ["ada", "@x", "ada@", "a@b@c", "a b@x", "\u0430da@x", "ada@\u0445", "a\u200b@x", "a\\@x", "ada@.x", "ada@x..y",
     "a" * 65 + "@x", "ada@" + "x" * EMAIL_MAX],
    ids=ascii,
)  # fmt: skip
def test_other_addresses_are_refused(address: str) -> None:
    with pytest.raises(NameRefused) as raised:
        read_email(address)
    assert raised.value.member == "email"


def test_a_digest_is_of_everything_that_is_shown_and_of_whom() -> None:
    stored = StoredName(PersonName("Ada Lovelace", "ada@hospital.example"), "00" * 32)
    digests = {
        stored.commit("prn_1"),
        stored.commit("prn_2"),
        StoredName(PersonName("Ada Lovelace"), stored.key).commit("prn_1"),
        StoredName(PersonName("Ada Lovelac", "eada@hospital.example"), stored.key).commit("prn_1"),
        StoredName(PersonName("Grace Hopper", "ada@hospital.example"), stored.key).commit("prn_1"),
        StoredName(stored.said, "01" * 32).commit("prn_1"),
    }
    assert len(digests) == 6
    assert stored.commit("prn_1") == StoredName(stored.said, stored.key).commit("prn_1")


def test_in_a_line_of_text_the_displayed_name_never_stands_first() -> None:
    assert Person("prn_1", "mallory", "grace (Grace Hopper)").label == "mallory (grace [Grace Hopper])"
    assert Person("prn_1", "ada").label == "ada"
