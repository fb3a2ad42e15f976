#!/usr/bin/env python3
"""What counts as a sentence and as a word (prose.py), and that `sentences` fails."""
import contextlib
import importlib.machinery
import importlib.util
import io
import os
import sys
import tempfile
import unittest

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, FOLDER)
sys.dont_write_bytecode = True
import prose  # noqa: E402


def lengths(text, of=prose.of_markdown):
    return [len(words) for _, words in of(text)]


class Markdown(unittest.TestCase):
    def test_a_sentence_ends_with_its_mark(self):
        self.assertEqual(lengths("One two. One two three! One? One two"), [2, 3, 1, 2])
        self.assertEqual(lengths("He said (one two.) One *two.* **One** `two`. One [two](x.md). One"), [4, 2, 2, 2, 1])

    def test_a_paragraph_goes_over_lines(self):
        self.assertEqual(prose.of_markdown("One\ntwo. Three\nfour.\n\nFive")[1:], [(2, ["Three", "four."]), (5, ["Five"])])

    def test_dots_that_end_nothing(self):
        for text in ("See e.g. the page", "See 0.5 of it", "See engine.md here", "See version 1.2.3 here", "From 1 .. 2", "See no. 5 here", "Apples, etc. are here"):
            self.assertEqual(len(lengths(text)), 1, text)
        self.assertEqual(lengths("It is 1 %. So there. The answer is no. It ends, etc. The next"), [3, 2, 4, 3, 2])

    def test_neither_colon_nor_semicolon_nor_dash_ends_it(self):
        self.assertEqual(lengths("One: two; three - four — five -> six."), [6])

    def test_code_is_a_word(self):
        self.assertEqual(lengths("Run `one two. three` and ``a ` b``, or `a\nb`."), [6])
        self.assertEqual(prose.of_markdown("Run `a b`.")[0][1], ["Run", "`a b`."])

    def test_links_count_by_their_text(self):
        self.assertEqual(lengths("See [one two](a/b_(c).md#d), ![three](x.svg), [four][ref] and <https://x.y/z>."), [7])

    def test_marks_are_no_words(self):
        self.assertEqual(lengths("> **One** _two_ <b>three</b> snake_case + / 5 %."), [5])

    def test_left_out(self):
        for text in ("# A heading", "```sh\na b\n```", "- item\n  ```\n  a b\n  ```", "<!-- a b\nc -->", "|---|---:|", "    code here", "---", "~~~~\n```\na\n~~~~", "````\n```\na\n````"):
            self.assertEqual(lengths(text)[text.startswith("- "):], [], text)

    def test_items_end_a_sentence(self):
        self.assertEqual(lengths("It is:\n- one two\n  three\n- four\n1. five six\n\n   More here.\n\n    And more.\n"), [2, 3, 1, 2, 2, 2])

    def test_cells_end_a_sentence(self):
        self.assertEqual(lengths("| a | b c |\n|---|---|\n| one. two three | `x \\| y` z \\| w<br>v |"), [1, 2, 1, 2, 3, 1])
        self.assertEqual(lengths("one<br>two three"), [1, 2])


class Manual(unittest.TestCase):
    PAGE = r""".\" a comment
.TH X 8 "" "words of it"
.SH SYNOPSIS
.B x
[\fIoptions\fR] and more
.SH OPTIONS
One
.B two\-word name
three \fBfour\fR.
.TP
.BI \-\-tag " VALUE"
Five
.BR x (8),
six. Seven \- eight
.PP
Nine
.nf
not counted
.fi
"""

    def test_page(self):
        self.assertEqual(prose.of_manual(self.PAGE), [(7, ["One", "two-word name", "three", "four."]), (12, ["Five", "x(8),", "six."]),
                                                      (14, ["Seven", "eight"]), (16, ["Nine"])])


class Check(unittest.TestCase):
    """The script, with pages of its own."""

    def setUp(self):
        loader = importlib.machinery.SourceFileLoader("sentences", os.path.join(FOLDER, "sentences"))
        self.script = importlib.util.module_from_spec(importlib.util.spec_from_loader("sentences", loader))
        loader.exec_module(self.script)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.page = os.path.join(folder.name, "page.md")
        self.script.TABLE = os.path.join(folder.name, "table.tsv")
        self.script.PAGES_MIN = 1
        self.script.pages = lambda: [self.page]

    def checked(self, words, allowed, run=None):
        with open(self.page, "w", encoding="utf-8") as file:
            file.write("".join("word " * count + "end.\n\n" for count in words))
        with open(self.script.TABLE, "w", encoding="utf-8") as file:
            file.write("# head\n" + (f"{self.page}\t{allowed}\n" if allowed is not None else ""))
        with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
            return (run or self.script.check)()

    def test_limit(self):
        self.assertEqual(self.checked([29, 29], None), 0)
        self.assertEqual(self.checked([29, 30], None), 1)

    def test_the_table_holds_what_is_there(self):
        self.assertEqual([self.checked([30, 30], allowed) for allowed in (1, 2, 3)], [1, 0, 1])

    def test_the_table_only_shrinks(self):
        for words, allowed, left in (([30], 2, 1), ([30, 30], 1, 1), ([1], 2, None), ([30], None, None)):
            self.checked(words, allowed, lambda: self.script.write(self.script.table(), {self.page: len(self.script.too_long(self.page))}))
            self.assertEqual(self.script.table().get(self.page), left, (words, allowed))

    def test_show(self):
        self.assertEqual(self.checked([29], None, lambda: self.script.show([self.page])), 0)
        self.assertEqual(self.checked([30], 1, lambda: self.script.show([self.page])), 1)


if __name__ == "__main__":
    unittest.main()
