"""DeepL's API, as the official Python client speaks it: every call for text, languages, usage and glossaries."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from live_server import live_server, write_key

import dragoman
from dragoman.cli.train import FINISHED
from dragoman.serving import glossaries as ours
from dragoman.serving.keys import create_key
from dragoman.serving.limits import Limits

deepl = pytest.importorskip("deepl")
Entries = deepl.api_data.MultilingualGlossaryDictionaryEntries
STATION = "Where is the station?"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve with one key, `any`, because glossaries belong to a key."""
    path = tmp_path_factory.mktemp("keys") / "keys.json"
    write_key(path, "any")
    with live_server(keys=path) as url:
        yield url


def ask(method: str, where: str, **fields: Any) -> httpx.Response:
    headers = {"Authorization": "DeepL-Auth-Key any", **fields.pop("headers", {})}
    return httpx.request(method, where, headers=headers, timeout=60, **fields)


@contextmanager
def deepl_client(key: str, url: str) -> Iterator[Any]:
    with closing(deepl.DeepLClient(key, server_url=url)) as client:
        yield client


@pytest.fixture
def client(url: str) -> Iterator[Any]:
    with deepl_client("any", url) as client:
        yield client


def test_texts_are_what_translate_writes(client: Any):
    texts = [STATION, "Thank you.", "I would like two coffees.\nWhere is the bank?"]
    found = client.translate_text(texts, source_lang="EN", target_lang="IT")
    translator = dragoman.Translator.load(FINISHED)
    assert [each.text for each in found] == [
        "\n".join(part.text for part in translator.translate(text.split("\n"))) for text in texts
    ]
    assert [each.detected_source_lang for each in found] == ["EN"] * 3
    assert [each.billed_characters for each in found] == list(map(len, texts))
    assert all(each.model_type_used is None for each in found)


def test_a_language_that_is_not_named_is_detected(client: Any):
    assert client.translate_text(STATION, target_lang="it").detected_source_lang == "EN"
    with pytest.raises(deepl.DeepLException, match="seems to be in German"):
        client.translate_text("Wo ist denn heute Abend der Bahnhof?", target_lang="IT")


def test_texts_in_other_languages_are_left_as_they_are(client: Any):
    texts = ["Wo ist denn heute\nder Bahnhof?", STATION, "Dov'è la stazione,\nper favore?"]
    found = client.translate_text(texts, target_lang="IT", split_sentences="nonewlines")
    assert [each.text for each in found] == [texts[0], "Dov'è la stazione?", texts[2]]
    assert [each.detected_source_lang for each in found] == ["DE", "EN", "IT"]


def test_everything_that_changes_nothing_here_is_taken(client: Any):
    plain = client.translate_text(STATION, source_lang="EN-GB", target_lang="IT")
    for model_type, used in (
        (deepl.ModelType.PREFER_QUALITY_OPTIMIZED, "quality_optimized"),
        (deepl.ModelType.LATENCY_OPTIMIZED, "latency_optimized"),
    ):
        found = client.translate_text(
            STATION,
            source_lang="EN",
            target_lang="IT",
            context="We are in town.",
            formality=deepl.Formality.PREFER_MORE,
            model_type=model_type,
            preserve_formatting=True,
            extra_body_parameters={"enable_beta_languages": True},
        )
        assert (found.text, found.model_type_used) == (plain.text, used)


@pytest.mark.parametrize("kind", ["html", "xml"])
def test_tags_stay_around_their_words(client: Any, kind: str):
    asked = {"source_lang": "EN", "target_lang": "IT", "tag_handling": kind, "tag_handling_version": "v2"}
    found = client.translate_text("<p>Where is the <b>station</b>?</p>", **asked)
    assert found.text == "<p>Dov'è la <b>stazione</b>?</p>"


@pytest.mark.parametrize(
    ("text", "ignored", "expected"),
    [
        ("Where is the <g1>station</g1>?", None, "Dov'è la <g1>stazione</g1>?"),
        (
            "<D><T>Thank you.</T><p>Where is the station?</p></D>",
            None,
            "<D><T>Grazie.</T><p>Dov'è la stazione?</p></D>",
        ),
        ('<x id="7"></x> Thank you. <x>Thank you.</x>', ["X"], '<x id="7"></x> Grazie. <x>Thank you.</x>'),
        ('<x title="Thank you."/>Thank you.', "x,y", '<x title="Thank you."/>Grazie.'),
        ("Thank you. <code>Thank you.</code>", None, "Grazie. <code>Grazie.</code>"),
        ("Where is the sta<x/>tion?", None, "Dov'è la stazione<x/>?"),
        ("Where is the sta<x></x>tion?", None, "Dov'è la <x></x>stazione?"),
        ("Where is the sta<!-- x -->tion?", None, "Dov'è la stazione<!-- x -->?"),
        ('Where is the sta<x id="7"></x>tion?', ["x"], 'Dov\'è la stazione<x id="7"></x>?'),
    ],
)
def test_tags_of_xml_are_inline_beside_words_and_some_keep_their_content(
    client: Any, text: str, ignored: Any, expected: str
):
    asked = {"source_lang": "EN", "target_lang": "IT", "tag_handling": "xml", "ignore_tags": ignored}
    assert client.translate_text(text, **asked).text == expected


