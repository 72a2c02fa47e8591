"""Commands that put a text in and get a text out: `translate`, `predict` and `generate`."""

import logging
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

import dragoman
from dragoman.cli.console import as_json, note, open_screen, visible, write, write_json_line, write_pieces, write_text
from dragoman.cli.options import (
    Adapter,
    BeamSize,
    Device,
    Format,
    LengthPenalty,
    Model,
    Precision,
    Quiet,
    Set,
    TargetLanguage,
    Texts,
    Threads,
    keywords,
    search_overrides,
)
from dragoman.cli.streams import check_text, read, standard_input, writer
from dragoman.errors import ConfigError, DataError, GateFailed
from dragoman.files import check_output
from dragoman.progress import Progress, silent

if TYPE_CHECKING:
    from dragoman.inference.options import SearchOptions
    from dragoman.inference.predictor import Classified, Filled, Tagged
    from dragoman.inference.translation import Flag, Translation
    from dragoman.inference.translator import Translator

log = logging.getLogger(__name__)

TYPED = "type a text and press Enter; Ctrl-D ends"
PLACES = 10
"""Lines that are named for each flag."""
RANKED = "columns: line, rank, score, text; the nearer a score is to 0, the likelier the model finds the translation"
WORDS_FOR_A_LABEL = 3
"""How many of the words that spoke for a label are named."""
LONGEST_PROMPT = 100_000
"""Bytes that are read from standard input to be continued; a model sees far fewer."""


