"""Pages as HTML, for printing and for screens: no scripts, no addresses, nothing that a page would fetch.

With the templates of the dashboard the only places where text becomes HTML.
A plain string is text and gets escaped; only `Markup`, which is made here, is HTML.
"""

import html
import re

_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_HEAD = (
    '<!DOCTYPE html>\n<html lang="{language}">\n<head>\n<meta charset="utf-8">\n'
    # The browser refuses scripts and other content that our pages do not need, even if escaping failed.
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
    '<meta name="referrer" content="no-referrer">\n<meta name="robots" content="noindex">\n'
    '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
)


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()

    def __html__(self) -> str:
        """Return it as it is: so templates ask whether something is HTML."""
        return self


def escape(text: str) -> Markup:
    """Escape text for content and for quoted attributes; what cannot be printed becomes U+FFFD; markup stays.

    Examples
    --------
    >>> escape('<b title="x">')
    '&lt;b title=&quot;x&quot;&gt;'
    """
    return (
        text if isinstance(text, Markup) else Markup(html.escape(_UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text)))
    )


def element(tag: str, *parts: str, **attributes: str) -> Markup:
    """Return an element; `class_` is the attribute ``class``.

    Examples
    --------
    >>> element("td", "a", element("b", "<"), class_="quiet")
    '<td class="quiet">a<b>&lt;</b></td>'
    """
    stated = "".join(f' {name.rstrip("_")}="{escape(value)}"' for name, value in attributes.items())
    return Markup(f"<{tag}{stated}>{''.join(map(escape, parts))}</{tag}>")


def said(text: str) -> Markup:
    """Return text that somebody else wrote, isolated: it cannot turn the direction of the sentence around it."""
    return element("bdi", text)


def join(parts: list[Markup], separator: str = ", ") -> Markup:
    """Return parts with a separator, which is text."""
    return Markup(escape(separator).join(parts))


def fill(sentence: str, **parts: str) -> Markup:
    """Fill the places of a sentence, which is text, with text or markup.

    Examples
    --------
    >>> fill("{who} & {what}", who="<a>", what=element("b", "x"))
    '&lt;a&gt; &amp; <b>x</b>'
    """
    return Markup(escape(sentence).format(**{name: escape(part) for name, part in parts.items()}))


def page(title: str, style: str, *parts: str, language: str) -> str:
    """Return a whole page.

    Parameters
    ----------
    title : str
    style : str
        CSS of ours: it is not escaped.
    *parts : str
        Of the body.
    language : str
        A tag of BCP 47.
    """
    head = f"{_HEAD.format(language=escape(language))}{element('title', title)}\n<style>\n{style}</style>\n</head>\n"
    return f"{head}<body>\n" + "\n".join(map(escape, parts)) + "\n</body>\n</html>\n"
