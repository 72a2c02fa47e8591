"""Commands of models that do not translate: `predict` labels texts and fills masks, `generate` continues a text."""

import logging
import sys
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import dragoman
from dragoman.cli.console import as_json, note, open_screen, visible, write, write_pieces, write_text
from dragoman.cli.options import GENERATION, Device, Format, Model, Precision, Quiet, Setting, Texts, Threads, keywords
from dragoman.cli.streams import check_text, read, standard_input
from dragoman.errors import ConfigError, DataError
from dragoman.progress import silent

if TYPE_CHECKING:
    from dragoman.inference.predictor import Classified, Filled, Tagged

log = logging.getLogger(__name__)

WORDS_FOR_A_LABEL = 3
"""Number of words that are shown as evidence for a label."""
LONGEST_PROMPT = 100_000
"""Maximum number of bytes in a prompt from standard input; a model sees far fewer."""


def predict(
    model: Model,
    device: Device = "auto",
    precision: Precision = "auto",
    threads: Threads = None,
    text: Texts = None,
    input_file: Annotated[Path | None, typer.Option("--input", help="Predict for every line of this file.")] = None,
    best: Annotated[
        int, typer.Option(min=1, max=100, help="How many labels of a text, or words for a mask, to show.")
    ] = 5,
    words: Annotated[
        bool | None,
        typer.Option(
            "--words/--no-words",
            help="Show the words that were evidence for a label; a text is read once more for each of its words.",
            show_default="for TEXT alone",
        ),
    ] = None,
    pretokenized: Annotated[
        bool, typer.Option("--pretokenized", help="Words are separated by spaces already, as in CoNLL files.")
    ] = False,
    output_format: Format = "text",
    quiet: Quiet = False,
) -> None:
    """Label texts or their words, or fill in [MASK], each with probabilities."""
    from dragoman.inference.documents import chunks

    progress = open_screen(quiet)
    if text and input_file is not None:
        raise ConfigError("TEXT and --input were given; predict takes one of them")
    for line in text or ():
        check_text(line)
    predictor = dragoman.Predictor.load(model, device, precision, progress, threads)
    note(f"{predictor.task}, {predictor.device}, {predictor.precision}")
    with_words = bool(text) if words is None else words
    texts: Iterable[str] = text or (read(input_file) if input_file else standard_input())
    show = {"classify": labels_of_text, "tag": labels_of_words, "fill": words_for_masks}[predictor.task]
    with (progress if input_file else silent).track("predict", unit="texts") as advance:
        for batch in chunks(texts, len):
            for prediction in predictor.predict(batch, best, with_words, pretokenized, silent):
                if output_format == "json":
                    write(as_json(prediction.facts()))
                else:
                    write_text(show(prediction))
            sys.stdout.flush()
            advance(len(batch))
            if blank := sum(not line.strip() for line in batch):
                log.warning("%s of %s texts are empty: their predictions mean nothing", blank, len(batch))


def labels_of_text(prediction: "Classified") -> str:
    labels = "  ".join(f"{visible(label.name)} {label.probability:.1%}" for label in prediction.labels)
    strongest = sorted((word for word in prediction.words if word[1] > 0), key=lambda word: -word[1])
    words = ", ".join(word for word, _ in strongest[:WORDS_FOR_A_LABEL])
    return labels + (f"  (evidence for {visible(prediction.label)}: {words})" if words else "")


def labels_of_words(prediction: "Tagged") -> str:
    return " ".join(
        f"{word}/{visible(label.name)}" for word, label in zip(prediction.words, prediction.labels, strict=True)
    )


def words_for_masks(prediction: "Filled") -> str:
    masks = ["  ".join(f"{visible(word.name)} {word.probability:.1%}" for word in words) for words in prediction.masks]
    return masks[0] if len(masks) == 1 else "\n".join(f"[MASK] {n}: {words}" for n, words in enumerate(masks, 1))


def generate(
    model: Model,
    device: Device = "auto",
    precision: Precision = "auto",
    threads: Threads = None,
    prompt: Annotated[
        str | None,
        typer.Argument(
            help="The beginning of the text, in quotes; '' begins as after a line break.",
            show_default="standard input",
        ),
    ] = None,
    tokens: Annotated[Any, Setting(GENERATION, "tokens")] = None,
    temperature: Annotated[Any, Setting(GENERATION, "temperature")] = None,
    top_k: Annotated[Any, Setting(GENERATION, "top_k")] = None,
    top_p: Annotated[Any, Setting(GENERATION, "top_p")] = None,
    seed: Annotated[Any, Setting(GENERATION, "seed")] = None,
    samples: Annotated[Any, Setting(GENERATION, "samples")] = None,
    stop: Annotated[Any, Setting(GENERATION, "stop")] = None,
    context: Annotated[Any, Setting(GENERATION, "context", "as in training")] = None,
    output_format: Format = "text",
    quiet: Quiet = False,
) -> None:
    """Continue a text with a language model."""
    settings = keywords(locals(), "model", "device", "precision", "threads", "prompt", "output_format")
    from dragoman.config import choose

    progress = settings.pop("progress")
    prompt = read_prompt() if prompt is None else prompt
    generator = dragoman.Generator.load(model, device, precision, progress, threads)
    options = choose(dragoman.GenerateOptions, "generate", (), generator.options, **settings)
    note(f"{generator.device}, {generator.precision}")
    if options.samples == 1 and output_format == "text":
        write_text(prompt, end="")
        forgotten = write_pieces(generator.stream(prompt, options)).forgotten
    else:
        generated = generator.generate([prompt], options, progress)
        forgotten = generated[0].forgotten
        for sample in generated:
            if output_format == "json":
                write(as_json(asdict(sample)))
            else:
                write_text(f"--- sample {sample.sample} of {len(generated)} ---\n{sample.prompt}{sample.text}")
    if forgotten:
        limit = generator.context(options)
        note(f"the model sees at most {limit:,} tokens, so the first {forgotten:,} of the prompt were not read", True)


def read_prompt() -> str:
    """Read all of standard input, without its last line break."""
    if sys.stdin.isatty():
        return ""
    text = sys.stdin.buffer.read(LONGEST_PROMPT + 1)
    if len(text) > LONGEST_PROMPT:
        raise DataError(f"standard input holds more than {LONGEST_PROMPT:,} bytes; give the end of the text")
    try:
        return text.decode().removesuffix("\n")
    except UnicodeDecodeError as error:
        raise DataError(f"standard input is not valid UTF-8 at byte {error.start:,}") from None
