"""Messages of ICU MessageFormat with branches (`plural`, `select`, `selectordinal`), in documents of any format.

The words around an argument are drawn into its branches, so that each branch is a whole sentence: "You have {n, plural,
one {# dog} other {# dogs}}" gives the texts "You have {#n} dog" and "You have {#n} dogs". Their translations become an
equivalent message with the plural forms of the target language.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from dragoman.formats.cancelling import check_cancelled
from dragoman.formats.document import HAS_BRANCHES, Document, Left, lines_in, with_lines
from dragoman.formats.inline import TAG
from dragoman.formats.plurals import CATEGORIES, note_on_forms, plural_sources
from dragoman.surface.sentences import BRANCHES

MOST_BRANCHES, LONGEST_MESSAGE = 24, 10_000
"""Most branches and characters of a message."""
_BEGIN = re.compile(rf"(?={BRANCHES.pattern})\{{\s*(\w+)\s*,\s*(\w+)\s*,(\s*offset\s*:\s*\d+)?")
_PIECE = re.compile(r"[{}#]|[^{}#]+")
_ARGUMENT = re.compile(r"(\{[^{}]+\})")


class Chooser(NamedTuple):
    """An argument that chooses one of several branches."""

    name: str
    kind: str
    offset: str

    @property
    def sign(self) -> str:
        """The number, which ICU writes as #, in a text to translate."""
        return f"{{#{self.name}}}"


class Branching(NamedTuple):
    """The branches that an argument chooses from: sentences, or branches of the next argument."""

    chooser: Chooser
    branches: "Mapping[str, Tree]"


Tree: TypeAlias = str | Branching


class Message:
    """A message with branches.

    Attributes:
        texts: its sentences, each once and in one line, with arguments in braces.
        other_forms: the number of plural forms that get the words of another form.
    """

    def __init__(self, written: str, languages: tuple[str, str]) -> None:
        """Read a message, to be translated into the second of these languages.

        Raises:
            ValueError: it is damaged or too large, or no equivalent message can be written.
        """
        begins = [*_BEGIN.finditer(written)]
        if len(written) > LONGEST_MESSAGE or len(begins) > MOST_BRANCHES:
            raise ValueError("the message is too large")
        if re.search("'[{}#<>]", written.replace("''", "")):
            raise ValueError("signs in quotes would look like arguments")
        self._written, self._target, self.other_forms = written, languages[1], 0
        self._selectors = defaultdict[Chooser, dict[str, None]](dict)
        for begin in begins:
            chooser, branches, _ = _branches(written, begin)
            self._selectors[chooser].update(dict.fromkeys(branches))
        if len({chooser.name for chooser in self._selectors}) < len({chooser[::2] for chooser in self._selectors}):
            raise ValueError("one number has several offsets")
        self._count = 0
        self._tree = self._expanded(written, {})
        lines = (line for text in _sentences(self._tree) for line in lines_in(text))
        self.texts = [*dict.fromkeys(lines)]
        same = self._joined(self._tree, dict(zip(self.texts, self.texts, strict=True)), None)
        if sorted(TAG.findall(same)) != sorted(TAG.findall(written)):
            raise ValueError("several branches share a tag")

    def translated(self, translations: Sequence[str]) -> str:
        """Return the message with a translation for each of its texts.

        Raises:
            ValueError: a translation has other arguments.
        """
        if [*translations] == self.texts:
            return self._written
        return self._joined(self._tree, dict(zip(self.texts, translations, strict=True)), None)

    def _expanded(self, text: str, chosen: Mapping[Chooser, str]) -> Tree:
        """Return a message as one choice, with the forms of the target language."""
        if (begin := _BEGIN.search(text)) is None:
            self._count += 1
            if self._count > MOST_BRANCHES or re.search("[{}#]", _ARGUMENT.sub("", text)):
                raise ValueError("there are too many branches, or braces without a meaning")
            return text.replace("''", "'")
        chooser, branches, end = _branches(text, begin)
        before, after = text[: begin.start()], text[end:]
        if chooser in chosen:
            return self._expanded(before + _branch(branches, chosen[chooser]) + after, chosen)
        trees = {
            name: self._expanded(before + _branch(branches, name) + after, {**chosen, chooser: name})
            for name in self._selectors[chooser]
        }
        if chooser.kind != "select":
            forms = {name: "".join(_sentences(tree)) for name, tree in trees.items() if name[0] != "="}
            sources = plural_sources(forms, self._target, ordinal=chooser.kind == "selectordinal")
            self.other_forms += sum(name != source for name, source in sources.items())
            sources = {name: name for name in trees if name[0] == "="} | sources
            trees = {name: trees[source] for name, source in sources.items()}
        return Branching(chooser, trees)

    def _joined(self, tree: Tree, translations: Mapping[str, str], inner: Chooser | None) -> str:
        """Return a message as ICU writes it; `inner` chooses the branch that it is in."""
        if isinstance(tree, Branching):
            name, kind, offset = chooser = tree.chooser
            branches = (
                f"{key} {{{self._joined(branch, translations, chooser)}}}" for key, branch in tree.branches.items()
            )
            return f"{{{name}, {kind},{offset} {' '.join(branches)}}}"
        pieces = _ARGUMENT.split(with_lines(tree, [translations[line] for line in lines_in(tree)]))
        signs = {chooser.sign: chooser for chooser in self._selectors}
        doubled = "'" if "''" in self._written else r"'(?=['<>]|\Z)"
        for place, piece in enumerate(pieces):
            number = signs.get(piece)
            if number and number != inner and number.offset:
                raise ValueError("a number with an offset cannot be written in a branch of another argument")
            if number:
                pieces[place] = "#" if number == inner else f"{{{number.name}, number}}"
            elif (piece not in self._written) if place % 2 else re.search("[{}#]", piece):
                raise ValueError(f"{piece} is no argument of the message")
            elif place % 2 == 0:
                pieces[place] = re.sub(doubled, "''", piece)
        return "".join(pieces)