def test_newlines_end_a_sentence_unless_split_sentences_says_otherwise(client: Any):
    def lines(split: Any) -> int:
        text = client.translate_text("Where is\nthe station?", target_lang="IT", split_sentences=split).text
        return len(text.splitlines())

    Split = deepl.SplitSentences  # noqa: N806
    assert [lines(split) for split in (None, Split.ALL, Split.NO_NEWLINES, Split.OFF)] == [2, 2, 1, 1]


def test_sentences_that_are_not_split_are_translated_together(client: Any, monkeypatch: pytest.MonkeyPatch):
    splits: list[str] = []
    read = dragoman.Translator.read

    def watched(translator: Any, texts: Any, options: Any) -> Any:
        splits.append(options.split)
        return read(translator, texts, options)

    monkeypatch.setattr(dragoman.Translator, "read", watched)
    for split in ("1", "nonewlines", "0"):
        client.translate_text("Thank you. Where is the bank?", target_lang="IT", split_sentences=split)
    assert splits == ["sentence", "sentence", "long"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"formality": "more"}, "Target language IT does not support formality here"),
        ({"formality": "kind"}, "Value for 'formality' not supported"),
        ({"ignore_tags": ["x"]}, "does not support ignore_tags without tag_handling=xml"),
        ({"ignore_tags": "x", "tag_handling": "html"}, "does not support ignore_tags without tag_handling=xml"),
        ({"splitting_tags": "x,y"}, "does not support splitting_tags"),
        ({"non_splitting_tags": "x"}, "does not support non_splitting_tags"),
        ({"outline_detection": False}, "does not support outline_detection=false"),
        ({"style_rule": "some"}, "does not support style_id"),
        ({"custom_instructions": ["Be kind."]}, "does not support custom_instructions"),
        ({"translation_memory": "some"}, "does not support translation_memory_id"),
        ({"tag_handling": "markdown"}, "Value for 'tag_handling' not supported"),
        ({"split_sentences": "2"}, "split_sentences"),
        ({"model_type": "best"}, "model_type"),
        ({"target_lang": "DE"}, "Value for 'target_lang' not supported: no model here translates into DE"),
        ({"source_lang": "DE"}, "Value for 'source_lang' not supported: no model here translates from DE"),
        ({"source_lang": "IT"}, "Value for 'source_lang' not supported"),
        ({"target_lang": "no language"}, "target_lang"),
    ],
)
def test_what_is_not_offered_is_refused_by_name(client: Any, given: dict[str, Any], message: str):
    with pytest.raises(deepl.DeepLException, match=f"Bad request, message: .*{message}") as caught:
        client.translate_text(STATION, **{"source_lang": "EN", "target_lang": "IT", **given})
    assert caught.value.http_status_code == 400


@pytest.mark.parametrize(
    ("call", "path"),
    [
        (lambda client: client.rephrase_text("Hello"), "/v2/write/rephrase"),
        (lambda client: client.get_all_style_rules(), "/v3/style_rules"),
        (lambda client: client.list_translation_memories(), "/v3/translation_memories"),
    ],
)
def test_what_deepl_has_besides_is_refused_by_name(client: Any, call: Callable[[Any], Any], path: str):
    with pytest.raises(deepl.DeepLException, match=f"does not support {path}") as caught:
        call(client)
    assert caught.value.http_status_code == 404


def test_languages_have_names_and_say_that_there_is_no_formality(client: Any):
    assert [vars(each) for each in client.get_source_languages()] == [
        {"code": "EN", "name": "English", "supports_formality": None}
    ]
    assert [vars(each) for each in client.get_target_languages()] == [
        {"code": "IT", "name": "Italian", "supports_formality": False}
    ]
    assert [(pair.source_lang, pair.target_lang) for pair in client.get_glossary_languages()] == [("en", "it")]


