"""Memory, time to load and speed of models as large as M2M-100 (418M) and NLLB-200 (600M), with random weights.

    python benchmarks/large_models.py FOLDER [--shapes m2m-100-418M nllb-200-600M] [--rounds 5] [--out results.json]

It makes the models in FOLDER, which takes about 10 GB, unless they are there: as float32, quantised, and exported for
CTranslate2. The tokenizer is SentencePiece with a table of made-up words, so a sentence of 20 words has 20 tokens.
Random models do not end a translation, so each has 24 tokens.

`load` measures processes that load a model and translate 200 sentences or none: the peak of their memory and seconds,
with the files in the disk cache. `speed` compares Dragoman with CTranslate2, both in int8 from text to tokens, with the
same threads, each in a separate process; they take turns in alternating order, and medians are over rounds. For a
file, CTranslate2 comes in the better of its settings: one worker of all threads, or one worker for each thread.
"""

import json
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import islice, product
from pathlib import Path
from typing import Any

from command_line import interleaved, markdown, new_parser, report, write_figures
from peers.processes import Remote

from dragoman.memory import peak_memory_bytes

SHAPES = {"m2m-100-418M": 128_112, "nllb-200-600M": 256_206}
"""Size of the vocabulary; both have 12 + 12 layers of width 1,024."""
LANGUAGES = ("en", "it", "de")
SENTENCES, WORDS, WRITTEN = 200, 20, 24
SEARCHES = {"greedy": 1, "beam 4": 4}
MOST_BYTES, MOST_BYTES_A_WEIGHT, MOST_SECONDS = 350e6, 1.2, 10.0
"""Bounds of the quantised model."""


def words_of(vocabulary: int) -> list[str]:
    """Return made-up words, one for each piece of a vocabulary of this size."""
    syllables = ["".join(letters) for letters in product("bdfgklmnprstvz", "aeiou")]
    needed = vocabulary - 4 - len(LANGUAGES)
    return list(islice(("".join(word) for word in product(syllables, repeat=3)), needed))


def sentences_of(vocabulary: int) -> list[str]:
    """Return random sentences of these words."""
    words, choice = words_of(vocabulary), random.Random(1)
    return [" ".join(choice.sample(words, WORDS)) for _ in range(SENTENCES)]


def spm_of(words: list[str]) -> bytes:
    """Return a SentencePiece model with these words as pieces."""
    from sentencepiece import sentencepiece_model_pb2

    model: Any = sentencepiece_model_pb2.ModelProto()  # pyright: ignore[reportAttributeAccessIssue]
    for symbol, kind in (("<unk>", 2), ("<s>", 3), ("</s>", 3)):
        model.pieces.add(piece=symbol, score=0.0, type=kind)
    for number, word in enumerate(words):
        model.pieces.add(piece=f"▁{word}", score=-8.0 - number / len(words))
    return model.SerializeToString()


def make(folder: Path, vocabulary: int) -> None:
    """Write a random model of this vocabulary."""
    import torch

    from dragoman.directions import Directions
    from dragoman.model.config import ModelConfig
    from dragoman.model.transformer import build_model
    from dragoman.store.description import ModelFiles, languages_of
    from dragoman.store.saving import save_model
    from dragoman.tokenizing.sentencepiece import SentencePieces, SentencePieceTokenizer
    from dragoman.tokenizing.special_tokens import END, Framing
    from dragoman.tokenizing.tokenizers import Tokenizers

    stacks = {"d_model": 1_024, "encoder_layers": 12, "decoder_layers": 12, "heads": 16, "d_ff": 4_096}
    positions = {"positions": "sinusoidal", "position_offset": 2, "position_base": 10_000 ** (512 / 511)}
    norms = {"norm_position": "pre", "final_norm": True, "tied": "all"}
    sizes: dict[str, Any] = {"source_vocabulary": vocabulary, "target_vocabulary": vocabulary}
    config = ModelConfig(preset="paper", **stacks, **positions, **norms, **sizes)
    words = words_of(vocabulary)
    pieces = SentencePieces(pieces=tuple(f"▁{word}" for word in words), languages=LANGUAGES)
    tokenizer = SentencePieceTokenizer(pieces, spm_of(words))
    directions = Directions(source=LANGUAGES, target=LANGUAGES)
    files = ModelFiles(
        Tokenizers(tokenizer, tokenizer),
        languages_of(directions),
        {"source_language": "en", "target_language": "it", "split": "never", "minimum_length": WRITTEN - 1}
        | {"length_ratio": 0.0, "length_extra": WRITTEN - 1},
        framing=Framing(source_before=(), target_start=END, target_prefix=True),
        directions=directions,
    )
    torch.manual_seed(1)
    save_model(folder, build_model(config, seed=1), files)


