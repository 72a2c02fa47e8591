"""LibreTranslate itself, serving a model of ours, with its own defaults.

    python benchmarks/peers/libretranslate_server.py FOLDER PORT SOURCE TARGET

FOLDER is an export for CTranslate2, from which this makes an Argos package. It differs from Argos's own in two things.
The model's own tokenizer cuts the text, because Argos knows only SentencePiece and subword-nmt. And spaCy's rules split
sentences, one of the ways that Argos offers, because the models of its other ways are downloads.
"""

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path


def make_packages(exported: Path, packages: Path, languages: Sequence[str]) -> None:
    """Make a package for each direction: with fewer than two, LibreTranslate wants to download all of Argos's."""
    import spacy

    for source, target in (languages, languages[::-1]):
        package = packages / f"{source}_{target}"
        shutil.copytree(exported, package / "model")
        spacy.blank("en").to_disk(package / "spacy")
        (package / "sentencepiece.model").touch()
        facts = {"from_code": source, "from_name": source, "to_code": target, "to_name": target}
        (package / "metadata.json").write_text(json.dumps({**facts, "package_version": "1.0", "argos_version": "1.0"}))


def use_our_tokenizer(exported: Path) -> None:
    """Let Argos cut text by the rules of the exported model."""
    sys.path.insert(0, str(exported))
    from argostranslate import package, tokenizer
    from translate import text_rules  # pyright: ignore[reportMissingImports]

    class Own(tokenizer.Tokenizer):
        def __init__(self, _file: Path) -> None:
            self.encode, self.decode = text_rules(exported)

    package.SentencePieceTokenizer = Own


def main() -> None:
    folder, port, *languages = sys.argv[1:]
    with tempfile.TemporaryDirectory() as home:  # a killed process leaves it to its parent
        for kind in ("DATA", "CONFIG", "CACHE"):
            os.environ[f"XDG_{kind}_HOME"] = home
        os.environ["ARGOS_CHUNK_TYPE"] = "SPACY"
        # If its cache seems to hold spaCy's model, Argos downloads none and uses that of the package.
        downloaded = Path(home, "argos-translate", "spacy", "senter", "model")
        downloaded.parent.mkdir(parents=True)
        downloaded.touch()
        make_packages(Path(folder), Path(home, "argos-translate", "packages"), languages)
        use_our_tokenizer(Path(folder))
        from libretranslate.main import main as serve

        sys.argv = ["libretranslate", "--port", port, "--disable-web-ui"]
        serve()


if __name__ == "__main__":
    main()
