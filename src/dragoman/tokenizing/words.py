"""Words as pieces, each word apart, so that its label stays with the piece that it begins with."""

from collections.abc import Sequence
from itertools import accumulate, chain, pairwise

from tokenizers import Regex, pre_tokenizers

from dragoman.tokenizing.pretokenizing import WORD_PATTERN
from dragoman.tokenizing.specials import UNKNOWN
from dragoman.tokenizing.tokenizer import Tokenizer, only_unicode

_CUT = pre_tokenizers.Split(Regex(WORD_PATTERN), "removed", invert=True)


def split_words(text: str) -> list[tuple[str, int]]:
    """The words and punctuation marks of a text, as the word tokenizer cuts it, and where each begins.

    >>> split_words("The dog barks.")
    [('The', 0), ('dog', 4), ('barks', 8), ('.', 13)]

    Raises:
        TokenizerError: the text is not Unicode, because it holds half of a surrogate pair.
    """
    with only_unicode([text]):
        return [(word, first) for word, (first, _) in _CUT.pre_tokenize_str(text)]


def encode_words(sentences: Sequence[Sequence[str]], tokenizer: Tokenizer) -> list[list[list[int]]]:
    """The ids of each word of each sentence; a word without any is unknown."""
    ids = [row or [UNKNOWN] for row in tokenizer.encode_batch([*chain.from_iterable(sentences)])]
    return [ids[first:last] for first, last in pairwise(accumulate(map(len, sentences), initial=0))]
