"""Do Marian models go in and out unchanged? Three small ones, made by transformers and SentencePiece, both ways.

    python benchmarks/marian.py make FOLDER --data DATA     trains the three models: opus, separate, biased
    python benchmarks/marian.py compare FOLDER --data DATA [--tuned RUN] [--out results.json]

`DATA` holds train, dev and test texts of Tatoeba. `compare` converts each model into a model folder and back, and says
for 500 test sentences how far pieces, logits and texts agree. `--tuned` is a run of `dragoman fine-tune` that began
with a converted model; it is converted, too. One difference is meant: our search lets no translation begin with two
blank pieces, so that none is empty.

    opus       one vocabulary and one matrix for both sides, swish, safetensors (the form of OPUS-MT)
    separate   a vocabulary a side, no tied matrices, ReLU
    biased     as opus, with `final_logits_bias` of token frequencies, and `pytorch_model.bin`
"""

import argparse
import json
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from command_line import command_line, figures_file
from peers.marian_folders import FORMS, make, padded
from transformers import MarianMTModel, MarianTokenizer

import dragoman
from dragoman.evaluating.metrics import bleu_and_chrf
from dragoman.inference.options import SearchOptions
from dragoman.model.transformer import EncoderDecoder
from dragoman.store.folder import load_model
from dragoman.store.marian import read_marian
from dragoman.system import describe

SENTENCES, BATCH = 500, 25
LONGEST = 100
"""Most tokens of a translation, its end symbol included; a small model may repeat itself for ever."""
LENGTHS: dict[str, Any] = {"length_penalty": 0.0, "length_ratio": 0.0, "length_extra": LONGEST}
OPTIONS = {**LENGTHS, "split": "never", "max_source_tokens": 511}


