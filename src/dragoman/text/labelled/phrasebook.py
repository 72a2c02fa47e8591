"""The phrasebook with labels: the topic of each English sentence, or the part of speech of each of its words."""

from dragoman.errors import DataError
from dragoman.text.inputs import DataSettings
from dragoman.text.labelled.examples import Example, Task
from dragoman.text.phrasebook.generate import Sentence, sentences
from dragoman.text.phrasebook.parts_of_speech import tag_words


def labelled_phrasebook(settings: DataSettings, task: Task) -> dict[str, list[Example]]:
    """The four sets of the phrasebook; training never sees a pattern of `new_patterns`.

    Raises:
        DataError: the settings name other sets, or columns.
    """
    for name in ("dev_path", "test_path", "dev_size", "test_size", "text_column", "label_column"):
        if getattr(settings, name) is not None:
            raise DataError(f"the phrasebook brings its own sets and labels; leave data.{name} out")
    return {name: [_example(sentence, task) for sentence in made] for name, made in sentences()._asdict().items()}


def _example(sentence: Sentence, task: Task) -> Example:
    file, _, pattern_line = sentence.pair.origin.rpartition(":")
    if task == "classify":
        return Example((sentence.pair.source,), (sentence.pattern.topic,), file, (int(pattern_line),))
    fillers = dict(zip(sentence.pattern.slots, sentence.lexemes, strict=True))
    words, tags = tag_words(sentence.pattern.english, fillers)
    return Example(tuple(words), tuple(tags), file, (int(pattern_line),) * len(words))