def _branches(text: str, begin: re.Match[str]) -> tuple[Chooser, dict[str, str], int]:
    """Return the branches that begin in a message, with a sign for their number, and their end."""
    chooser = Chooser(begin[1], begin[2], begin[3] or "")
    branches, at, depth, name, branch = dict[str, str](), begin.end(), 1, "", ""
    for piece in _PIECE.finditer(text, at):
        depth += (piece[0] == "{") - (piece[0] == "}")
        if not depth:
            names = r"[\w-]+" if chooser.kind == "select" else "|".join((*CATEGORIES, r"=\d{1,9}"))
            if "other" in branches and all(re.fullmatch(names, name) for name in branches):
                return chooser, branches, piece.end()
            break
        if piece[0] == "{" and depth == 2:
            name, branch = text[at : piece.start()].strip(), ""
        elif piece[0] == "}" and depth == 1:
            branches[name], at = branch, piece.end()
        else:
            branch += chooser.sign if piece[0] == "#" and depth == 2 and chooser.kind != "select" else piece[0]
    raise ValueError("the message is damaged")


def _branch(branches: Mapping[str, str], name: str) -> str:
    if name not in branches and name[0] == "=":
        raise ValueError("the same number has other branches elsewhere in the message")
    return branches.get(name, branches["other"])


def _sentences(tree: Tree) -> Iterator[str]:
    if isinstance(tree, Branching):
        for branch in tree.branches.values():
            yield from _sentences(branch)
    else:
        yield tree


class Branches(Document):
    """A document whose messages with branches are divided into sentences."""

    def __init__(self, document: Document, languages: tuple[str, str]) -> None:
        """Take a document that gives each message with branches as one text."""
        self._inner, self._languages = document, languages
        self.left, self.notes, self.needs_review = document.left, document.notes, document.needs_review
        self._divide()

    @property
    def inner(self) -> Document:
        return self._inner

    def _divide(self) -> None:
        self._whole, self._divided = [*self.inner.texts], set[int]()
        self.texts, self._numbers = list[str](), list[int]()
        self.left[:] = [left for left in self.left if left.reason != HAS_BRANCHES]
        for number, text in enumerate(self._whole):
            check_cancelled()
            sentences = [text]
            if BRANCHES.search(text):
                try:
                    sentences = Message(text, self._languages).texts
                    self._divided.add(number)
                except ValueError:
                    sentences = []
                    self.left.append(Left(HAS_BRANCHES, self.inner.place(number)))
            self.texts += sentences
            self._numbers += [number] * len(sentences)

    def place(self, number: int) -> str:
        return self.inner.place(self._numbers[number])

    def keep(self, existing: Document) -> None:
        self.inner.keep(existing)
        self._divide()

    def translated(self, translations: Sequence[str]) -> bytes:
        following = defaultdict[int, list[str]](list)
        for number, text in zip(self._numbers, translations, strict=True):
            following[number].append(text)
        whole, places = [*self._whole], list[str]()
        for number, texts in following.items():
            check_cancelled()
            if number not in self._divided:
                whole[number] = texts[0]
                continue
            message = Message(self._whole[number], self._languages)
            try:
                whole[number] = message.translated(texts)
                places += [self.inner.place(number)] * message.other_forms
            except ValueError:
                self.left.append(Left("the translation changes an argument", self.inner.place(number)))
        self.notes += note_on_forms(places)
        return self.inner.translated(whole)
