"""How wide a text of a picture is, estimated by the widths of DejaVu Sans, which is wider than most viewers' fonts."""

# Widths by the size of the font.
NARROW = {**dict.fromkeys("ijlI'|", 0.29), **dict.fromkeys(" .,:;/!", 0.34), **dict.fromkeys("()[]-ftr", 0.40)}
WIDE = {**dict.fromkeys("mMW%@", 0.95), **dict.fromkeys("w+<>=~", 0.83), **dict.fromkeys("ABCDGHKNOQRSUVXY", 0.73)}
USUAL, BOLD = 0.62, 1.1


def text_width(text, size, bold=False):
    return size * sum(NARROW.get(each) or WIDE.get(each) or USUAL for each in text) * (BOLD if bold else 1)


def wrapped(text, size, width):
    """Lines that fit."""
    lines = [""]
    for word in text.split(" "):
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and text_width(longer, size) > width:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines
