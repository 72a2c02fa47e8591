"""Recording of one translation, from the model's own forward pass and its own searches (`record`).

The record is of the float32 translation on a processor, with attention computed by its equation. Searches of several
widths run concurrently, and each finds what it would find alone. Then one pass over the winner shows every tensor.
"""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

import dragoman
from dragoman.decoding.hypothesis import Hypothesis
from dragoman.errors import DecodeError
from dragoman.explaining.gold_alignment import AlignedPair, measure_alignment, read_gold
from dragoman.explaining.record import Alignment, PartRecord, Record, SearchRecord
from dragoman.explaining.search_tree import Candidates, search_tree
from dragoman.explaining.stacks import find_layer, read_matrices, read_stack, read_steps, read_written
from dragoman.explaining.why import Why, find_contributions, why
from dragoman.inference.alignment import AlignmentChoice, Word, align_words
from dragoman.inference.options import SearchOptions
from dragoman.inference.teacher_forcing import ForcedText, Seen, plain_attention, teacher_force
from dragoman.inference.translation import MEANINGS, Translation
from dragoman.inference.translator import Translator
from dragoman.model.transformer import EncoderDecoder, LanguageModel, prepare_for_decoding
from dragoman.progress import silent
from dragoman.store.description import StoredModel
from dragoman.store.folder import load_model
from dragoman.surface.segment import Segment
from dragoman.surface.tags import without_tags
from dragoman.system import use_threads
from dragoman.tokenizing.tokenizer import Tokenizer
from dragoman.tokenizing.words import words_of

WIDTHS = (1, 2, 4, 8)
"""Widths of the searches that are recorded, besides the model's own."""
MOST_TOKENS = 128
"""Most tokens of a part, on either side. Pages, and the time that they take, grow with the square of this number."""
MOST_PARTS = 20


def record(
    model: Path | str,
    source: str,
    target: str | None = None,
    *,
    weights: str | None = None,
    aligned: Path | str | None = None,
    source_language: str | None = None,
    target_language: str | None = None,
    threads: int | None = None,
) -> Record:
    """Record everything that happens while a model translates a text, or while it reads a given translation of it.

    `model` is a model folder or a run folder. A language model reads `source`, and the record holds the tokens that it
    expected next at every token. `weights` names a layer, as in `encoder.0`, whose matrices are recorded too. `aligned`
    is a file of aligned pairs (`explaining.gold_alignment`) that the alignment is measured on; between English and
    Italian, our own are used. The languages are for a model that has several. `threads` counts for this call alone.

    Raises:
        CheckpointError: the model folder is missing, damaged or newer.
        ConfigError: the model has no such layer.
        DataError: the aligned pairs can't be read.
        DecodeError: a text that is blank or too long, or a target for a language model.
    """
    pairs = read_gold(aligned) if aligned is not None else None
    with use_threads(threads):
        languages = {"source_language": source_language, "target_language": target_language}
        recorder = Recorder(load_model(model), pairs).directed(source, **languages)
        return recorder.record(source, target, weights=weights)


def explain_choice(
    model: Path | str,
    source: str,
    word: str,
    alternative: str,
    target: str | None = None,
    *,
    source_language: str | None = None,
    target_language: str | None = None,
    threads: int | None = None,
) -> Why:
    """Explain why a model wrote one word of a translation, or of a given one, and not an `alternative`: the
    contribution of each word that it had read. For a language model, the word is one of `source`.

    Raises:
        CheckpointError: the model folder is missing, damaged or newer.
        DataError: the word is not in the translation, is there more than once, or has the alternative's pieces.
        DecodeError: a text that is blank, too long or of several sentences, or a target for a language model.
    """
    with use_threads(threads):
        languages = {"source_language": source_language, "target_language": target_language}
        recorder = Recorder(load_model(model)).directed(source, **languages)
        return recorder.why(source, word, alternative, target)


