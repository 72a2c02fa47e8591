"""Conditions of the comparison with other toolkits: equal tokens, models that learn, a fair choice of ways."""

import argparse
import math
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest
import torch
import training
from command_line import command_line, figures_file
from peers.contest import Contender, Padded, Shape, Way
from peers.entrants import OURS, TOOLKITS, Entrant, build, entrants
from peers.figures import Heat
from peers.processes import Lost
from peers.runtimes import LOADERS, Runtime
from peers.runtimes import Way as RuntimeWay
from peers.worker import Facts, Run, Turn, take_turn
from small_translators import stored
from training import finalists, flops
from translating import multiply_adds

import dragoman
from dragoman.data.batching import Batch
from dragoman.data.encoding import encode_corpus
from dragoman.model.config import ModelConfig
from dragoman.model.shapes import count_weights
from dragoman.model.transformer import build_model
from dragoman.store.saving import save_model
from dragoman.tokenizing.special_tokens import END, PADDING, START
from dragoman.tokenizing.training import TokenizerSettings, learn_tokenizers

SHAPE = Shape("tiny", 50)
SOURCES, TARGETS = [[7, 8, 9], [10, 11], [12]], [[20, 21], [22, 23, 24, 25], [26]]


def a_batch() -> Batch:
    def rows(sentences: list[list[int]]) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.tensor(list(chain.from_iterable(sentences))), torch.tensor([len(row) for row in sentences])

    source, source_lengths = rows([[START, *row, END] for row in SOURCES])
    target, target_lengths = rows([[START, *row] for row in TARGETS])
    labels, _ = rows([[*row, END] for row in TARGETS])
    return Batch(source, source_lengths, target, labels, target_lengths, torch.arange(3))


def installed() -> Iterator[Entrant]:
    """Yield every way of every contender that needs no package of its own."""
    for name, toolkit in TOOLKITS.items():
        if not toolkit.requires:
            yield from dict.fromkeys([*entrants(name, "float32"), *entrants(name, "bf16")])


def built(entrant: Entrant, steps: int) -> tuple[Contender, list[float]]:
    torch.manual_seed(1)
    contender = build(entrant, [a_batch()], SHAPE)
    return contender, [contender.step(0) for _ in range(steps)]


def test_a_rectangle_holds_the_tokens_of_the_batch_and_padding() -> None:
    padded = Padded.from_batch(a_batch())
    assert padded.source.tolist() == [
        [START, 7, 8, 9, END],
        [START, 10, 11, END, PADDING],
        [START, 12, END, PADDING, PADDING],
    ]
    assert padded.labels[padded.target_mask].tolist() == a_batch().labels.tolist()


@pytest.mark.parametrize("entrant", [*installed()], ids=lambda entrant: entrant.name)
def test_every_way_of_every_installed_contender_begins_without_knowledge_and_learns(entrant: Entrant) -> None:
    _, losses = built(entrant, 12)
    assert abs(losses[0] - math.log(SHAPE.vocabulary)) < 1.5
    assert losses[-1] < losses[0]


def test_a_turn_begins_with_all_its_batches_uncounted() -> None:
    taken: list[int] = []

    def step(number: int) -> float:
        taken.append(number)
        return float(len(taken))

    turn = take_turn(Contender(torch.nn.Identity(), step), [30, 10, 20])
    assert taken == [0, 1, 2] * 3
    assert turn.loss == (7 + 8 + 9) / 3


def test_a_run_leaves_out_the_small_batch_that_an_epoch_has_left_over(tmp_path: Path) -> None:
    pairs = [(f"a {number}", f"b {number}") for number in range(13)]  # three batches of four, and one
    tokenizers = learn_tokenizers(lambda: pairs, TokenizerSettings(kind="word", minimum_frequency=1))
    encode_corpus(pairs, tokenizers, tmp_path / "corpus")
    run = Run(tmp_path / "corpus", 16, 3, SHAPE, torch.get_num_threads())
    assert [batch.size.tokens for batch in run.load()] == [28, 28, 28]
    with pytest.raises(SystemExit, match="fills 3 batches of 16, not 4"):
        run._replace(batches=4).load()


def test_a_peer_takes_the_mean_loss_over_real_tokens() -> None:
    contender, _ = built(entrants("nn.Transformer", "float32")[0], 0)
    padded = Padded.from_batch(a_batch())
    contender.model.eval()  # without dropout the loss of a step is known
    log_prob = contender.model(padded).detach().log_softmax(-1)[padded.target_mask]
    label = padded.labels[padded.target_mask]
    smoothed = 0.9 * log_prob.gather(1, label[:, None]).squeeze(1) + 0.1 * log_prob.mean(-1)
    assert contender.step(0) == pytest.approx(-float(smoothed.mean()), rel=1e-5)


def test_peers_have_both_ways_of_bf16() -> None:
    assert {entrant.way for entrant in entrants("Eole", "bf16")} == {"bf16 weights", "autocast"}
    assert {entrant.way for entrant in entrants(OURS, "bf16")} == {"bf16 weights"}
    assert not any(entrant.is_peer for entrant in entrants(OURS, "bf16"))


