"""Chooses the column of the text and that of its label: by the user, the training text, the names, or the cells."""

from collections.abc import Sequence

from dragoman.errors import DataError
from dragoman.formats.column_names import TEXT
from dragoman.text.column_statistics import Statistics, measure
from dragoman.text.columns import (
    Columns,
    Naming,
    chosen_columns,
    chosen_positions,
    listed,
    named_column,
    words_in,
)

LABEL = "label"
TEXTS = (
    "text sentence question review utterance comment tweet message query content document body passage headline "
    "title description txt testo texte texto satz frase phrase domanda recensione"
).split()
"""Names of a column of labelled texts, the surest first."""
LABELS = (
    "label labels class category target sentiment topic intent tag polarity rating stars score y etichetta classe "
    "categoria klasse kategorie etiqueta"
).split()
"""Names of a column of labels, the surest first."""
JOINED = " ||| "
"""Separates the texts of columns that are joined."""


def choose_label_columns(names: Sequence[str], rows: Sequence[Sequence[str]], naming: Naming, where: str) -> Columns:
    """Choose the columns of the text and the label. Where neither the user, the training text nor the names decide,
    some rows do: the text is long, and a label has few different values.

    >>> rows = [["1", "I like it.", "good"], ["2", "I hate it so.", "bad"], ["3", "Never again.", "bad"]]
    >>> choose_label_columns(["id", "what", "why"], rows, Naming(), "table.csv")[:3]
    ('what', 'why', "columns 'what' and 'why', by the longest texts and few different values")
    """
    if not any(naming.columns) and (trained := naming.positions_of_trained(names)):
        return Columns.at(names, trained, "the columns of the training text")
    chosen = chosen_positions(names, naming, where)
    if None not in chosen:
        return chosen_columns(names, chosen, naming, where)._replace(reason="columns as given")
    if len(names) < 2:
        raise DataError(f"{where} has one column{listed(names)}; an example needs a text and a label")
    named = [
        named_column(names, known) if at is None else at for at, known in zip(chosen, (TEXTS, LABELS), strict=True)
    ]
    text, label = chosen if named[0] == named[1] else named
    columns = [measure(rows, at) for at in range(len(names))]
    reasons = ["the longest texts"] * (text is None) + ["few different values"] * (label is None)
    text = _longest(columns, label, names, where) if text is None else text
    label = _few_values(columns, text, names, where) if label is None else label
    reason = f"columns {names[text]!r} and {names[label]!r}, by " + (" and ".join(reasons) or "their names")
    left_out = "" if chosen[0] is not None else _left_out(columns, (text, label), names, where)
    return Columns.at(names, (text, label), reason + left_out)


def _longest(columns: Sequence[Statistics], label: int | None, names: Sequence[str], where: str) -> int:
    texts = [at for at, column in enumerate(columns) if at != label and not column.is_numeric]
    if not texts:
        raise DataError(f"{where}: no column holds texts, only numbers; {_name_it(names, TEXT)}")
    return max(texts, key=lambda at: (columns[at].words, columns[at].characters))


def _few_values(columns: Sequence[Statistics], text: int, names: Sequence[str], where: str) -> int:
    fitting = [at for at, column in enumerate(columns) if at != text and column.may_be_labels]
    if len(fitting) == 1:
        return fitting[0]
    advice = _name_it(names, LABEL)
    if fitting:
        raise DataError(f"{where}: several columns may be the label{listed([names[at] for at in fitting])}; {advice}")
    if sum(column.are_texts for column in columns) > 1:
        advice += "; two columns of texts are parallel text, which trains a translator: leave the task out"
    raise DataError(f"{where}: no column has few different values, as labels do; {advice}")


def _name_it(names: Sequence[str], role: str) -> str:
    return f"columns{listed(names)}; name it, or give its number from 1: --set data.{role}_column=NAME"


def _left_out(columns: Sequence[Statistics], taken: tuple[int, int], names: Sequence[str], where: str) -> str:
    """Return a remark on other columns of texts; raise DataError if another one may be meant as well."""
    text = taken[0]
    others = [at for at, column in enumerate(columns) if at not in taken and column.may_join(columns[text])]
    if not others:
        return ""
    named = [at for at in (text, *others) if not set(words_in(names[at])).isdisjoint(TEXTS)]
    joined = "--set data.text_column=" + "+".join(names[at] for at in sorted([text, others[0]]))
    if named == [text]:
        return f"; also of texts, but left out{listed([names[at] for at in others])}: {joined} joins two columns"
    several = listed([names[at] for at in sorted([text, *others])])
    raise DataError(
        f"{where}: several columns hold texts{several}; say which one to read, as in --set "
        f"data.text_column={names[text]}, or join them: {joined}"
    )
