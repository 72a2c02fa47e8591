"""A character language model: the parts of a translator's training, put together for running text.

    python examples/language_model.py TEXT [--steps 500] [--size tiny] [--threads 2]

One id is one byte. The first 90 % of the text are learned; on the rest the model is measured as it goes. Loss is in
nats a character; dividing by log 2 gives bits. In the end the model writes a few lines of its own.
"""

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch

from dragoman import kernels
from dragoman.data.batching import Batches
from dragoman.data.corpus import EncodedCorpus, encode_text
from dragoman.model import LanguageModel, ModelConfig, Packing, build_model
from dragoman.tokenizing.tokenizer import Tokenizer
from dragoman.tokenizing.training import TokenizerSettings, train_tokenizer
from dragoman.training import Chore, Every, TrainSettings, TrainState, run_steps
from dragoman.training.loop import StepReport, mean_loss
from dragoman.training.optimiser import MasterWeights

WINDOW, BATCH_TOKENS = 128, 2_048
LEARNED = 0.9


def encode(text: str, tokenizer: Tokenizer, folder: Path) -> tuple[EncodedCorpus, EncodedCorpus, float]:
    """What is learned and what is held out, and how many ids a character of the latter takes."""
    cut = int(LEARNED * len(text))
    learned = encode_text(text[:cut], tokenizer, folder / "learned", WINDOW)
    held_out = encode_text(text[cut:], tokenizer, folder / "held-out", WINDOW)
    return learned, held_out, len(held_out.target.ids) / len(text[cut:])


def train(text: str, tokenizer: Tokenizer, steps: int, size: str, every: int, folder: Path) -> LanguageModel:
    """Trains a language model, and tells how it goes."""
    learned, held_out, ids_per_character = encode(text, tokenizer, folder)
    config = {"family": "language_model", "size": size, "target_vocabulary": tokenizer.size}
    model = build_model(ModelConfig.model_validate(config))
    assert isinstance(model, LanguageModel)
    settings = TrainSettings(steps=steps, learning_rate=2e-3, warmup_steps=max(1, steps // 10), label_smoothing=0.0)
    masters = MasterWeights(
        model, "float32", settings.optimiser, settings.betas, settings.epsilon, settings.weight_decay
    )
    masters.attach(model)
    unseen = Batches(held_out, BATCH_TOKENS, WINDOW)
    validation = [unseen.batch(windows) for windows in unseen.epoch(0)]

    def tell(state: TrainState, report: StepReport) -> None:
        print(f"step {report.step:>6}   learning {report.plain_loss * ids_per_character:.3f} nats a character")

    def validate(state: TrainState, report: StepReport) -> None:
        loss = mean_loss(model, validation)
        print(f"step {report.step:>6}   held out {loss * ids_per_character:.3f} nats a character")

    chores = [Chore(Every(steps=every), tell), Chore(Every(steps=5 * every, at_end=True), validate)]
    run_steps(model, Batches(learned, BATCH_TOKENS, WINDOW, settings.seed), settings, TrainState(masters), chores)
    return model


@torch.inference_mode()
def write(model: LanguageModel, tokenizer: Tokenizer, beginning: str, length: int, seed: int = 1) -> str:
    """Goes on after `beginning`: each next id is drawn by its probability, and fed to the cache alone."""
    rng = torch.Generator().manual_seed(seed)
    ids = tokenizer.encode(beginning)
    cache, new = model.start(rows=1), ids
    for _ in range(length):
        hidden = model.decode(torch.tensor(new), Packing.of([len(new)]), cache)
        probabilities = model.project(hidden[-1:]).softmax(-1)
        new = torch.multinomial(probabilities[0], 1, generator=rng).tolist()
        ids = ids + new
    return tokenizer.decode(ids)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("text", type=Path, help="any text file")
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--size", default="tiny", choices=["tiny", "mini", "small", "base"])
    parser.add_argument("--every", type=int, default=20, help="steps between two lines about the loss")
    parser.add_argument("--write", type=int, default=300, help="characters that the model writes in the end")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args(arguments)
    if not options.text.is_file():
        parser.error(f"{options.text} does not exist; name a text file")
    torch.set_num_threads(options.threads)
    text = options.text.read_text(encoding="utf-8")
    kernels.prepare()
    tokenizer = train_tokenizer([text], TokenizerSettings(kind="byte_bpe", vocabulary_size=260))
    with tempfile.TemporaryDirectory() as folder:
        model = train(text, tokenizer, options.steps, options.size, options.every, Path(folder))
    print()
    print(write(model, tokenizer, beginning="\n", length=options.write).strip())


if __name__ == "__main__":
    main()