def in_process(code: str, *words: object) -> dict[str, float]:
    """Run code in a fresh process, and return the figures that it prints as JSON, with its seconds."""
    started = time.perf_counter()
    text = subprocess.run([sys.executable, "-c", code, *map(str, words)], check=True, capture_output=True, text=True)
    return {**json.loads(text.stdout.splitlines()[-1]), "process_seconds": time.perf_counter() - started}


PEAK = "import json, os, sys, time; from dragoman.memory import peak_memory_bytes, memory_bytes\n"
END_OF_CODE = """
facts = {"seconds": s, "peak_bytes": peak_memory_bytes(), "bytes": memory_bytes(), "cpu_seconds": time.process_time()}
print(json.dumps(facts))
"""
TRANSLATE = (
    PEAK
    + "b = time.perf_counter(); from dragoman.inference.translator import Translator\n"
    + "t = Translator.load(sys.argv[1], 'cpu', sys.argv[2], progress=False); s = time.perf_counter() - b\n"
    + "lines = open(sys.argv[3], encoding='utf-8').read().splitlines(); t.translate(lines, progress=False)"
    + END_OF_CODE
)
QUANTIZE = (
    PEAK
    + "from dragoman.runs.quantize import quantize\n"
    + "b = time.perf_counter(); quantize(*sys.argv[1:]); s = time.perf_counter() - b"
    + END_OF_CODE
)
EXPORT = (
    PEAK
    + "from dragoman.exporting.ctranslate2 import specify\n"
    + "from dragoman.store.folder import load_model\n"
    + "b = time.perf_counter(); m = load_model(sys.argv[1]); spec = specify(m.config, m.weights, 512)\n"
    + "t = m.tokenizers.source; v = t.tokens(range(t.size))\n"
    + "spec.register_source_vocabulary(v); spec.register_target_vocabulary(v)\n"
    + "f = spec.config; f.decoder_start_token = f.eos_token = f.bos_token = v[3]; f.unk_token = v[0]\n"
    + "f.add_source_bos = f.add_source_eos = False; f.layer_norm_epsilon = 1e-5\n"
    + "spec.validate(); spec.optimize(quantization='int8'); os.mkdir(sys.argv[2]); spec.save(sys.argv[2])\n"
    + "s = time.perf_counter() - b"
    + END_OF_CODE
)


def open_dragoman(folder: Path, threads: int) -> Callable[[list[str], int], list[list[int]]]:
    """Load the quantised model, and return its search from texts to tokens."""
    from dragoman.inference.translator import Translator

    translator = Translator.load(folder, "cpu", "int8", progress=False, threads=threads).directed()

    def search(texts: list[str], beam: int) -> list[list[int]]:
        options = translator.options.but(beam_size=beam, raw=True)
        requests = translator.requests.of(translator.read(texts, options), options)
        results = dict(translator.search.run(requests, options))
        return [list(results[number][0][0].tokens) for number in range(len(texts))]

    return search