def test_the_best_ways_of_each_toolkit_go_on_from_the_heats() -> None:
    speeds: dict[Way, float] = {"autocast": 5.0, "bf16 weights": 6.0, "float32": 1.0}
    heats = [Heat(Entrant("Eole", way), speed) for way, speed in speeds.items()]
    heats += [Heat(Entrant("OpenNMT-py", way), 10 - speed) for way, speed in speeds.items()]
    assert [entrant.way for entrant in finalists(heats[:3], 2)] == ["bf16 weights", "autocast"]
    assert finalists(heats, 1) == [Entrant("Eole", "bf16 weights"), Entrant("OpenNMT-py", "float32")]


def test_ways_of_a_toolkit_take_turns_in_the_heats_and_one_that_fails_is_left_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    played: list[str] = []

    class Played:
        facts = Facts(1, [10])

        def __init__(self, entrant: Entrant, *_: object) -> None:
            self.name, self.speeds = entrant.name, iter([1.0, 5.0, 90.0, 6.0])  # the first warms up

        def turn(self, batches: int) -> Turn:
            if "autocast" in self.name and "sdpa" in self.name:
                raise Lost("no room")
            played.append(self.name)
            return Turn(next(self.speeds), 1.0, None)

        def leave(self) -> None:
            pass

    monkeypatch.setattr(training, "Worker", Played)
    left_out: dict[str, str] = {}
    field = entrants("Hugging Face Marian", "bf16")
    heats = list(training.run_heats(field, Run(tmp_path, 64, 1, SHAPE, 1), left_out))
    assert {heat.tokens_per_second for heat in heats} == {6.0}, "the median, without the first"
    assert len(heats) == 3
    assert left_out == {"tiny, Hugging Face Marian, sdpa, autocast": "no room"}
    assert played[:3] == played[3:6][::-1] == played[6:9] and len(set(played[:3])) == 3


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["/home/me/training.py", "--out=/tmp/x.json"], "training.py --out=x.json"),
        (["training.py", "--data", "../a/train.en", "b/c"], "training.py --data ../a/train.en b/c"),
        (["r.py", "--recipe", "name --set data.folder=/data/new"], "r.py --recipe 'name --set data.folder=new'"),
    ],
)  # fmt: skip
def test_a_command_is_shown_without_the_folders_of_its_machine(words: list[str], shown: str) -> None:
    assert command_line(words) == shown


def test_a_place_that_cannot_hold_figures_is_refused_before_they_are_measured(tmp_path: Path) -> None:
    assert figures_file(str(tmp_path / "new.json")) == tmp_path / "new.json"
    with pytest.raises(argparse.ArgumentTypeError, match="is a folder; name a file"):
        figures_file(str(tmp_path))
    with pytest.raises(argparse.ArgumentTypeError, match="missing is not a folder"):
        figures_file(str(tmp_path / "missing" / "new.json"))


def test_the_work_of_a_token_is_six_flop_for_each_weight_it_meets() -> None:
    model, batch = build_model(SHAPE.config()), a_batch()
    config = SHAPE.config()
    d, f, v, layers = config.d_model, config.d_ff, SHAPE.vocabulary, config.encoder_layers
    source_weights = layers * (4 * d * d + 2 * d * f) + layers * 2 * d * d
    target_weights = layers * (4 * d * d + 2 * d * f) + layers * 2 * d * d + d * v
    tokens = batch.size.source_tokens + batch.size.target_tokens
    expected = 6 * (source_weights * batch.size.source_tokens + target_weights * batch.size.target_tokens) / tokens
    assert flops(model, [batch]) == pytest.approx(expected)


@pytest.mark.parametrize("runtime", ["dragoman", "ctranslate2"])
def test_a_search_from_tokens_writes_what_is_written_from_text(runtime: Runtime, tmp_path: Path) -> None:
    model = folder = tmp_path / "model"
    translator = stored("bpe")
    save_model(model, translator.model, translator.files)
    if runtime == "ctranslate2":
        pytest.importorskip(runtime)
        dragoman.export(model, runtime, folder := tmp_path / runtime)
    loaded = LOADERS[runtime](RuntimeWay(runtime, "float32", folder, threads=1), model)
    assert loaded.prepare is not None
    texts = ["the cat sees the dog", "where is the station", "water"]
    for beam_size in (1, 4):
        whole, alone = loaded.translate(texts, beam_size), loaded.prepare(texts, beam_size)()
        assert sorted(output.tokens for output in whole) == sorted(output.tokens for output in alone)


def test_every_weight_of_a_matrix_is_multiplied_once() -> None:
    sizes = {"d_model": 16, "heads": 2, "d_ff": 24, "encoder_layers": 2, "decoder_layers": 3}
    config = ModelConfig.model_validate({"preset": "modern", "tied": "all", **sizes})
    config = config.but(source_vocabulary=40, target_vocabulary=40)
    norms = 2 * 2 + 3 * 3 + 2
    assert sum(multiply_adds(config)) == count_weights(config) - norms * 16
