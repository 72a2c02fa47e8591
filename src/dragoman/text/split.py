"""Splits that cannot leak: rows that share a sentence stay in one set. Knows nothing of files.

Sentences are compared as 64-bit keys, in one Unicode form. What is held out depends only on the seed and on content.

Pairs (`assign`) that share a sentence on either side, over any number of steps, form a component, and whole components
are assigned to a set. Keys may be mapped from a disk; they are processed in parts, and memory holds about 30 bytes for
each pair. Labelled texts (`hold_out`) are held out by label as far as counts allow, equal texts together.
"""

import hashlib
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from zlib import crc32

import numpy as np

from dragoman.errors import DataError
from dragoman.text.labels import Example

TRAIN, DEV, TEST = 0, 1, 2

# Dropped from the end of a sentence before it is compared, because "Come in!" and "come in." are one sentence.
FINAL_PUNCTUATION = " .,;:!?…。！？、，।؟"

# A component larger than this part of a held-out set is taken only if smaller ones do not fill the set. Otherwise one
# sentence with its ninety renderings could be the whole test.
LARGEST_PART = 0.05

MANY, FAR_LONGER, SHORT = 10, 3, 8
"""A text with this many different partners is a placeholder if they are this many times longer than usual. Shorter
texts count as this many characters."""
WORDY, LIKENESS = 3, 2
"""It is also one if they have at least this many words, and share fewer than this many times those that random texts
share. Real partners of a text shared 2.5 times those, or more."""
MOST_HELD_OUT = 2_000
"""Rows in a held-out set by default, at most."""

Keys = np.ndarray  # of uint64, one a pair

# How many keys are processed together.
_PART = 2**20


def one_form(text: str) -> str:
    """Return the text in Unicode's form NFKC: combining accents, ligatures and wide letters become plain letters.

    >>> one_form("perche\u0301"), one_form("\ufb01ne")
    ('perché', 'fine')
    """
    return text if text.isascii() else unicodedata.normalize("NFKC", text)


def sentence_key(text: str) -> int:
    """Return 64 bits of a sentence, whatever its case, spacing, final punctuation and Unicode form; the same in every
    process.

    >>> sentence_key("Come  in!") == sentence_key("come in.")
    True
    >>> sentence_key("?!") == sentence_key("...")
    False
    """
    plain = " ".join(one_form(one_form(text).casefold()).split())
    return text_key(plain.rstrip(FINAL_PUNCTUATION) or plain)


