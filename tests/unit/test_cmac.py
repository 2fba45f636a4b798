"""AES-CMAC of many texts at once, against that of one text of the library `cryptography`, and published vectors."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from cryptography.hazmat.primitives import cmac
from cryptography.hazmat.primitives.ciphers.algorithms import AES

from curator_service.datasets.pseudonyms import Pseudonymiser, find_texts
from curator_service.kit.cmac import Cmac


def lay_out(texts: list[bytes]) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    ends = np.cumsum([len(text) for text in texts], dtype=np.int64)
    return np.frombuffer(b"".join(texts), np.uint8), ends - [len(text) for text in texts], ends


@pytest.mark.parametrize("size", [16, 32])
def test_each_text_has_the_code_that_it_has_alone(size: int) -> None:
    chance = np.random.default_rng(5)
    texts = [chance.bytes(int(length)) for length in chance.permutation(np.repeat(np.arange(70), 3))]
    made = Cmac(bytes(range(size))).make(*lay_out(texts))
    for text, code in zip(texts, made, strict=True):
        alone = cmac.CMAC(AES(bytes(range(size))))
        alone.update(text)
        assert alone.finalize() == code.tobytes()


def test_the_vectors_of_rfc_4493() -> None:
    key = bytes.fromhex("2b7e151628aed2a6abf7158809cf4f3c")
    text = bytes.fromhex(
        "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51"
        "30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710"
    )
    made = Cmac(key).make(*lay_out([text[:length] for length in (0, 16, 40, 64)]))
    assert [code.tobytes().hex() for code in made] == [
        "bb1d6929e95937287fa37d129b756746",
        "070a16b46b4d4144f79bdd9dd04a287c",
        "dfa66747de9ae63030ca32611497c827",
        "51f0bebf7e3b9d92fc49741779363cfe",
    ]


def test_a_pseudonym_depends_on_key_and_identifier_alone() -> None:
    """Not on what stands beside it in an array, nor on where the array begins."""
    who = Pseudonymiser("key", bytes(32))
    words = pa.array(["p1", "", "a rather long identifier of somebody", "p2", "p1"])
    made = [code.tobytes() for code in who.make(words)]
    assert [who.make(words.slice(i, 1))[0].tobytes() for i in range(5)] == made
    assert made[0] == made[4]
    assert len(set(made)) == 4
    assert not set(made) & {code.tobytes() for code in Pseudonymiser("key", b"t" * 32).make(words)}
    assert [len(one) for one in find_texts(words.slice(5))] == [0, 0, 0]
