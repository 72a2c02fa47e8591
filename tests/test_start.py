"""Starting: `import dragoman` and `dragoman --help` load nothing heavy, a first translation only what it needs, and the
public names are all there.
"""

import ast
import importlib
import importlib.util
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile
from zipimport import zipimporter

import pytest
from compiler import needs_compiler
from small_translators import stored

import dragoman
from dragoman.store.saving import save_model
from dragoman.surface.learning import learn_pair_conventions

HEAVY = ("torch", "numpy", "tokenizers", "pydantic", "sacrebleu", "jaxtyping", "tomlkit")
UNNEEDED = (
    *("torch", "tomlkit", "sacrebleu", "regex", "markdown_it", "xml", "http", "huggingface_hub", "sentencepiece"),
    *("jaxtyping", "unittest", "asyncio", "ssl", "py3langid", "langcodes"),
    *("multiprocessing", "fastapi", "ray", "spacy", "dragoman.cluster", "dragoman.data", "dragoman.serving"),
    *("dragoman.training", "dragoman.evaluating.metrics", "dragoman.runs.recipe", "dragoman.inference.predictor"),
    *("dragoman.model.transformer", "dragoman.store.saving", "dragoman.text.readers", "dragoman.text.report"),
    *(
        "dragoman.tokenizing.training",
        "dragoman.formats.document",
        "dragoman.formats.rows",
        "dragoman.compiled.kernels",
    ),
)
"""Modules that no translation of lines needs, in Python or on the command line."""
TRACE = """
import builtins, logging, sys
logging.disable()  # rich draws warnings about the translation
plain_import, importers = builtins.__import__, {}

def traced_import(name, importer=None, *given, **named):
    before = set(sys.modules)
    try:
        return plain_import(name, importer, *given, **named)
    finally:
        for new in set(sys.modules) - before:
            importers.setdefault(new, (importer or {}).get("__name__"))

def chain(name):
    return f"{name} < {chain(importers[name])}" if name in importers else str(name)

builtins.__import__ = traced_import
"""


def loaded_by(code: str) -> list[str]:
    """Return the heavy packages that a new process has loaded after `code`."""
    report = f"import sys; print('\\n' + ' '.join(name for name in {HEAVY!r} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", f"{code}\n{report}"], capture_output=True, text=True, check=True)
    return done.stdout.rsplit("\n", 2)[1].split()


def test_importing_the_package_loads_nothing_heavy() -> None:
    assert loaded_by("import dragoman") == []


@pytest.mark.parametrize("arguments", [[], ["--help"], ["--version"]])
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    assert loaded_by(f"from dragoman.cli.main import main; main({arguments!r})") == []


@pytest.mark.parametrize("arguments", [["train", "--help"], ["translate", "--beem"], ["tranlate"]])
def test_a_command_asked_for_help_or_misspelt_loads_no_more_than_typer_does(arguments: list[str]) -> None:
    assert loaded_by(f"from dragoman.cli.main import main; main({arguments!r})") == ["pydantic"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Save a model whose training text has the words of the sentence that is translated."""
    folder, small = tmp_path_factory.mktemp("models") / "model", stored("bpe")
    conventions = learn_pair_conventions([("The cat sees the dog.", "Il gatto vede il cane.")] * 9)
    save_model(folder, small.model, small.files._replace(conventions=conventions))
    return folder


@needs_compiler
@pytest.mark.parametrize(
    ("start", "unneeded"),
    [
        (
            "import dragoman; dragoman.Translator.load({model!r}, 'cpu').translate(['The dog sees the cat.'])",
            (*UNNEEDED, "typer"),
        ),
        ("from dragoman.cli.main import main; main(['translate', {model!r}, '--quiet'])", (*UNNEEDED, "rich")),
        (
            "from dragoman.cli.main import main; main(['translate', {model!r}, 'The dog sees the cat.', '--quiet'])",
            (*UNNEEDED, "rich"),
        ),
    ],
)
def test_a_first_translation_loads_only_what_it_needs(start: str, unneeded: tuple[str, ...], model: Path) -> None:
    report = f"sys.stderr.write('\\n'.join(chain(name) for name in {unneeded!r} if name in sys.modules))"
    code = f"{TRACE}\n{start.format(model=str(model))}\n{report}"
    done = subprocess.run(
        [sys.executable, "-c", code], input="The dog sees the cat.", capture_output=True, text=True, check=True
    )
    assert done.stderr == "", "unneeded modules, each with its importers"


@needs_compiler
def test_a_first_translation_reads_no_source(model: Path) -> None:
    """Descriptions of settings are in the source."""
    start = f"import dragoman; dragoman.Translator.load({str(model)!r}, 'cpu').translate(['The dog sees the cat.'])"
    report = "import linecache; print([file for file in linecache.cache if 'dragoman' in file])"
    done = subprocess.run([sys.executable, "-c", f"{start}\n{report}"], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["[]"]


def test_the_module_runs_as_the_command_does() -> None:
    done = subprocess.run([sys.executable, "-m", "dragoman", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"dragoman {dragoman.__version__}\n"


def test_the_names_that_type_checkers_see_are_those_that_resolve() -> None:
    tree = ast.parse(Path(dragoman.__file__).with_suffix(".pyi").read_text("utf-8"))
    checked = {
        alias.name: str(node.module) for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    assert sorted(dragoman.__all__) == dir(dragoman) == sorted(checked)
    for name, module in checked.items():
        assert getattr(dragoman, name) is getattr(importlib.import_module(module), name)


def test_public_names_resolve_in_a_package_inside_a_zip_file(tmp_path: Path) -> None:
    """As in a zipapp, where a package cannot open its own files."""
    archive = tmp_path / "app.zip"
    with ZipFile(archive, "w") as zipped:
        for suffix in (".py", ".pyi"):
            zipped.write(Path(dragoman.__file__).with_suffix(suffix), f"dragoman/__init__{suffix}")
    spec = zipimporter(str(archive)).find_spec("dragoman")
    assert spec is not None and spec.loader is not None
    inside = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(inside)
    assert inside is not dragoman and "app.zip" in (inside.__file__ or "")
    assert sorted(inside.__all__) == dir(inside) == sorted(dragoman.__all__)
    for public in inside.__all__:
        assert getattr(inside, public) is getattr(dragoman, public)


def test_an_unknown_name_is_refused_as_python_does() -> None:
    with pytest.raises(AttributeError, match="no attribute 'tranlate'"):
        dragoman.tranlate  # noqa: B018  # pyright: ignore[reportAttributeAccessIssue]


@needs_compiler
def test_a_server_translates_without_torch(model: Path) -> None:
    code = f"""
from dragoman.serving.app import create_app
from dragoman.serving.service import Service
service = Service([{str(model)!r}])
service.load()
create_app(service)
with service.job() as job:
    service.translate(["The dog sees the cat."], "en", "it", job)
"""
    assert "torch" not in loaded_by(code)
