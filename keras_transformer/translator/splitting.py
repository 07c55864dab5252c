"""Cuts a text that is too long for a model: at sentence ends, else smaller."""

import re

# A mark, what closes with it, and the space after. Chinese and Japanese need
# none. A line break ends any sentence.
_SENTENCE_END = re.compile(
    r"""[.!?…]["'”’“‘»)\]]*(?P<space>\s+)"""
    r"""|[。！？]+[」』”’）]*(?P<none>\s*)"""
    # Only where spaces begin: else a long run of them takes hours.
    r"""|(?P<line>(?<!\s)\s*\n\s*)"""
)
_OPENING = "\"'“„‘«(["
# Words whose dot ends no sentence: letters, German ordinals, and a few more.
_ABBREVIATION = re.compile(
    r"\b(\w|\d\d|Mr|Mrs|Ms|Dr|Prof|St|Sr|Jr|No|Nr|vs|Hr|Fr|bzw|ca|Abs|Art|Mio|"
    r"Mrd|evtl|vgl|Jan|Feb|Aug|Sept|Okt|Oct|Nov|Dez|Dec)\.$"
)
_CLAUSE_END = re.compile(r"[;:,–—](?P<space>\s+)|[；：，、](?P<none>\s*)")
_SPACE = re.compile(r"(?P<space>\s+)")
_WIDE_END = re.compile(r"[。！？；：，、][」』”’）]*$")


def split_text(text, fits):
    """Cuts a text into parts that fit.

    It is cut at the ends of its sentences. A sentence that is still too long
    is halved: at the mark of a clause, else between words, else anywhere.

    Args:
        text: A string.
        fits: A function that says whether a part is short enough.

    Returns:
        `[(part, gap), ...]`: the parts, and the spaces that followed each. All
        of them in a row are the text again.

    >>> split_text("One. Two, or three?", lambda part: len(part) < 10)
    [('One.', ' '), ('Two,', ' '), ('or three?', '')]
    """
    if fits(text):
        return [(text, "")]
    return [
        half
        for sentence, gap in _cut(text, _sentence_ends(text))
        for half in _halved(sentence, gap, fits)
    ]


def target_gap(target, source, gap):
    """What stands between the translation of a part and of the next one.

    It is the gap between the parts. After a mark that has no space behind it
    in the language of the source, it is a space, if the translation has another
    mark.

    >>> target_gap("This is it.", "就是它。", "")
    ' '
    """
    if not gap and target and _WIDE_END.search(source):
        return "" if _WIDE_END.search(target) else " "
    return gap


def _sentence_ends(text):
    for match in _SENTENCE_END.finditer(text):
        start, end = match.span(match.lastgroup)
        before = text[max(0, start - 8) : start]
        after = text[end : end + 4].lstrip(_OPENING)
        goes_on = _ABBREVIATION.search(before) or after[:1].islower()
        if match.lastgroup != "space" or not goes_on:
            yield start, end


def _halved(text, gap, fits):
    """Halves and halves again, as near to the middle as the marks allow."""
    if len(text) < 2 or fits(text):
        return [(text, gap)]
    (first, first_gap), (second, _) = _cut(text, [_middle(text)])
    return _halved(first, first_gap, fits) + _halved(second, gap, fits)


def _middle(text):
    middle = len(text) // 2
    for pattern in (_CLAUSE_END, _SPACE):
        gaps = (m.span(m.lastgroup) for m in pattern.finditer(text))
        inside = [(a, b) for a, b in gaps if a > 0 and b < len(text)]
        if inside:
            return min(inside, key=lambda gap: abs(gap[0] - middle))
    return middle, middle


def _cut(text, gaps):
    parts, start = [], 0
    for gap_start, gap_end in gaps:
        parts.append((text[start:gap_start], text[gap_start:gap_end]))
        start = gap_end
    if start < len(text):
        parts.append((text[start:], ""))
    return parts
