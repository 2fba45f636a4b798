"""The code of a module, without its words: what a digest of code is of."""

import io
import tokenize

_LEFT_OUT = {tokenize.COMMENT, tokenize.NL, tokenize.ENCODING, tokenize.ENDMARKER}
_BEGINS = {tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}


def read_code(text: str) -> str:
    r"""Return a module's text without comments, blank lines and docstrings.

    Examples
    --------
    >>> read_code('def one():\n    "Return one."\n    return 1  # of all\n')
    'def\x00one\x00(\x00)\x00:\x00return\x001'
    """
    tokens = [one for one in tokenize.generate_tokens(io.StringIO(text).readline) if one.type not in _LEFT_OUT]
    kept, before = [], tokenize.NEWLINE
    for i, one in enumerate(tokens):
        follows = tokens[i + 1].type if i + 1 < len(tokens) else tokenize.NEWLINE
        is_said = one.type == tokenize.STRING and before in _BEGINS and follows == tokenize.NEWLINE
        if not is_said and one.string.strip():
            kept.append(one.string)
        before = one.type
    return "\0".join(kept)