def test_a_client_that_calls_nothing_json_is_answered(url: str):
    answer = ask("GET", f"{url}/v2/languages?type=target", headers={"content-type": "application/json"})
    assert answer.json() == [{"language": "IT", "name": "Italian", "supports_formality": False}]


def test_usage_counts_characters_and_has_no_end(client: Any):
    before = client.get_usage().character.count
    client.translate_text(["Thank you.", "Hi"], target_lang="IT")
    with pytest.raises(deepl.DeepLException, match="no model here translates into DE"):
        client.translate_text("This is not translated.", target_lang="DE", source_lang="EN")
    after = client.get_usage()
    assert after.character.count - before == len("Thank you.Hi")
    assert after.character.valid and not after.any_limit_reached


def test_a_glossary_is_made_used_read_and_deleted(client: Any):
    made = client.create_glossary("Stops", "EN", "IT", {"station": "fermata", "two": "un paio di"})
    assert (made.name, made.ready, made.source_lang, made.target_lang) == ("Stops", True, "EN", "IT")
    assert made.entry_count == 2
    assert abs((datetime.now(UTC) - made.creation_time).total_seconds()) < 600
    assert client.get_glossary_entries(made) == {"station": "fermata", "two": "un paio di"}
    assert vars(client.get_glossary(made.glossary_id)) == vars(made)
    assert made.glossary_id in [each.glossary_id for each in client.list_glossaries()]
    assert client.translate_text_with_glossary(STATION, made).text == "Dov'è la fermata?"
    client.delete_glossary(made)
    for call in (client.get_glossary, client.get_glossary_entries, client.delete_glossary):
        with pytest.raises(deepl.GlossaryNotFoundException, match="no glossary with this id"):
            call(made.glossary_id)


def test_a_multilingual_glossary_grows_and_shrinks(client: Any):
    made = client.create_multilingual_glossary("Stops", [Entries("EN", "IT", {"station": "fermata"})])
    (dictionary,) = made.dictionaries
    assert (dictionary.source_lang, dictionary.target_lang, dictionary.entry_count) == ("EN", "IT", 1)
    asked = {"source_lang": "EN", "target_lang": "IT"}
    assert client.translate_text(STATION, glossary=made, **asked).text == "Dov'è la fermata?"
    changed = Entries("EN", "IT", {"Bank": "cassa", "station": "scalo"})
    assert client.update_multilingual_glossary_dictionary(made, changed).name == "Stops"
    (found,) = client.get_multilingual_glossary_entries(made, "en", "it").dictionaries
    assert found.entries == "station\tscalo\nBank\tcassa"
    assert client.update_multilingual_glossary_name(made, "Other").name == "Other"
    replaced = client.replace_multilingual_glossary_dictionary(made, Entries("EN", "IT", {"bank": "riva"}))
    assert (replaced.source_lang, replaced.target_lang, replaced.entry_count) == ("EN", "IT", 1)
    listed = [each for each in client.list_multilingual_glossaries() if each.glossary_id == made.glossary_id]
    assert [(each.name, each.dictionaries[0].entry_count) for each in listed] == [("Other", 1)]
    client.delete_multilingual_glossary_dictionary(made, source_lang="EN", target_lang="IT")
    assert client.get_multilingual_glossary(made.glossary_id).dictionaries == []
    with pytest.raises(deepl.GlossaryNotFoundException, match="no entries for en to it"):
        client.get_multilingual_glossary_entries(made, "EN", "IT")
    client.delete_multilingual_glossary(made)
    with pytest.raises(deepl.GlossaryNotFoundException):
        client.get_multilingual_glossary(made.glossary_id)


def test_dictionaries_of_two_regions_do_not_replace_each_other(client: Any):
    both = [Entries("EN-GB", "IT", {"tube": "metro"}), Entries("EN-US", "IT", {"subway": "metro"})]
    with pytest.raises(deepl.DeepLException, match="regions such as en-GB and en-US share a dictionary"):
        client.create_multilingual_glossary("Stops", both)
    assert not client.list_multilingual_glossaries()


def test_of_several_glossaries_the_first_decides(client: Any):
    glossaries = [client.create_glossary("some", "en", "it", {"Station": form}) for form in ("fermata", "scalo")]
    found = client.translate_text(STATION, source_lang="EN", target_lang="IT", glossary_ids=glossaries)
    assert found.text == "Dov'è la fermata?"
    for glossary in glossaries:
        client.delete_glossary(glossary)


