"""Your Transformer: trains on the phrasebook, then translates what you type. It uses a GPU if there is one.

python my_transformer.py                            train, score, and translate what you type
python my_transformer.py "Where is the station?"    translate with the weights of the last training
"""

import random
import re
import sys
from collections import Counter, deque
from pathlib import Path

import torch
from safetensors.torch import load_model, save_model
from step_8_model import Transformer
from step_9_trainer import END, PAD, START, greedy, learning_rate, train_step

HERE = Path(__file__).parent
WEIGHTS = HERE / "weights.safetensors"
STEPS, WARMUP_STEPS, BATCH_SIZE = 3_000, 400, 64
SIZES = {"d_model": 128, "layers": 3, "heads": 4, "d_ff": 512, "dropout": 0.1}
UNKNOWN = 3


def read(name):
    """Return the pairs of a file: on each line a source, a tab and a target."""
    return [tuple(line.split("\t")) for line in (HERE / name).read_text("utf-8").splitlines()]


def tokens(text):
    """Split a text into words and marks; a word keeps its apostrophe, as in l'acqua."""
    return re.findall(r"\w+'?|[^\w\s]", text)


def vocabulary(texts):
    """Return the words that occur at least twice, each with its id."""
    counts = Counter(token for text in texts for token in tokens(text))
    names = ["[PAD]", "[START]", "[END]", "[UNKNOWN]", *(name for name, count in counts.items() if count > 1)]
    return {name: number for number, name in enumerate(names)}


def ids(texts, words, device):
    """Return texts as a matrix of ids: START, the words, END, then padding."""
    rows = [[START, *(words.get(token, UNKNOWN) for token in tokens(text)), END] for text in texts]
    rows = [torch.tensor(row, device=device) for row in rows]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD)


def text_of(row, words):
    """Return ids as text, up to END, without a space before . , : ; ! ? or after an apostrophe."""
    names, row = list(words), row.tolist()[1:]
    text = " ".join(names[id] for id in (row[: row.index(END)] if END in row else row))
    return re.sub(r" (?=[.,:;!?])|(?<=') ", "", text)


def batches(pairs):
    """Yield batches forever, in random order; similar target lengths share a batch, to save padding."""
    while True:
        shuffled = sorted(random.sample(pairs, len(pairs)), key=lambda pair: len(pair[1]))
        starts = range(0, len(shuffled), BATCH_SIZE)
        for start in random.sample(starts, len(starts)):
            yield zip(*shuffled[start : start + BATCH_SIZE], strict=True)


def train(model, pairs, source_words, target_words, device):
    """Train, and draw the curve of the loss: at the first and every hundredth step, the mean of the last hundred."""
    optimiser = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9)
    model.train()
    losses = deque(maxlen=100)
    for step, (source, target) in zip(range(1, STEPS + 1), batches(pairs), strict=False):
        rate = 0.5 * learning_rate(step, SIZES["d_model"], WARMUP_STEPS)  # half, because the batches are small
        batch = ids(source, source_words, device), ids(target, target_words, device)
        losses.append(float(train_step(model, optimiser, *batch, rate)))
        if step == 1 or step % 100 == 0 or step == STEPS:
            loss = sum(losses) / len(losses)
            print(f"step {step:5,}  loss {loss:5.2f}  {'#' * round(8 * loss)}", flush=True)
            save_model(model, str(WEIGHTS))


def translate(model, texts, source_words, target_words, device):
    """Translate a hundred texts at a time, without dropout."""
    model.eval()
    parts = [texts[start : start + 100] for start in range(0, len(texts), 100)]
    return [text_of(row, target_words) for part in parts for row in greedy(model, ids(part, source_words, device))]


def main(texts):
    torch.manual_seed(1)
    random.seed(1)
    learned, tested = read("train.tsv"), read("test.tsv")
    source_words, target_words = (vocabulary(side) for side in zip(*learned, strict=True))
    device = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    model = Transformer(len(source_words), len(target_words), **SIZES)
    if not hasattr(model, "_modules"):
        sys.exit("write all parts first, and let them be checked")
    model.to(device)
    if texts:
        if not WEIGHTS.exists():
            sys.exit("there are no weights yet; train first: python my_transformer.py")
        load_model(model, str(WEIGHTS), device=device)
        print(*translate(model, texts, source_words, target_words, device), sep="\n")
        return
    train(model, learned, source_words, target_words, device)
    sources, references = zip(*tested, strict=True)
    translations = translate(model, sources, source_words, target_words, device)
    right = sum(map(str.__eq__, translations, references))
    print(f"{right} of {len(tested)} test sentences are translated as in the test set. Type a sentence:", flush=True)
    for line in sys.stdin:
        print(*translate(model, [line], source_words, target_words, device), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