def compare(theirs: Path, ours: Path, pairs: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """How far a Marian folder and a model folder agree on these pairs."""
    model, tokenizer = MarianMTModel.from_pretrained(theirs).eval(), MarianTokenizer.from_pretrained(theirs)
    return {
        "sentences": len(pairs),
        **pieces_and_logits(model, tokenizer, theirs, ours, pairs),
        **{name: texts(model, tokenizer, ours, pairs, beam) for name, beam in (("greedy", 1), ("beam_4", 4))},
    }


def pieces_and_logits(
    model: MarianMTModel, tokenizer: MarianTokenizer, theirs: Path, ours: Path, pairs: Sequence[tuple[str, str]]
) -> dict[str, Any]:
    """How many sides have the same pieces, and the largest difference between two logits, given the references."""
    rows, stored = read_marian(theirs).vocabularies, load_model(ours)
    assert isinstance(stored.model, EncoderDecoder)
    framing, held = stored.files.framing, torch.tensor([row is not None for row in rows.target])
    order = torch.tensor([row for row in rows.target if row is not None])
    same, furthest, largest = 0, 0.0, 0.0
    for source, target in pairs:
        ids = framing.source(stored.tokenizers.source.encode(source))
        labels = framing.labels(stored.tokenizers.target.encode(target))
        wanted, wanted_labels = tokenizer(source)["input_ids"], tokenizer(text_target=target)["input_ids"]
        same += [rows.source[i] for i in ids] == wanted
        same += [rows.target[i] for i in labels] == wanted_labels
        before = [framing.target_start, *labels[:-1]]
        with torch.inference_mode():
            hidden = stored.model(*(torch.tensor(each) for each in (ids, [len(ids)], before, [len(before)])))
            found = stored.model.project(hidden)[:, held]
            given = torch.tensor([[rows.target[i] for i in before]])
            logits = model(input_ids=torch.tensor([wanted]), decoder_input_ids=given).logits[0, :, order]
        furthest = max(furthest, float((found - logits).abs().max()))
        largest = max(largest, float(logits.abs().max()))
    return {"sides_with_same_pieces": same, "furthest_logits": furthest, "largest_logit": largest}


def texts(
    model: MarianMTModel, tokenizer: MarianTokenizer, ours: Path, pairs: Sequence[tuple[str, str]], beam: int
) -> dict[str, Any]:
    """How many texts are the same, the others with both scores, and the quality of both."""
    translator = dragoman.Translator.load(ours, "cpu", "float32")
    unknown = {"allow_unknown": translator.options.allow_unknown}  # the converted folders say the same
    options = SearchOptions.model_validate({**OPTIONS, **unknown, "beam_size": beam})
    sources, references = zip(*pairs, strict=True)
    found = translator.translate(sources, options)
    wanted = [
        each
        for first in range(0, len(sources), BATCH)
        for each in generated(model, tokenizer, sources[first : first + BATCH], beam)
    ]
    differences = [
        {
            "source": mine.source,
            "ours": mine.text,
            "theirs": text,
            "our_log_prob": mine.log_prob,
            "their_log_prob": score,
        }
        for mine, (text, score) in zip(found, wanted, strict=True)
        if mine.text != text
    ]
    return {
        "same_texts": len(found) - len(differences),
        "differences": differences,
        "ours": bleu_and_chrf([each.text for each in found], [[each] for each in references], "it"),
        "theirs": bleu_and_chrf([text for text, _ in wanted], [[each] for each in references], "it"),
    }


def generated(model: Any, tokenizer: MarianTokenizer, sources: Sequence[str], beam: int) -> list[tuple[str, float]]:
    """Their translations, each with its log-probability."""
    padding = int(model.config.pad_token_id or 0)
    ids = padded(tokenizer(list(sources))["input_ids"], padding)
    with torch.inference_mode():
        made: Any = model.generate(
            input_ids=ids,
            attention_mask=(ids != padding).long(),
            num_beams=beam,
            length_penalty=0.0,
            early_stopping=beam > 1,
            max_length=LONGEST + 1,
            forced_eos_token_id=None,
            do_sample=False,
            output_scores=True,
            return_dict_in_generate=True,
        )
        scores: Any = model.compute_transition_scores(
            made.sequences, made.scores, getattr(made, "beam_indices", None), normalize_logits=beam == 1
        )
    scores = scores.masked_fill(made.sequences[:, 1:] == padding, 0.0).sum(1)
    return list(zip(tokenizer.batch_decode(made.sequences, skip_special_tokens=True), scores.tolist(), strict=True))


def there_and_back(theirs: Path, back: Path, pairs: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Whether transformers loads what came back, with the same ids and logits."""
    before, after = (MarianMTModel.from_pretrained(folder).eval() for folder in (theirs, back))
    tokenizers = [MarianTokenizer.from_pretrained(folder) for folder in (theirs, back)]
    furthest, same = 0.0, 0
    for source, target in pairs:
        ids = [tokenizer(source, text_target=target, return_tensors="pt") for tokenizer in tokenizers]
        same += all(torch.equal(ids[0][name], ids[1][name]) for name in ("input_ids", "labels"))
        with torch.inference_mode():
            logits = [model(**each).logits for model, each in zip((before, after), ids, strict=True)]
        furthest = max(furthest, float((logits[0] - logits[1]).abs().max()))
    return {"pairs_with_same_ids": same, "furthest_logits": furthest}


def sample(folder: Path) -> list[tuple[str, str]]:
    """Test pairs of different sources, evenly spaced, each with its first reference."""
    sides = [(folder / f"test.{side}").read_text("utf-8").splitlines() for side in ("en", "it")]
    pairs = list({source: (source, target) for source, target in zip(*map(reversed, sides), strict=True)}.values())
    pairs.sort(key=lambda pair: (len(pair[0]), pair))
    return [pairs[i * len(pairs) // SENTENCES] for i in range(SENTENCES)]


def measure(folder: Path, data: Path, forms: Sequence[str], tuned: Path | None) -> dict[str, Any]:
    pairs, results = sample(data), {}
    with tempfile.TemporaryDirectory() as aside:
        for form in forms:
            ours, back = Path(aside) / form, Path(aside) / f"{form}-back"
            notes = dragoman.convert(folder / form, ours).notes
            dragoman.export(ours, "huggingface", back)
            results[form] = {
                "notes": notes,
                **compare(folder / form, ours, pairs),
                "there_and_back": there_and_back(folder / form, back, pairs),
            }
        if tuned is not None:
            dragoman.export(tuned, "huggingface", Path(aside) / "tuned")
            results["fine-tuned"] = compare(Path(aside) / "tuned", tuned / "best", pairs)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("make", "compare"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=3.0, help="of training, for each model")
    parser.add_argument("--only", nargs="*", choices=FORMS, default=FORMS)
    parser.add_argument("--tuned", type=Path)
    parser.add_argument("--out", type=figures_file)
    given = parser.parse_args()
    warnings.filterwarnings("ignore", message="Recommended: pip install sacremoses")
    if given.action == "make":
        for form in given.only:
            print(form, make(given.folder / form, given.data, form, given.minutes))
        return
    results = measure(given.folder, given.data, given.only, given.tuned)
    text = json.dumps(
        {"command": command_line(), "machine": describe(), "models": results}, indent=2, ensure_ascii=False
    )
    print(text)
    if given.out is not None:
        given.out.write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    main()
