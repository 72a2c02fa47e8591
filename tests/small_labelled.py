"""Small labelled texts, and runs that classify, tag or fill in words of them."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dragoman

SIZES = (
    "tokenizer.kind=word", "tokenizer.minimum_frequency=1", "model.size=tiny", "model.d_model=32", "model.heads=2",
    "model.d_ff=64", "model.encoder_layers=1", "batches.batch_tokens=400", "train.precision=float32",
)  # fmt: skip
HELD_OUT = ("data.dev_size=40", "data.test_size=40")
LEARNS = ("train.steps=80", "train.learning_rate=0.01", "train.validate_every=40", "model.dropout=0.0")
BRIEF = ("train.steps=6", "train.validate_every=3", "train.save_every=2", "model.dropout=0.2")
NOUNS = "dog cat bird fish horse cow pig hen duck goat".split()
LOUD, CALM = ("barks", "shouts", "roars"), ("sleeps", "rests")


def sentences(count: int, seed: int = 1) -> list[list[str]]:
    """Different sentences of six words, the last of which is a verb."""
    dice, found = random.Random(seed), dict[tuple[str, ...], None]()
    while len(found) < count:
        a, b = dice.sample(NOUNS, 2)
        found["the", dice.choice(("old", "red", "big")), a, "near", b, dice.choice((*LOUD, *LOUD, *CALM))] = None
    return [[*row] for row in found]


def write_texts(path: Path) -> Path:
    """Texts whose label is decided by one word; most are loud."""
    rows = [(" ".join(row), "loud" if row[-1] in LOUD else "calm") for row in sentences(240)]
    path.write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in rows))
    return path


def write_entities(path: Path) -> Path:
    """Words of which the one before says whether they are a person or a place, or none."""
    dice, rows = random.Random(2), []
    for row in sentences(240):
        name = dice.choice(("anna", "rome", "paris"))
        lead, labels = {
            "mr": (["mr", name, "smith"], ["O", "B-person", "I-person"]),
            "in": (["in", name], ["O", "B-place"]),
            "no": (["no", name], ["O", "O"]),
        }[dice.choice(("mr", "in", "no"))]
        rows.append([*zip([*row[:3], *lead, *row[3:]], ["O"] * 3 + labels + ["O"] * 3, strict=True)])
    path.write_text("\n".join("".join(f"{word}\t{label}\n" for word, label in row) for row in rows))
    return path


def write_lines(path: Path) -> Path:
    """A grammar of three words, each of which follows from the others."""
    sounds = dict(zip(NOUNS, "barks meows sings swims runs moos oinks clucks quacks bleats".split(), strict=True))
    dice = random.Random(3)
    path.write_text("".join(f"the {one} {sounds[one]}\n" for one in dice.choices(NOUNS, k=400)))
    return path


WRITERS: dict[str, tuple[str, Callable[[Path], Path], tuple[str, ...]]] = {
    "classify": ("texts.csv", write_texts, HELD_OUT),
    "tag": ("words.conll", write_entities, HELD_OUT),
    "fill": ("lines.txt", write_lines, ()),
}


def train(task: str, folder: Path, *overrides: str, **options: Any) -> Any:
    """Trains in `folder/runs`, on text of this task that is written where there is none."""
    name, write, held_out = WRITERS[task]
    if not (folder / name).exists():
        folder.mkdir(parents=True, exist_ok=True)
        write(folder / name)
    settings = [f"task={task}", *SIZES, *held_out, *overrides]
    return dragoman.train(folder / name, overrides=settings, runs=folder / "runs", device="cpu", **options)
