"""The well-known tutorial in a race, as published: whole words that occur twice or more, one vocabulary for each side,
batches of eight sentences padded to 350, Adam at 1e-4, float32, greedy. `tutorial.py` has its model and the two bug
fixes.

The tutorial translates one sentence at a time, padded to 350, recomputes the prefix for each word, and stops at 350
words. Here sentences of similar length go together, padded only to the longest, and stop at twice the source's length
plus ten. The words are the same, only sooner.
"""

from collections.abc import Iterator, Sequence

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from torch import Tensor
from torch.nn import functional as F

from peers.contest import SMOOTHING
from peers.race import Clock, Outcome, Race, shuffled
from peers.tutorial import LENGTH, RATE, SENTENCES, Tutorial

UNKNOWN, PADDING, START, END = range(4)
SPECIALS = ["[UNK]", "[PAD]", "[SOS]", "[EOS]"]
WIDTH = 512


def run_as_written(race: Race) -> Outcome:
    """One layer and one head: its builder's defaults, which its trainer does not change."""
    return run(race, layers=1, heads=1, inner=512)


def run_large(race: Race) -> Outcome:
    """The same with the paper's sizes."""
    return run(race, layers=6, heads=8, inner=2048)


def run(race: Race, layers: int, heads: int, inner: int) -> Outcome:
    torch.set_num_threads(race.threads)
    torch.manual_seed(1)
    text = race.lines("train")
    tokenizers = [learn_words(side) for side in text]
    vocabularies = [tokenizer.get_vocab_size() for tokenizer in tokenizers]
    source, target = (
        [encoding.ids for encoding in tokenizer.encode_batch(side)]
        for tokenizer, side in zip(tokenizers, text, strict=True)
    )
    model = Tutorial(vocabularies[0], vocabularies[1], WIDTH, layers, heads, inner)
    steps, tokens, seconds = train(model, source, target, race.minutes)
    translations = translate(model, tokenizers[0], tokenizers[1], race.sentences)
    return Outcome(translations, sum(weight.numel() for weight in model.parameters()), steps, tokens, seconds)


def learn_words(lines: Sequence[str]) -> Tokenizer:
    tokenizer = Tokenizer(models.WordLevel(unk_token=SPECIALS[UNKNOWN]))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.train_from_iterator(lines, trainers.WordLevelTrainer(special_tokens=SPECIALS, min_frequency=2))
    return tokenizer


def train(
    model: Tutorial, source: Sequence[list[int]], target: Sequence[list[int]], minutes: float
) -> tuple[int, int, float]:
    """Trains until the minutes are over, and returns steps, tokens and seconds."""
    optimiser = torch.optim.Adam(model.train().parameters(), lr=RATE, eps=1e-9)
    clock, steps, tokens = Clock(minutes), 0, 0
    for pairs in endless(len(source)):
        if clock.share == 1:
            break
        given = rectangle([[START, *source[pair], END] for pair in pairs], LENGTH)
        read = rectangle([[START, *target[pair]] for pair in pairs], LENGTH)
        labels = rectangle([[*target[pair], END] for pair in pairs], LENGTH)
        said = model(given, read).flatten(0, 1)
        F.cross_entropy(said, labels.flatten(), ignore_index=PADDING, label_smoothing=SMOOTHING).backward()
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        steps, tokens = steps + 1, tokens + int((given != PADDING).sum() + (labels != PADDING).sum())
    return steps, tokens, clock.seconds


def endless(count: int) -> Iterator[list[int]]:
    """Yields eight pairs at a time, reshuffled each epoch."""
    epoch = 0
    while True:
        yield from (pairs.tolist() for pairs in shuffled(count, epoch).split(SENTENCES))
        epoch += 1


def rectangle(rows: Sequence[list[int]], length: int) -> Tensor:
    assert max(map(len, rows)) <= length, "the tutorial stops at a sentence that is too long"
    return torch.tensor([row + [PADDING] * (length - len(row)) for row in rows])


@torch.inference_mode()
def translate(model: Tutorial, source: Tokenizer, target: Tokenizer, sentences: Sequence[str]) -> list[str]:
    model.eval()
    rows = [[START, *encoding.ids, END][:LENGTH] for encoding in source.encode_batch(list(sentences))]
    translations = [""] * len(rows)
    for places in torch.tensor([len(row) for row in rows]).argsort().split(64):
        found = greedy(model, [rows[place] for place in places.tolist()])
        for place, ids in zip(places.tolist(), found, strict=True):
            translations[place] = target.decode(ids)  # words separated by spaces, as the tutorial prints them
    return translations


def greedy(model: Tutorial, rows: Sequence[list[int]]) -> list[list[int]]:
    """Takes the most likely word again and again, recomputing the whole prefix each time."""
    longest = max(map(len, rows))
    given = rectangle(rows, longest)
    visible = (given != PADDING)[:, None, None]
    memory = model.encode(given, visible)
    made = torch.full((len(rows), 1), START)
    for _ in range(min(LENGTH - 1, 2 * longest + 10)):
        word = model.decode(memory, visible, made)[:, -1].argmax(-1)
        ended = (made == END).any(-1)
        made = torch.cat([made, word.masked_fill(ended, END)[:, None]], dim=1)
        if (made == END).any(-1).all():
            break
    return [[number for number in row[1:] if number != END] for row in made.tolist()]