class Searched(NamedTuple):
    """The search of one width over one part of a text, and its best hypothesis."""

    search: SearchRecord
    best: Hypothesis


class Recorder:
    """A recorder of one model, which is prepared once."""

    def __init__(self, stored: StoredModel, aligned: Sequence[AlignedPair] | None = None) -> None:
        self.stored = stored
        self.tokenizers = stored.tokenizers
        self.translator: Translator | None = None
        if isinstance(stored.model, EncoderDecoder):
            self.translator = Translator(stored, "cpu", "float32", progress=silent)
            self.model: EncoderDecoder | LanguageModel = self.translator.model
        elif isinstance(stored.model, LanguageModel):
            self.model = prepare_for_decoding(stored.model, "cpu", torch.float32)
        else:
            raise DecodeError(
                f"{stored.folder} holds a model that labels texts or fills in words; explain shows translation and "
                "language models, and dragoman predict names the words that support a label"
            )
        if aligned is not None and self.translator is None:
            raise DecodeError("a language model has no words to align; it takes no aligned pairs")
        self.aligned = aligned

    def directed(self, text: str = "", **languages: str | None) -> "Recorder":
        """Return this recorder in one direction of a model with several: that of options, or of the tag of a text."""
        asked = {side: name for side, name in languages.items() if name}
        translator = self.translator and self.translator.directed(self.translator.options.but(**asked), text)
        if translator is self.translator:
            return self
        recorder = copy.copy(self)
        recorder.translator = translator
        recorder.__dict__.pop("_alignment", None)  # which was measured in another direction
        return recorder

    @torch.inference_mode()
    def record(self, source: str, target: str | None = None, *, weights: str | None = None) -> Record:
        """See `dragoman.record`."""
        if weights is not None:
            find_layer(self.model, weights)
        if self.translator is None:
            ids = self._encode_alone(source, target)
            hidden, _ = teacher_force(self.model, [ForcedText(None, ids, ids)])
            predicted = int(self.model.project(hidden[-1:]).argmax())  # the likeliest token after the text
            part = self._part(None, source, ForcedText(None, ids, [*ids[1:], predicted]), {}, weights)
            part = replace(part, log_prob=sum(step.log_prob for step in part.steps[:-1]))
            return self._record(source, None, False, [part])
        source = without_tags(source).plain
        if target is not None:
            return self._record_given(self.translator, source, target, weights)
        return self._record_translated(self.translator, source, weights)

    def why(self, source: str, word: str, alternative: str, target: str | None = None) -> Why:
        """See `dragoman.explain_choice`."""
        framing = self.stored.files.framing
        if self.translator is None:
            self._encode_alone(source, target)  # refuses texts that can't be explained, as the pair below
            return why(self.model, self.tokenizers, framing, None, source, word, alternative)
        source, called = without_tags(source).plain, "the translation" if target is None else "the target"
        if target is None:
            source, target = self._translate_sentence(self.translator, source)
        ((source,), (target,)) = self.translator.plain_pairs([source], [target], self.translator.options)
        self._encode_pair(source, target, called)
        return why(self.model, self.tokenizers, framing, source.strip(), target, word, alternative)

    def _translate_sentence(self, translator: Translator, text: str) -> tuple[str, str]:
        """Return a text of one sentence, as the model reads it, and its translation."""
        (segments,) = translator.read([text], translator.options)
        if len(segments.translated) > 1:
            parts = len(segments.translated)
            raise DecodeError(f"the text is translated in {parts} parts; give one sentence, or a target")
        _check_lengths([segment.ids for segment in segments.translated], "the text")
        (segment,) = segments.translated
        with plain_attention(self.model):
            sentence = text[: len(text) - len(segments.typed)] + segment.typed  # with its tag
            return sentence, translator.translate([sentence], progress=silent)[0].text

    def _record_translated(self, translator: Translator, source: str, weights: str | None) -> Record:
        """Record a text that the model translates."""
        options = translator.options.searching(n_best=1)
        (segments,) = translator.read([source], options)
        _check_lengths([segment.ids for segment in segments.translated], "the text")
        searches = self._search(translator, segments, options)
        chosen = [by_width[options.beam_size].best for by_width in searches]
        _check_lengths([best.tokens for best in chosen], "the translation")
        translation = translator.writer.translation(segments, [chosen], options)
        framing = translator.framing
        parts, searched = [], iter(zip(searches, chosen, strict=True))
        for segment in segments.parts:
            if segment.is_copied:
                parts.append(PartRecord(segment.typed, segment.typed, copied=True))
                continue
            by_width, best = next(searched)
            labels = list(best.tokens)  # with the end symbol, if it ended
            forced = ForcedText(framing.source(segment.ids), [framing.target_start, *labels[:-1]], labels)
            part = self._part(segment.text, translator.writer.text(best.tokens), forced, by_width, weights)
            parts.append(replace(part, typed=segment.typed if segment.is_rewritten else None))
        return self._record(source, translation.text, False, parts, translation)

    def _record_given(self, translator: Translator, source: str, target: str, weights: str | None) -> Record:
        """Record a text whose translation is given: one part, and the searches in addition."""
        options = translator.options.searching(n_best=1, split="never")
        ((read,), (written,)) = translator.plain_pairs([source], [target], options)
        ids, target_ids = self._encode_pair(read, written)
        (segments,) = translator.read([source], options)
        _check_lengths([segment.ids for segment in segments.translated], "the text")
        (translation,) = translator.score([source.strip()], [target], options)
        (by_width,) = self._search(translator, segments, options)
        part = self._part(read, written, ForcedText.of(translator.framing, ids, target_ids), by_width, weights)
        part = replace(part, typed=source if read != source else None)
        return self._record(source, target, True, [part], translation)

    def _search(self, translator: Translator, segments: Segment, options: SearchOptions) -> list[dict[int, Searched]]:
        """Run the searches of all widths; return their results for each translated segment, by width."""
        candidates = Candidates()
        engine = translator.search.engine(options, candidates)
        requests = {}
        for width in sorted({*WIDTHS, options.beam_size}):
            width_options = options.model_copy(update={"beam_size": width})
            for number, request in enumerate(translator.requests.of([segments], width_options)[0]):
                requests[engine.admit(request)] = number, request
        searches: list[dict[int, Searched]] = [{} for _ in segments.translated]
        with plain_attention(self.model):
            for ended in engine.run():
                number, request = requests[ended.ticket]
                best = ended.hypotheses[0]
                chosen = request.beam_size == options.beam_size
                tree = search_tree(candidates.steps[ended.ticket], best, request, self.tokenizers.target, chosen)
                searches[number][request.beam_size] = Searched(tree, best)
        return searches

    def _encode_pair(self, source: str, target: str, called: str = "the target") -> tuple[list[int], list[int]]:
        """Return the ids of a text and of its translation, which messages name as `called`, each read as a whole."""
        framing, tokenizers = self.stored.files.framing, self.tokenizers
        return (
            self._encode(tokenizers.source, source.strip(), "the text", framing.source_symbols),
            self._encode(tokenizers.target, target, called, framing.target_symbols),
        )

    def _encode_alone(self, text: str, target: str | None) -> list[int]:
        """Return the ids of a text that a language model reads."""
        if target is not None:
            raise DecodeError("a language model has no target; give it one text")
        return self._encode(self.tokenizers.target, text, "the text")

    def _encode(self, tokenizer: Tokenizer, text: str, name: str, symbols: int = 0) -> list[int]:
        """Return the ids of a text, if they can be explained and have positions, with this many symbols around them."""
        ids = tokenizer.encode(text) if text.strip() else []
        _check_lengths([ids], name)
        positions = self.stored.config.max_positions
        if positions and len(ids) + symbols > positions:
            raise DecodeError(f"{name} has {len(ids):,} tokens, but the model has positions for {positions - symbols}")
        return ids

    def _part(
        self, source: str | None, target: str, forced: ForcedText, searches: Mapping[int, Searched], weights: str | None
    ) -> PartRecord:
        """Record one part of a text, from a pass over it."""
        seen, tokenizers = Seen(), self.tokenizers
        hidden, _ = teacher_force(self.model, [forced], seen)
        tokens, written = read_written(tokenizers.target, forced)
        steps = read_steps(self.model.project(hidden), tokens, tokenizers.target)
        certain = len(self.translator.requests.before) if self.translator else 0
        stacks = [read_stack("decoder", seen, tokenizers.target, forced.target)]
        if forced.source is not None:
            stacks.insert(0, read_stack("encoder", seen, tokenizers.source, forced.source))
        part = PartRecord(
            source,
            target,
            stacks=tuple(stacks),
            steps=steps,
            written=written,
            log_prob=sum(step.log_prob for step in steps[certain:]),
            searches=tuple(searches[width].search for width in sorted(searches)),
            matrices=read_matrices(self.model, weights, seen) if weights else (),
        )
        sources = words_of(self.tokenizers.source, forced.source or ())
        read, written = (words_of(self.tokenizers.target, ids) for ids in (forced.target, forced.labels))
        candidates = torch.tensor([[candidate.id for candidate in step.candidates] for step in part.steps])
        contributions = find_contributions(self.model, forced, sources, read, candidates)
        return replace(part, alignment=self._align(part, sources, written), contributions=contributions)

    @cached_property
    def _alignment(self) -> AlignmentChoice | None:
        """Cross-attention that alignments are read from; None in a model without one."""
        return measure_alignment(self.translator, self.aligned) if self.translator else None

    def _align(self, part: PartRecord, source: Sequence[Word], written: Sequence[Word]) -> Alignment | None:
        choice, decoder = self._alignment, part.stack("decoder")
        if choice is None or decoder is None:
            return None
        weights = [layer.attentions[-1].weights for layer in decoder.layers]
        links, by_word = align_words(weights, source, written, choice)
        by_word = by_word.astype(np.float32)
        return Alignment(choice.layer, choice.head, choice.shifted, choice.how, by_word, tuple(sorted(links)))

    def _record(
        self,
        source: str,
        target: str | None,
        has_given_target: bool,
        parts: Sequence[PartRecord],
        translation: Translation | None = None,
    ) -> Record:
        config = self.stored.config
        unknown = translation.unknown_words if translation else tuple(self.tokenizers.target.unknown_words(source))
        return Record(
            model=str(self.stored.folder),
            family=config.family,
            languages=self.translator and self.translator.languages,
            settings=config.model_dump(mode="json", exclude_none=True),
            weight_count=sum(weight.numel() for weight in self.model.parameters()),
            version=dragoman.__version__,
            source=source,
            target=target,
            has_given_target=has_given_target,
            flags={flag: MEANINGS[flag] for flag in translation.flags} if translation else {},
            unknown_words=unknown,
            parts=tuple(parts),
        )


def _check_lengths(parts: Sequence[Sequence[int]], name: str) -> None:
    if not any(parts):
        raise DecodeError(f"{name} holds nothing that the model reads; there is nothing to explain")
    if len(parts) > MOST_PARTS:
        raise DecodeError(
            f"{name} is read in {len(parts):,} parts, but at most {MOST_PARTS} can be explained; shorten it"
        )
    longest = max(map(len, parts))
    if longest > MOST_TOKENS:
        subject = name if len(parts) == 1 else f"a sentence of {name}"
        advice = "give a part of it as the target" if name == "the translation" else "shorten it"
        raise DecodeError(f"{subject} has {longest:,} tokens, but at most {MOST_TOKENS} can be explained; {advice}")