def translate(
    model: Model,
    device: Device = "auto",
    precision: Precision = "auto",
    threads: Threads = None,
    beam_size: BeamSize = None,
    length_penalty: LengthPenalty = None,
    target_language: TargetLanguage = None,
    settings: Set = None,
    text: Texts = None,
    input_file: Annotated[
        Path | None,
        typer.Option("--input", help="Translate every line of this file; of a document, its text."),
    ] = None,
    document_format: Annotated[
        str | None,
        typer.Option(
            help="What --input is: html, markdown, subtitles, catalogue, json, xliff or docx.",
            show_default="told by its name",
        ),
    ] = None,
    raw: Annotated[
        bool,
        typer.Option("--raw", help="Translate each line as it stands: markup too, and quotes, spaces and capitals."),
    ] = False,
    protect: Annotated[
        list[str] | None,
        typer.Option(help="Keep what this regular expression finds as it is; may be repeated.", show_default=False),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(help="Write the translations to this file. With --input, run the same command again to resume."),
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Discard what a stopped command left beside --output, and start again.")
    ] = False,
    item: Annotated[
        int | None,
        typer.Option(min=1, help="Sentence of the run's test set, from 1: shows source, target, prediction."),
    ] = None,
    n_best: Annotated[
        int | None, typer.Option(help="Translations of each text; with text output: line, rank, score, text.")
    ] = None,
    align: Annotated[
        bool,
        typer.Option("--align", help="Show which word translates which; with text output: text, tab, 0-0 1-2 …."),
    ] = False,
    terms: Annotated[
        Path | None,
        typer.Option(
            help="Words with a fixed translation: a TSV or CSV file of source terms, each followed by its forms.",
            show_default=False,
        ),
    ] = None,
    adapter: Adapter = None,
    ensemble: Annotated[
        list[Path] | None,
        typer.Option(help="A further model that translates with MODEL as one; may be repeated.", show_default=False),
    ] = None,
    output_format: Format = "text",
    fail_on: Annotated[
        list[str] | None, typer.Option(metavar="FLAG,…", help="End with exit code 9 if a translation has such a flag.")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Translate text: one line in, one line out."""
    from dragoman.config import choose
    from dragoman.inference.terms import read_terms

    progress = open_screen(quiet)
    refuse_contradictions(text, input_file, item, output, fresh)
    refused = flags_named(fail_on or ())
    is_document = is_whole(input_file, document_format, raw)
    if is_document and (output is None or output_format == "json" or align or n_best is not None):
        raise ConfigError(f"{input_file} is a document, so it needs --output, and takes no JSON, --align or --n-best")
    resumes = output is not None and can_resume(input_file, output)
    total = None if is_document else count_lines(input_file, raw)
    pair = None if item is None else test_pair(model, item)
    overrides = search_overrides(beam_size, length_penalty, settings, target_language)

    translator = dragoman.Translator.load(model, device, precision, progress, adapter, ensemble or (), threads)
    options = choose(
        dragoman.SearchOptions,
        "decode",
        overrides,
        translator.options,
        n_best=n_best,
        align=align or None,
        raw=raw or None,
        protect=tuple(protect) if protect else None,
        terms=None if terms is None else read_terms(terms),
    )
    count = translator.workers(options)
    workers = "1 worker" if count == 1 else f"up to {count} workers"
    source, target = translator.languages
    note(f"{source} → {options.target_language or target}, {translator.device}, {translator.precision}, {workers}")

    work = Work(progress, translator, options, output_format == "json")
    if pair is not None:
        flags = work.compare(*pair)
    elif input_file is not None and output is not None and (is_document or resumes):
        asked = what_decides([model, *(ensemble or ())], adapter, translator, options, output_format)
        if is_document:
            flags = work.translate_document(input_file, document_format, output, asked, fresh)
        else:
            flags = work.translate_file(input_file, output, asked, fresh, total)
    elif input_file is not None:
        flags = work.translate_all(read(input_file), output, total)
    elif output is None and text and len(text) == 1:
        flags = work.say(text)
    elif output is None and not text and sys.stdin.isatty():
        flags = work.converse()
    else:
        flags = work.translate_all(text or standard_input(), output)
    if found := [f"{flag}{flags.where(flag)}" for flag in refused if flags.counts[flag]]:
        raise GateFailed(f"--fail-on: some translations are flagged {', '.join(found)}")


def refuse_contradictions(
    text: list[str] | None, input_file: Path | None, item: int | None, output: Path | None, fresh: bool
) -> None:
    """Refuses inputs and outputs that do not go together."""
    inputs = {"TEXT": text or None, "--input": input_file, "--item": item}
    given = [name for name, value in inputs.items() if value is not None]
    if len(given) > 1:
        raise ConfigError(f"{' and '.join(given)} were given; translate takes one of TEXT, --input and --item")
    for each in text or ():
        check_text(each)
    if fresh and (input_file is None or output is None):
        raise ConfigError("--fresh starts a file again, so it needs --input and --output")
    if item is not None and output is not None:
        raise ConfigError("--item shows one sentence beside its target; --output takes TEXT, --input or standard input")


def is_whole(input_file: Path | None, document_format: str | None, raw: bool) -> bool:
    """Whether a file is translated as a whole document."""
    from dragoman.documents.reading import format_of

    if document_format is not None and (input_file is None or raw):
        raise ConfigError("--document-format says what --input is, and --raw translates its lines; give --input alone")
    return input_file is not None and not raw and bool(document_format or format_of(input_file))


def flags_named(names: Iterable[str]) -> "list[Flag]":
    """The flags of these names, of which several may stand together with commas between them."""
    from dragoman.inference.translation import MEANINGS

    given = {name.strip() for each in names for name in each.split(",")}
    if unknown := sorted(given - MEANINGS.keys()):
        raise ConfigError(f"--fail-on: there is no flag {unknown[0]!r}, only {', '.join(MEANINGS)}")
    return list(meanings(given))


def count_lines(path: Path | None, raw: bool) -> int | None:
    """How many lines a file has, which is read to its end, so that a damaged one is refused. Unless they are taken
    `raw`, a file that is no plain text is refused too.
    """
    from dragoman.text.kinds import refuse_document

    if path is None:
        return None
    if not raw:
        refuse_document(path, read(path))
    return sum(1 for _ in read(path))


def can_resume(input_file: Path | None, output: Path) -> bool:
    """Whether a stopped command can be resumed; a pipe or a device takes lines once. Refuses an output that would
    overwrite something.
    """
    from dragoman.inference.resumable import check_working_files

    check_output(output, input_file)
    if input_file is None or (output.exists() and not output.is_file()):
        return False
    check_working_files(output, input_file)
    return True


def test_pair(run: Path, item: int) -> tuple[str, str]:
    """One sentence of a run's test set, counted from 1."""
    from dragoman.evaluating.references import own_test_pairs

    pairs = own_test_pairs(run)
    if item > len(pairs):
        raise ConfigError(f"--item must be from 1 to {len(pairs):,}, the size of the test set, but is {item:,}")
    return pairs[item - 1]


def what_decides(
    models: Sequence[Path], adapter: Path | None, translator: "Translator", options: "SearchOptions", output_format: str
) -> dict[str, Any]:
    """Everything that decides what is printed for a line. `batch_tokens` does not."""
    from dragoman.files import MANIFEST, sha256
    from dragoman.store.description import find_model

    return {
        "dragoman": dragoman.__version__,
        "model": [sha256(find_model(model) / MANIFEST) for model in models],
        "adapter": None if adapter is None else sha256(find_model(adapter) / MANIFEST),
        "device": translator.device,
        "precision": translator.precision,
        "decode": options.model_dump(mode="json", exclude={"batch_tokens"}),
        "format": output_format,
    }


@dataclass(frozen=True)
class Work:
    """A translator at work for the command line."""

    progress: Progress
    translator: "Translator"
    options: "SearchOptions"
    as_json: bool = False
    known_words: frozenset[str] | None = None
    """In lower case. Other words are named as unknown; if None, those that the vocabulary does not hold."""

    def converse(self) -> "Flags":
        """Translates lines as they are typed, until the end of input."""
        note(TYPED)
        return self.say(standard_input())

    def say(self, texts: Iterable[str]) -> "Flags":
        """Translates texts one by one, as they come."""
        flags = Flags(Counter(), {})
        for number, text in enumerate(texts, 1):
            flags.add(number, self._say(number, text))
        return flags

    def _say(self, number: int, text: str) -> "Translation":
        """Translates one text; on a terminal the words appear as they are found."""
        if self.as_json or self.options.align or self.options.n_best > 1 or not sys.stdout.isatty():
            (translation,) = self.translator.translate([text], self.options, silent)
            write_text("\n".join(self._lines(number, translation)))
        else:
            translation = write_pieces(self.translator.stream(text, self.options))
        if unknown := self._unknown_words(translation):
            note(f"words that the model does not know: {', '.join(unknown)}")
        for rank, each in enumerate((translation, *translation.alternatives), 1):
            which = f"translation {rank} is " if translation.alternatives else ""
            for flag, meaning in meanings(set(each.flags) - {"unknown"}).items():  # those words are named above
                note(f"{which}flagged {flag}: {meaning}")
        if translation.alternatives and not self.as_json:
            note(RANKED)
        return translation

    def _unknown_words(self, translation: "Translation") -> Sequence[str]:
        if self.known_words is None:
            return translation.unknown_words
        from dragoman.text.phrasebook import words

        return [word for word in words(translation.source) if word not in self.known_words]

    def compare(self, source: str, target: str) -> "Flags":
        """Shows one sentence of a test set beside the model's translation."""
        (translation,) = self.translator.translate([source], self.options, silent)
        flags = Flags(Counter(), {})
        flags.add(1, translation)
        if self.as_json:
            write_json_line({"target": target, **asdict(translation)})
            return flags
        write_text(f"source:     {source}\ntarget:     {target}\nprediction: {translation.text}")
        if self.options.align:
            write(f"alignment:  {pharaoh(translation)}")
        return flags

    def translate_all(self, texts: Iterable[str], output: Path | None, total: int | None = None) -> "Flags":
        """Translates every line, many at a time, but at once what has arrived if nothing more is waiting. An output
        file appears when it is complete.
        """
        flags = Flags(Counter(), {})
        with writer(output) as write_lines:
            count = self._translate(texts, lambda _, lines: write_lines(lines), total, flags)
        self._note_flags(flags, count)
        return flags

    def translate_file(
        self, source: Path, output: Path, asked: dict[str, Any], fresh: bool, total: int | None
    ) -> "Flags":
        """The same for the lines of a file, into a file that a later command can complete."""
        return self._complete(read(source), source, output, asked, fresh, total, "line")

    def _complete(
        self,
        texts: Iterable[str],
        source: Path,
        output: Path,
        asked: dict[str, Any],
        fresh: bool,
        total: int | None,
        unit: str,
    ) -> "Flags":
        from dragoman.inference.resumable import resumable_file
        from dragoman.runs.signals import interrupted_by_signals

        with resumable_file(output, asked, fresh) as file, interrupted_by_signals(lambda: file.state):
            rest = file.rest(texts, str(source))
            flags = Flags(file.counts, file.places, unit)
            count = self._translate(rest, file.add, total, flags, file.record.lines)
        self._note_flags(flags, count)
        return flags

    def translate_document(
        self, source: Path, document_format: str | None, output: Path, asked: dict[str, Any], fresh: bool
    ) -> "Flags":
        """The same for the texts of a document, which is written when all of them are there."""
        from dragoman.documents.reading import read_document
        from dragoman.files import remove, write_file
        from dragoman.text.lines import read_lines

        document = read_document(source, self.translator.languages, document_format)
        translations = output.with_name(f"{output.name}.texts")
        flags = self._complete(document.texts, source, translations, asked, fresh, len(document.texts), "text")
        write_file(output, document.translated([*read_lines(translations)] if document.texts else []))
        remove(translations)
        return flags

    def _translate(
        self,
        texts: Iterable[str],
        keep: Callable[[Sequence[str], str], object],
        total: int | None,
        flags: "Flags",
        done: int = 0,
    ) -> int:
        """Translates the texts after those that are done. Each chunk and its translations are handed to `keep`; flags
        are counted. Returns how many texts are done now.
        """
        from dragoman.inference.segments import chunks

        with self.progress.track("translate", total, f"{flags.unit}s") as advance:
            if done:
                advance(done)
            for chunk in chunks(texts, len):
                lines: list[str] = []
                for translation in self.translator.translate(chunk, self.options, silent):
                    done += 1
                    flags.add(done, translation)
                    lines += self._lines(done, translation)
                keep(chunk, "".join(f"{line}\n" for line in lines))
                advance(len(chunk))
        return done

    def _note_flags(self, flags: "Flags", lines: int) -> None:
        for flag, meaning in meanings(flags.counts).items():
            found = f"{flags.counts[flag]:,} of {lines:,} {flags.unit if lines == 1 else f'{flags.unit}s'}"
            note(f"{found} flagged {flag}{flags.where(flag)}: {meaning}")
        if self.options.n_best > 1 and not self.as_json:
            note(RANKED)

    def _lines(self, number: int, translation: "Translation") -> list[str]:
        """What is printed for a text."""
        if self.as_json:
            return [as_json({"line": number, **asdict(translation)})]
        lines: list[str] = []
        for rank, each in enumerate((translation, *translation.alternatives), 1):
            ranked = [str(number), str(rank), f"{each.score:.4f}"] if self.options.n_best > 1 else []
            aligned = [pharaoh(each)] if self.options.align else []
            text = each.text.replace("\t", " ") if ranked or aligned else each.text
            lines.append("\t".join([*ranked, text, *aligned]))
        return lines


class Flags(NamedTuple):
    """The flags of many texts."""

    counts: Counter[str]
    """How many texts have each."""
    places: dict[str, list[int]]
    """The first texts that have it, from 1."""
    unit: str = "line"
    """What a text is."""

    def add(self, number: int, translation: "Translation") -> None:
        flags = {flag for each in (translation, *translation.alternatives) for flag in each.flags}
        self.counts.update(flags)
        for flag in flags:
            if len(places := self.places.setdefault(flag, [])) < PLACES:
                places.append(number)

    def where(self, flag: str) -> str:
        """The texts that have a flag, in words."""
        places = ", ".join(map(str, self.places.get(flag, ())))
        return f" ({self.unit} {places}{', …' if self.counts[flag] > PLACES else ''})" if places else ""


def pharaoh(translation: "Translation") -> str:
    """An alignment as Pharaoh and most tools since write it: `0-0 1-2`, source word and target word."""
    return " ".join(f"{source}-{target}" for source, target in translation.alignment)


def meanings(flags: Iterable[str]) -> "dict[Flag, str]":
    """What these flags mean, in their usual order."""
    from dragoman.inference.translation import MEANINGS

    return {flag: meaning for flag, meaning in MEANINGS.items() if flag in flags}


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
            help="Say which words spoke for a label; a text is read once more for each of its words.",
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
    from dragoman.inference.segments import chunks

    progress = open_screen(quiet)
    if text and input_file is not None:
        raise ConfigError("TEXT and --input were given; predict takes one of them")
    for each in text or ():
        check_text(each)
    predictor = dragoman.Predictor.load(model, device, precision, progress, threads)
    note(f"{predictor.task}, {predictor.device}, {predictor.precision}")
    words = bool(text) if words is None else words
    texts: Iterable[str] = text or (read(input_file) if input_file else standard_input())
    typed = not text and input_file is None and sys.stdin.isatty()
    if typed:
        note(TYPED)
    show = {"classify": labels_of_text, "tag": labels_of_words, "fill": words_for_masks}[predictor.task]
    with (progress if input_file else silent).track("predict", unit="texts") as advance:
        for batch in ([each] for each in texts) if typed else chunks(texts, len):
            for prediction in predictor.predict(batch, best, words, pretokenized, silent):
                if output_format == "json":
                    write_json_line(prediction.facts())
                else:
                    write_text(show(prediction))
            sys.stdout.flush()
            advance(len(batch))
            if blank := sum(not each.strip() for each in batch):
                log.warning("%s of %s texts are empty: what is predicted for them means nothing", blank, len(batch))


def labels_of_text(prediction: "Classified") -> str:
    labels = "  ".join(f"{visible(label.name)} {label.probability:.1%}" for label in prediction.labels)
    strongest = sorted((word for word in prediction.words if word[1] > 0), key=lambda word: -word[1])
    words = ", ".join(word for word, _ in strongest[:WORDS_FOR_A_LABEL])
    return labels + (f"  (for {visible(prediction.label)} spoke: {words})" if words else "")


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
    tokens: Annotated[int | None, typer.Option(help="Maximum number of tokens to write.", show_default="200")] = None,
    temperature: Annotated[
        float | None,
        typer.Option(help="Below 1 favours likely tokens; 0 always takes the likeliest.", show_default="0.8"),
    ] = None,
    top_k: Annotated[int | None, typer.Option(help="Sample only from this many of the likeliest tokens.")] = None,
    top_p: Annotated[
        float | None, typer.Option(help="Sample only from the likeliest tokens that together have this probability.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Random seed for sampling.", show_default="1")] = None,
    samples: Annotated[int | None, typer.Option(help="Number of texts to write.", show_default="1")] = None,
    stop: Annotated[list[str] | None, typer.Option(help="A text at which writing ends; may be repeated.")] = None,
    context: Annotated[
        int | None,
        typer.Option(
            help="Maximum number of tokens of the text so far that the model sees.", show_default="as in training"
        ),
    ] = None,
    output_format: Format = "text",
    quiet: Quiet = False,
) -> None:
    """Continue a text with a language model."""
    given = keywords(locals(), "model", "device", "precision", "threads", "prompt", "output_format")
    from dragoman.config import choose

    progress = given.pop("progress")
    prompt = read_prompt() if prompt is None else prompt
    generator = dragoman.Generator.load(model, device, precision, progress, threads)
    options = choose(dragoman.GenerateOptions, "generate", (), generator.options, **given)
    note(f"{generator.device}, {generator.precision}")
    if options.samples == 1 and output_format == "text":
        write_text(prompt, end="")
        forgotten = write_pieces(generator.stream(prompt, options)).forgotten
    else:
        generated = generator.generate([prompt], options, progress)
        forgotten = generated[0].forgotten
        for each in generated:
            if output_format == "json":
                write_json_line(asdict(each))
            else:
                write_text(f"--- sample {each.sample} of {len(generated)} ---\n{each.prompt}{each.text}")
    if forgotten:
        limit = generator.context(options)
        note(f"the model sees at most {limit:,} tokens, so the first {forgotten:,} of the prompt were not read")


def read_prompt() -> str:
    """All of standard input but the end of its last line."""
    if sys.stdin.isatty():
        return ""
    text = sys.stdin.buffer.read(LONGEST_PROMPT + 1)
    if len(text) > LONGEST_PROMPT:
        raise DataError(f"standard input holds more than {LONGEST_PROMPT:,} bytes; give the end of the text")
    try:
        return text.decode().removesuffix("\n")
    except UnicodeDecodeError as error:
        raise DataError(f"standard input is not valid UTF-8 at byte {error.start:,}") from None