def test_a_term_is_found_however_its_accents_are_encoded(client: Any):
    glossary = client.create_glossary("some", "en", "it", {"Caf\u00e9": "chiosco"})
    asked = {"source_lang": "EN", "target_lang": "IT", "glossary": glossary}
    found = [client.translate_text(f"Where is the {word}?", **asked).text for word in ("cafe\u0301", "caf\u00e9")]
    assert ["chiosco" in text for text in found] == [True, True]
    client.delete_glossary(glossary)


def test_terms_that_differ_in_case_are_two_entries(client: Any):
    made = client.create_glossary("some", "en", "it", {"Station": "scalo", "station": "fermata"})
    assert made.entry_count == 2
    asked = {"source_lang": "EN", "target_lang": "IT", "glossary": made}
    for word, form in (("Station", "scalo"), ("station", "fermata")):
        text = client.translate_text(f"Where is the {word}?", **asked).text
        assert form in text and not ({"scalo", "fermata"} - {form}) & {*text.strip("?").split()}
    client.delete_glossary(made)


def test_a_glossary_may_have_ten_thousand_entries(client: Any):
    entries = {f"Source-{number}": f"Target-{number}" for number in range(10_000)} | {"station": "fermata"}
    made = client.create_glossary("some", "en", "it", entries)
    assert made.entry_count == 10_001 and client.get_glossary_entries(made) == entries
    assert client.translate_text_with_glossary(STATION, made).text == "Dov'è la fermata?"
    client.delete_glossary(made)


def test_csv_is_read_with_quotes_and_with_codes_of_languages(client: Any):
    made = client.create_glossary_from_csv("some", "en", "it", '"a, b",c,en,it\n\nd,"e ""f"""\n')
    assert client.get_glossary_entries(made) == {"a, b": "c", "d": 'e "f"'}
    client.delete_glossary(made)


@pytest.mark.parametrize(
    ("entries", "kind", "message"),
    [
        ("", "tsv", "must have entries"),
        ("station", "tsv", "a term and its translation, but one is"),
        ("a\tb\tc", "tsv", "a term and its translation, but one is"),
        ("station\t ", "tsv", "'station' has no translation"),
        ("a\tb\na\tc", "tsv", "two different ones"),
        ("a,b\x07", "csv", "a term and its translation, but one is"),
        ('"a,b', "csv", "are not csv"),
        ("a\tb", "xml", "entries_format"),
    ],
)
def test_entries_that_are_none_are_refused(url: str, entries: str, kind: str, message: str):
    given = {"name": "some", "source_lang": "en", "target_lang": "it", "entries": entries, "entries_format": kind}
    answer = ask("POST", f"{url}/v2/glossaries", json=given)
    assert answer.status_code == 400 and message in answer.json()["message"]


def test_a_glossary_needs_languages_that_are_translated_and_a_source(client: Any, url: str):
    with pytest.raises(deepl.DeepLException, match="no model here translates en to ja|EN to JA"):
        client.create_glossary("some", "en", "ja", {"a": "b"})
    made = client.create_glossary("some", "en", "it", {"a": "b"})
    given = {"text": ["Hi"], "target_lang": "IT", "glossary_id": made.glossary_id}
    answer = ask("POST", f"{url}/v2/translate", json=given)
    assert (answer.status_code, answer.json()) == (400, {"message": "with a glossary, source_lang must be given"})
    client.delete_glossary(made)


def test_glossaries_end_where_the_room_does(client: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ours, "MOST_CHARACTERS", 250)
    made = client.create_glossary("some", "en", "it", {"a": "b", "c": "d"})
    with pytest.raises(deepl.QuotaExceededException, match="limit for glossaries is exceeded"):
        client.create_glossary("too much", "en", "it", {"e": "f"})
    assert "too much" not in [each.name for each in client.list_glossaries()]
    client.delete_glossary(made)
    client.delete_glossary(client.create_glossary("some", "en", "it", {"e": "f"}))
    monkeypatch.setattr(ours, "MOST_GLOSSARIES", 0)
    with pytest.raises(deepl.QuotaExceededException):
        client.create_glossary("some", "en", "it", {"e": "f"})


def test_glossaries_and_usage_belong_to_a_key(tmp_path: Path):
    path = tmp_path / "keys.json"
    keys = [create_key(path, name) for name in ("anna", "ben")]
    with live_server(keys=path) as url, deepl_client(keys[0], url) as anna, deepl_client(keys[1], url) as ben:
        made = anna.create_glossary("some", "en", "it", {"station": "fermata"})
        assert (
            anna.translate_text(STATION, source_lang="EN", target_lang="IT", glossary=made).text == "Dov'è la fermata?"
        )
        assert [len(each.list_glossaries()) for each in (anna, ben)] == [1, 0]
        assert [each.get_usage().character.count for each in (anna, ben)] == [len(STATION), 0]
        for call in (ben.get_glossary, ben.delete_glossary):
            with pytest.raises(deepl.GlossaryNotFoundException):
                call(made.glossary_id)


