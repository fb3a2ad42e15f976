"""The sentences of a page, as a reader meets them: of Markdown, and of a manual page (roff).

Left out: code blocks, headings, comments, the synopsis and the tags of a manual page. A paragraph, a list item and a
cell of a table each end their last sentence. A code span counts as one word, a link by its text."""
import re

ABBREVIATIONS = {"e.g.", "i.e.", "etc.", "vs.", "cf.", "approx.", "incl.", "resp.", "fig.", "no.", "al."}
CLOSING = ")]\"'”’*_"
HIDDEN = re.compile("C([\ue000-\uefff]+)")  # what _hide makes
FENCE = re.compile(r"^[>\s]*(?:(?:[-*+]|\d+[.)])\s+)?(```+|~~~+)")
ITEM = re.compile(r"^\s*(?:[-*+]|\d+[.)])\s+")
LINK = re.compile(r"!?\[([^\[\]]*)\](?:\([^()\s]*(?:\([^()]*\)[^()\s]*)?\)|\[[^\]]*\])")
SPAN = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.DOTALL)


def _hide(code):
    """Code as one word without blanks or marks, until _shown."""
    return "C" + "".join(chr(0xE000 + min(ord(one), 0xFFF)) for one in code)


def _shown(word):
    return HIDDEN.sub(lambda m: "".join(chr(ord(one) - 0xE000) for one in m.group(1)), word)


def _ends(token, following):
    """Whether a sentence ends with this word."""
    bare = token.rstrip(CLOSING)
    if not bare.endswith((".", "!", "?")) or bare.endswith("..") or len(bare) == 1:
        return False
    word = bare.lstrip("([\"'“‘*_").lower()
    if word == "no.":
        return not following[:1].isdigit()
    if word == "etc.":
        return following[:1].isupper()
    return word not in ABBREVIATIONS


def _split(block):
    """The sentences of a block of (line, text): (line, words)."""
    tokens = [(line, token) for line, text in block for token in text.split()]
    sentence = []
    for at, (line, token) in enumerate(tokens):
        sentence.append((line, token))
        following = tokens[at + 1][1] if at + 1 < len(tokens) else ""
        if _ends(token, following) or at + 1 == len(tokens):
            words = [one for one in sentence if re.search(r"\w", one[1])]
            if words:
                yield words[0][0], [_shown(one[1]) for one in words]
            sentence = []


def _lines(text):
    return "\n" * text.count("\n")


def _inline(block):
    """A block of Markdown without its marks, line by line."""
    first = block[0][0]
    text = "\n".join(line for _, line in block)
    text = SPAN.sub(lambda m: _lines(m.group(0)) + _hide(m.group(0).replace("\n", " ")), text)
    text = LINK.sub(r"\1", text)
    text = re.sub(r"<(?:https?|mailto):[^>]*>", lambda m: _hide(m.group(0)), text)
    text = re.sub(r"</?[A-Za-z][^<>]*>", lambda m: _lines(m.group(0)), text)
    text = re.sub(r"\*+|~~|(?<!\w)_+(?=\w)|(?<=\w)_+(?!\w)", "", text)
    return list(enumerate(text.split("\n"), first))


def _cells(line):
    """The cells of a row; a pipe in a code span or behind a backslash is text."""
    line = SPAN.sub(lambda m: "`" + m.group(2).replace("|", " ") + "`", line.strip().replace("\\|", " "))
    return line.strip("|").split("|")


def _without_code_blocks(text):
    """The text with empty lines in place of fenced code and HTML comments."""
    lines, fence = [], None
    for line in text.splitlines():
        mark = FENCE.match(line)
        if fence:
            fence = None if mark and mark.group(1).startswith(fence) else fence
            line = ""
        elif mark:
            fence, line = mark.group(1), ""
        lines.append(line)
    return re.sub(r"<!--.*?-->", lambda m: _lines(m.group(0)), "\n".join(lines), flags=re.DOTALL)