def open_ctranslate2(folder: Path, threads: int, workers: int) -> Callable[[list[str], int], list[list[int]]]:
    """Load CTranslate2's model with its tokens."""
    import ctranslate2

    from dragoman.tokenizing.tokenizers import Tokenizers

    sizes = {"inter_threads": workers, "intra_threads": threads // workers}
    model = ctranslate2.Translator(str(folder), device="cpu", compute_type="int8", **sizes)
    tokenizer = Tokenizers.load(folder.with_name(folder.name.removesuffix("-ct2"))).source
    symbols = tokenizer.tokens(range(tokenizer.size))
    ids = {name: number for number, name in enumerate(symbols)}
    language = [symbols[tokenizer.languages[name]] for name in LANGUAGES]
    never = [[symbols[number]] for number in (0, 1, 2)]

    def search(texts: list[str], beam: int) -> list[list[int]]:
        rows = tokenizer.encode_batch(texts)
        sources = [[language[0], *(symbols[token] for token in row), symbols[3]] for row in rows]
        lengths = {"min_decoding_length": WRITTEN, "max_decoding_length": WRITTEN}
        results = model.translate_batch(
            sources, [[language[1]]] * len(texts), beam_size=beam, suppress_sequences=never, max_batch_size=1_024,
            batch_type="tokens", **lengths,
        )  # fmt: skip
        return [[ids[name] for name in result.hypotheses[0]] for result in results]

    return search


def contender(kind: str, folder: Path, *sizes: int) -> tuple[None, Callable[[list[str], int], tuple[Any, ...]]]:
    """Open a runtime in its process; its answers are tokens, seconds and the peak of memory."""
    search = open_dragoman(folder, *sizes) if kind == "dragoman" else open_ctranslate2(folder, *sizes)

    def turn(texts: list[str], beam: int) -> tuple[list[list[int]], float, int | None]:
        started = time.perf_counter()
        written = search(texts, beam)
        return written, time.perf_counter() - started, peak_memory_bytes()

    return None, turn


def measure_loading(base: Path) -> dict[str, dict[str, float]]:
    """Measure quantising, exporting, loading and translating in separate processes."""
    quantised, exported, texts = (base.with_name(base.name + end) for end in ("-int8", "-int8-ct2", ".txt"))
    figures: dict[str, dict[str, float]] = {}
    if not quantised.exists():
        figures["quantise"] = in_process(QUANTIZE, base, quantised)
    if not exported.exists():
        figures["export to CTranslate2"] = in_process(EXPORT, base, exported)
    none = base.with_name("none.txt")
    none.write_text("")
    figures["load, int8"] = in_process(TRANSLATE, quantised, "auto", none)
    figures[f"load and translate {SENTENCES}, int8"] = in_process(TRANSLATE, quantised, "auto", texts)
    figures["load, float32"] = in_process(TRANSLATE, base, "auto", none)
    first = [sys.executable, "-m", "dragoman", "translate", str(quantised), texts.read_text("utf-8").splitlines()[0]]
    started = time.perf_counter()
    subprocess.run([*first, "--target-language", "it"], check=True, capture_output=True)
    figures["first translation on the command line, int8"] = {"process_seconds": time.perf_counter() - started}
    for name, facts in figures.items():
        report(f"{base.name}: {name}: " + ", ".join(f"{key} {value:,.1f}" for key, value in facts.items()))
    return figures


def measure_speed(base: Path, vocabulary: int, rounds: int, threads: int, lines: int) -> list[dict[str, Any]]:
    """Compare the speed of Dragoman with CTranslate2's, for a file and for one sentence."""
    folder, exported = (base.with_name(base.name + end) for end in ("-int8", "-int8-ct2"))
    ours = Remote(contender, "dragoman", folder, threads)
    theirs = [Remote(contender, "ctranslate2", exported, threads, workers) for workers in sorted({1, threads})]
    texts, rows = sentences_of(vocabulary)[:lines], []
    for search, beam in SEARCHES.items():
        for call, asked in (("file", texts), ("one sentence", texts[:1])):
            rivals = theirs if len(asked) > 1 else theirs[:1]
            times: dict[int, list[float]] = {number: [] for number in range(1 + len(rivals))}
            for remote in (ours, *rivals):
                written = remote.ask(texts[:2], beam)[0]
                assert all(len(row) == WRITTEN for row in written), [len(row) for row in written]
            for _, number in interleaved(list(times), rounds):
                remote = (ours, *rivals)[number]
                times[number].append(remote.ask(asked, beam)[1])
            medians = [statistics.median(taken) for taken in times.values()]
            best = min(range(1, len(medians)), key=medians.__getitem__)
            ratios = sorted(b / a for a, b in zip(times[0], times[best], strict=True))
            row = {"search": search, "call": call, "seconds": medians[0], "ctranslate2_seconds": medians[best]}
            rows.append({**row, "ratio": statistics.median(ratios), "range": [ratios[0], ratios[-1]]})
            report(f"{base.name}: {rows[-1]}")
    peaks = {f"peak_bytes_{number}": remote.ask(texts[:1], 1)[2] for number, remote in enumerate((ours, *theirs))}
    report(f"{base.name}: {peaks}")
    for remote in (ours, *theirs):
        remote.leave()
    return rows


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--lines", type=int, default=SENTENCES, help="of the file whose speed is measured")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    figures: dict[str, Any] = {}
    for shape in options.shapes:
        base = options.folder / shape
        if not base.exists():
            make(base, SHAPES[shape])
        base.with_name(f"{shape}.txt").write_text("\n".join(sentences_of(SHAPES[shape])) + "\n", "utf-8")
        loading = measure_loading(base)
        speed = measure_speed(base, SHAPES[shape], options.rounds, options.threads, options.lines)
        figures[shape] = {"loading": loading, "speed": speed}
    write_figures(options.out, shapes=figures)
    cells: list[list[str]] = []
    for shape, facts in figures.items():
        for row in facts["speed"]:
            seconds = [f"{row[name]:.2f}" for name in ("seconds", "ctranslate2_seconds", "ratio")]
            cells.append([shape, row["search"], row["call"], *seconds])
    print(markdown(["model", "search", "call", "seconds", "CTranslate2's", "ratio"], cells))


if __name__ == "__main__":
    main()