def test_refusals_have_the_statuses_that_clients_know(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(deepl.http_client, "max_network_retries", 0)
    key = create_key(tmp_path / "keys.json", "anna")
    limits = Limits(body_bytes=300, texts=2, requests_a_minute=20)
    with live_server(limits, keys=tmp_path / "keys.json") as url:
        with deepl_client("wrong", url) as client, pytest.raises(deepl.AuthorizationException, match="not valid"):
            client.get_usage()
        with deepl_client(key, url) as client:
            for texts in (["x" * 301], ["Hi"] * 3):
                with pytest.raises(deepl.DeepLException, match="413") as caught:
                    client.translate_text(texts, source_lang="EN", target_lang="IT")
                assert caught.value.http_status_code == 413

            def ask_without_end() -> None:
                while True:
                    client.list_multilingual_glossaries()

            with pytest.raises(deepl.TooManyRequestsException, match="message: too many requests"):
                ask_without_end()


def test_a_form_says_the_same_as_json(url: str):
    given = {"text": [STATION, "Thank you."], "source_lang": "EN", "target_lang": "IT", "show_billed_characters": "1"}
    where = f"{url}/v2/translate"
    answers = [ask("POST", where, json=given).json(), ask("POST", where, data=given).json()]
    assert answers[0] == answers[1]
    assert answers[0]["translations"][1] == {
        "detected_source_language": "EN",
        "text": "Grazie.",
        "billed_characters": 10,
    }


def test_empty_fields_count_as_absent_and_older_clients_send_the_key_in_a_field(url: str):
    fields = {"text": STATION, "target_lang": "IT", "source_lang": "", "formality": "", "tag_handling": ""}
    answer = httpx.post(f"{url}/v2/translate", data={**fields, "auth_key": "any"}, timeout=60)
    assert answer.json() == {"translations": [{"detected_source_language": "EN", "text": "Dov'è la stazione?"}]}


def test_a_text_may_be_as_long_as_the_body(tmp_path: Path):
    with live_server(Limits(characters=20, work=100)) as url:
        fields = {"text": " ".join([STATION] * 20), "target_lang": "IT", "source_lang": "EN"}
        (answer,) = httpx.post(f"{url}/v2/translate", json=fields, timeout=60).json()["translations"]
        assert answer["text"] == " ".join(["Dov'è la stazione?"] * 20)
        assert httpx.post(f"{url}/translate", json={"q": STATION, "source": "en", "target": "it"}).status_code == 413


def test_glossaries_have_the_fields_of_their_version_and_no_others(url: str):
    dictionary = {"source_lang": "en", "target_lang": "it", "entries": "a\tb", "entries_format": "tsv"}
    label = {"glossary_id", "name", "creation_time"}
    for version, given, fields in (
        (2, {"name": "some", **dictionary}, {*label, "ready", "source_lang", "target_lang", "entry_count"}),
        (3, {"name": "some", "dictionaries": [dictionary]}, {*label, "dictionaries"}),
    ):
        made = ask("POST", f"{url}/v{version}/glossaries", json=given)
        assert made.status_code == 201 and made.json().keys() == fields
        where = f"{url}/v{version}/glossaries/{made.json()['glossary_id']}"
        assert ask("GET", where).json() == made.json()
        assert made.json() in ask("GET", f"{url}/v{version}/glossaries").json()["glossaries"]
        found = ask("GET", f"{where}/entries", params={"source_lang": "EN", "target_lang": "IT"})
        if version == 2:
            assert (found.text, found.headers["content-type"].partition(";")[0]) == (
                "a\tb",
                "text/tab-separated-values",
            )
        else:
            assert found.json() == {"dictionaries": [dictionary]}
        gone = ask("DELETE", where)
        assert (gone.status_code, gone.content) == (204, b"")


def test_every_reference_of_the_schema_leads_somewhere(url: str):
    schema = ask("GET", f"{url}/openapi.json").json()
    names = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(schema)))
    assert "Dictionary" in names and names <= schema["components"]["schemas"].keys()
    assert not re.search(r'"\$ref": "(?!#/components/schemas/\w+")', json.dumps(schema))