def _blocks(text):
    """Paragraphs, list items and cells of Markdown: lists of (line, text)."""
    block, listed = [], False
    for number, line in enumerate(_without_code_blocks(text).split("\n"), 1):
        line = re.sub(r"^\s*>\s?", "", line)
        item = ITEM.match(line)
        row, heading = line.lstrip().startswith("|"), re.match(r"#{1,6}\s", line)
        if block and (item or row or heading or not line.strip() or "<br" in line):
            yield block
            block = []
        if item:
            listed = True
        elif line.strip() and not line.startswith(" "):
            listed = False
        if not line.strip() or heading or re.match(r"\s*([-=*_]\s*){3,}$", line):
            continue
        if not block and not listed and line.startswith("    "):
            continue  # code by indentation
        if row or "<br" in line:
            yield from ([(number, part)] for cell in (_cells(line) if row else [line]) for part in re.split(r"<br\s*/?>", cell))
        else:
            block.append((number, line[item.end():] if item else line))
    if block:
        yield block


def of_markdown(text):
    """The sentences: (line, words)."""
    return [sentence for block in _blocks(text) for sentence in _split(_inline(block))]


def _unescape(text):
    for written, read in (("\\-", "-"), ("\\&", ""), ("\\~", " "), ("\\(em", "—"), ("\\(en", "–"), ("\\(aq", "'"), ("\\e", "\\"), ("\\ ", " ")):
        text = text.replace(written, read)
    return text


def _fonts(text):
    """Bold and italic text is a name or a placeholder: one word, like a code span."""
    text = re.sub(r"\\f[BI](.*?)(?=\\f[A-Z]|$)", lambda m: _hide(_unescape(m.group(1))) if m.group(1).strip() else m.group(1), text)
    return _unescape(re.sub(r"\\f[A-Z]", "", text))


def _alternating(macro, rest):
    """The text of .BR, .RI and so on: words in two fonts in turn, without blanks between them."""
    words = [quoted or plain for quoted, plain in re.findall(r'"([^"]*)"|(\S+)', rest)]
    fonts = (macro[at % 2] for at in range(len(words)))
    return "".join(_fonts(word) if font == "R" else _hide(_unescape(word)) for font, word in zip(fonts, words))


class _Page:
    """One manual page, line by line."""

    def __init__(self):
        self.blocks, self.skip, self.tag, self.literal = [[]], True, False, False

    def macro(self, number, name, rest):
        if name in ("nf", "EX"):
            self.literal = True
        elif name in ("fi", "EE"):
            self.literal = False
        elif re.fullmatch(r"[BI]", name):
            self.text(number, _hide(_unescape(rest.strip())) if rest.strip() else "")
        elif re.fullmatch(r"[BIR]{2}", name):
            self.text(number, _alternating(name, rest))
        if name in ("SH", "SS"):
            self.skip = "SYNOPSIS" in rest
        if name in ("TH", "SH", "SS", "PP", "P", "LP", "IP", "TP", "TQ", "br", "sp", "RS", "RE", "nf", "fi", "EX", "EE"):
            self.blocks.append([])
            self.tag = name in ("TP", "TQ")

    def text(self, number, line):
        if self.tag:
            self.tag = False
        elif not self.skip and not self.literal:
            self.blocks[-1].append((number, line))


def of_manual(text):
    """The sentences of a manual page: (line, words)."""
    page = _Page()
    for number, line in enumerate(text.splitlines(), 1):
        if re.match(r"[.']\s*\\\"", line):
            continue
        macro = re.match(r"\.\s*(\w+)\s*(.*)", line)
        if macro:
            page.macro(number, macro.group(1), macro.group(2))
        elif not line.startswith((".", "'")):
            page.text(number, _fonts(line))
    return [sentence for block in page.blocks for sentence in _split(block)]


def sentences(name, text):
    return of_markdown(text) if name.endswith(".md") else of_manual(text)