def text_key(text: str) -> int:
    """Return a 64-bit hash of the exact text."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def held_out_sizes(asked: Mapping[str, int | None], count: int, share: float, unit: str) -> tuple[dict[str, int], str]:
    """Return the size of each set to hold out, and the reason: as asked, or else a share of the text, 2,000 at most.

    >>> held_out_sizes({"dev": None, "test": 50}, 3_741, 0.05, "pairs each")
    ({'dev': 187, 'test': 50}, '5 % of 3,741 pairs each')
    """
    size, reason = max(1, round(share * count)), f"{100 * share:.0f} % of {count:,} {unit}"
    if size > MOST_HELD_OUT:
        size, reason = MOST_HELD_OUT, f"{MOST_HELD_OUT:,} {unit}: more would narrow the interval of a score little"
    wanted = {name: size if by_user is None else by_user for name, by_user in asked.items()}
    return wanted, reason if None in asked.values() else "sizes as given"


def refuse_too_few(text: str, count: int, wanted: Mapping[str, int]) -> None:
    """Refuse a `text`, described in words, whose rows would all be split off."""
    if count <= sum(wanted.values()):
        sizes = " and ".join(f"{size:,} for {name}" for name, size in wanted.items())
        raise DataError(f"{text}: too few to split off {sizes}; give more text, or smaller sets")


def first_occurrences(keys: Keys) -> np.ndarray:
    """Return True where a key occurs for the first time."""
    first = np.zeros(len(keys), bool)
    for places in _by_value(keys):
        first[places[np.unique(keys[places], return_index=True)[1]]] = True
    return first


def components(sources: Keys, targets: Keys, are_alike: bool = False) -> np.ndarray:
    """Return a number for each pair, equal for pairs that are linked through shared sentences; 0, 1, 2 … in no stated
    order. If `are_alike`, a source and a target with one key are one sentence.

    Every root of a forest over the sentences takes the smallest root that a pair links it to, then all paths are
    shortened to their root. A few rounds are enough, even for a chain of a million pairs.
    """
    if are_alike:
        numbers, count = _numbered(np.concatenate((sources, targets)))
        source, target = np.split(numbers, 2)
    else:
        (source, count), (target, more) = _numbered(sources), _numbered(targets)
        target += count
        count += more
    root = np.arange(count, dtype=source.dtype)
    while _link(root, source, target):
        while _look_up(root, root):
            pass
    del target
    _look_up(source, root)
    is_root = np.zeros(len(root), bool)
    for part in _parts(source):
        is_root[part] = True
    _look_up(source, np.cumsum(is_root, dtype=source.dtype) - 1)
    return source


def assign(
    sources: Keys,
    targets: Keys,
    dev: int | Sequence[int],
    test: int | Sequence[int],
    seed: int,
    separate: Sequence[tuple[Keys, Keys]] = (),
    lengths: Sequence[int] | None = None,
) -> np.ndarray:
    """Return TRAIN, DEV or TEST for each pair; components stay whole. Held-out sets are smaller if no component fits.

    A component that shares a sentence with one of the `separate` sets stays in training, because dev and test may not
    overlap. The order of the pairs does not matter.

    Pairs of several directions follow one another, and `lengths` are their numbers. Their keys are made
    `in_language`, equal on any side. `dev` and `test` are sizes of each; a component is held out if it fits in all.
    """
    label = components(sources, targets, are_alike=lengths is not None)
    count = int(label.max(initial=-1)) + 1
    sizes = np.zeros((len(lengths or [0]), count), label.dtype)
    key, free = np.full(count, np.iinfo(np.uint64).max, np.uint64), np.ones(count, bool)
    for own, labels in zip(sizes, np.split(label, np.cumsum(lengths or [])[:-1].astype(int)), strict=True):
        for part in _parts(labels):
            np.add.at(own, part, 1)
    for part, keys in zip(_parts(label), _parts(sources), strict=True):
        np.minimum.at(key, part, keys)
    assert int(sizes.sum()) == len(label), "every pair is in one component"
    _mix(key, seed)
    for known in separate:
        for own, others in zip((sources, targets), known, strict=True):
            for part, components_of in zip(_parts(own), _parts(label), strict=True):
                free[components_of[np.isin(part, others)]] = False
    side = np.full(count, TRAIN, np.uint8)
    for name, wanted in ((TEST, np.atleast_1d(test)), (DEV, np.atleast_1d(dev))):
        left = wanted
        for largest in (np.maximum(1, LARGEST_PART * wanted), wanted):
            for component in _in_order(key, free & (side == TRAIN) & (sizes <= largest[:, None]).all(axis=0)):
                if not left.any():
                    break
                if (sizes[:, component] <= left).all():
                    side[component] = name
                    left = left - sizes[:, component]
    return np.concatenate([side[part] for part in _parts(label)]) if len(label) else side


def in_language(keys: Keys, code: str) -> Keys:
    """Return the keys of sentences in a language, which differ from those of equal sentences in others."""
    return keys ^ np.uint64(text_key(f"language {code}"))


def shared_sentences(known: tuple[Keys, Keys], held_out: tuple[Keys, Keys]) -> tuple[np.ndarray, np.ndarray]:
    """Return True for each pair of a held-out set whose source is a source of another set, and True for each whose
    target is a target of it. Both sets are given by the keys of their sources and targets.
    """
    source, target = (_is_among(own, others) for own, others in zip(held_out, known, strict=True))
    return source, target


def words_key(words: Iterable[str]) -> int:
    """Return 64 bits, of which each word sets one by its first letters; the same in every process."""
    return sum({1 << (crc32(word[:4].encode()) & 63) for word in words})


def repeating(keys: Keys, others: Keys, words: Keys, lengths: np.ndarray, other_lengths: np.ndarray) -> np.ndarray:
    """Return True for each pair with a text that has many different partners, which are far longer than texts of its
    length have elsewhere, or do not resemble each other, by `words`, their `words_key`.
    """
    is_placeholder = np.zeros(len(keys), bool)
    usual = other_lengths.sum() / max(1, lengths.sum())
    frequency = _bits(words[:: len(words) // _PART + 1]).sum(axis=0, dtype=np.float64)
    random = (frequency**2).sum() / max(1, frequency.sum()) ** 2
    for places in _by_value(keys):
        _, number, counts = np.unique(keys[places], return_inverse=True, return_counts=True)
        in_order, ends = places[np.argsort(number, kind="stable")], counts.cumsum()
        for often in np.flatnonzero(counts >= MANY):
            rows = in_order[ends[often] - counts[often] : ends[often]]
            different = rows[np.unique(others[rows], return_index=True)[1]]
            if len(different) >= MANY and lengths[rows[0]]:
                far_longer = np.median(other_lengths[rows]) >= FAR_LONGER * usual * max(SHORT, lengths[rows[0]])
                mean, count = _bits(words[different]).mean(axis=0), len(different)
                common, bits = (mean * (count * mean - 1)).sum() / (count - 1), mean.sum()
                are_unlike = bits >= WORDY and common < min(bits / 2, LIKENESS * random * bits**2)
                is_placeholder[rows] = far_longer or are_unlike
    return is_placeholder


def _bits(keys: Keys) -> np.ndarray:
    return np.unpackbits(np.ascontiguousarray(keys).view(np.uint8).reshape(-1, 8), axis=1)


def _by_value(keys: Keys) -> Iterator[np.ndarray]:
    """Yield the positions of all keys, those of the smallest keys first, in parts that are sorted in little memory."""
    bits = min(8, (len(keys) // _PART).bit_length())
    if not bits:
        yield np.arange(len(keys))
        return
    begins = np.concatenate([(part >> np.uint64(64 - bits)).astype(np.uint8) for part in _parts(keys)])
    for begin in range(2**bits):
        yield np.flatnonzero(begins == begin)


def _parts(keys: np.ndarray) -> Iterator[np.ndarray]:
    return (keys[first : first + _PART] for first in range(0, len(keys), _PART))


def _numbered(keys: Keys) -> tuple[np.ndarray, int]:
    """Return a number for each key, equal for equal keys, from 0 without a gap; and the count of the numbers."""
    numbers = np.empty(len(keys), np.int32 if 2 * len(keys) < 2**31 else np.int64)  # large enough for both sides
    count = 0
    for places in _by_value(keys):
        values, number = np.unique(keys[places], return_inverse=True)
        numbers[places] = number + count
        count += len(values)
    return numbers, count


def _link(root: np.ndarray, source: np.ndarray, target: np.ndarray) -> bool:
    """Give each root the smallest root that a pair links it to; return True if any changed."""
    changed = False
    for sources, targets in zip(_parts(source), _parts(target), strict=True):
        source_roots, target_roots = root[sources], root[targets]
        apart = source_roots != target_roots
        if apart.any():
            source_roots, target_roots, changed = source_roots[apart], target_roots[apart], True
            np.minimum.at(root, np.maximum(source_roots, target_roots), np.minimum(source_roots, target_roots))
    return changed


def _look_up(numbers: np.ndarray, table: np.ndarray) -> bool:
    """Replace each number by its entry in the table; return True if any changed. Numbers may be the table itself."""
    changed = False
    for part in _parts(numbers):
        entries = table[part]
        changed = changed or not np.array_equal(entries, part)
        part[:] = entries
    return changed


def _in_order(key: Keys, free: np.ndarray) -> Iterator[int]:
    """Yield the numbers of free components in the order of their keys, and sort only those that are taken."""
    for places in _by_value(key):
        places = places[free[places]]
        yield from places[np.argsort(key[places], kind="stable")].tolist()


def _is_among(own: Keys, others: Keys) -> np.ndarray:
    """Return True for each of the `own` keys that is among `others`, which may be many."""
    known, number = np.unique(own, return_inverse=True)
    among = np.zeros(len(known), bool)
    for part in _parts(others):
        among |= np.isin(known, part)
    return among[number]


def _mix(keys: np.ndarray, seed: int) -> None:
    """Mix all keys with the seed, in place (SplitMix64, Steele et al. 2014)."""
    for part in _parts(keys):
        part ^= np.uint64(text_key(f"split {seed}"))
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            part ^= part >> np.uint64(shift)
            part *= np.uint64(factor)  # modulo 2**64
        part ^= part >> np.uint64(31)


def hold_out(
    examples: Sequence[Example], wanted: Mapping[str, int], seed: int, separate: Collection[int] = ()
) -> list[str]:
    """Return the set of each example: train, or one of those `wanted`, with the number of examples that it should hold.

    Examples with equal texts form a group. Groups are in the order of their rarest label, then of a hash. Each label
    keeps at least one group in training. Texts whose keys are among `separate`, because a separate set holds them, stay
    in training. A set is smaller if too few groups are free.
    """
    counts = Counter(label for example in examples for label in example.labels)
    groups: defaultdict[int, list[int]] = defaultdict(list)
    for number, example in enumerate(examples):
        groups[sentence_key(example.text)].append(number)
    labels = {key: {label for number in group for label in examples[number].labels} for key, group in groups.items()}

    def place(key: int) -> tuple[str, bytes]:
        rarest = min(labels[key], key=lambda label: (counts[label], label))
        return rarest, hashlib.blake2b(f"{seed} {key}".encode(), digest_size=8).digest()

    sides, free, kept = ["train"] * len(examples), list[int](), set[str]()
    for key in sorted(groups, key=place):
        if key in separate or labels[key] - kept:
            kept |= labels[key]
        else:
            free.append(key)
    for name, size in wanted.items():
        for largest in (max(1, int(LARGEST_PART * size)), size):
            fitting = {key: len(groups[key]) for key in free if len(groups[key]) <= largest}
            taken = _spread(fitting, size - sides.count(name))
            for number in chain.from_iterable(groups[key] for key in taken):
                sides[number] = name
            free = [key for key in free if key not in taken]
    return sides


def _spread(sizes: Mapping[int, int], wanted: int) -> set[int]:
    """Return groups with about `wanted` examples, never more, evenly spaced over all groups in their order."""
    total, seen, count, taken = sum(sizes.values()), 0, 0, set[int]()
    for key, size in sizes.items():
        seen += size
        if count + size <= (wanted if total <= wanted else seen * wanted // total):
            taken.add(key)
            count += size
    return taken
