"""The public names of Dragoman, each with the module in which it lives; `__init__.py` reads this list."""

from dragoman.cli.bars import Bars as Bars
from dragoman.cluster.bulk import score_shards as score_shards
from dragoman.cluster.bulk import translate_shards as translate_shards
from dragoman.cluster.preparing import prepare_shards as prepare_shards
from dragoman.curating.asking import distil_service as distil_service
from dragoman.curating.filtering import filter_pairs as filter_pairs
from dragoman.curating.translating import back_translate as back_translate
from dragoman.curating.translating import distil as distil
from dragoman.errors import Error as Error
from dragoman.evaluating.document_report import report_documents as report_documents
from dragoman.evaluating.evaluation import evaluate as evaluate
from dragoman.evaluating.pairs import score as score
from dragoman.evaluating.speed import benchmark as benchmark
from dragoman.explaining.embeddings import load_embeddings as load_embeddings
from dragoman.explaining.recording import explain_choice as explain_choice
from dragoman.explaining.recording import record as record
from dragoman.explaining.writing import write_record as write_record
from dragoman.exporting.export import export as export
from dragoman.inference.documents import Summary as Summary
from dragoman.inference.documents import translate_document as translate_document
from dragoman.inference.documents import translate_lines as translate_lines
from dragoman.inference.folders import FolderFile as FolderFile
from dragoman.inference.folders import translate_folder as translate_folder
from dragoman.inference.generator import Generator as Generator
from dragoman.inference.generator import generate as generate
from dragoman.inference.options import GenerateOptions as GenerateOptions
from dragoman.inference.options import SearchOptions as SearchOptions
from dragoman.inference.predictor import Predictor as Predictor
from dragoman.inference.predictor import predict as predict
from dragoman.inference.translator import Translator as Translator
from dragoman.inference.translator import translate as translate
from dragoman.memory import keep_freed_memory as keep_freed_memory
from dragoman.runs.compare import compare as compare
from dragoman.runs.fine_tune import fine_tune as fine_tune
from dragoman.runs.fine_tune import forecast_fine_tune as forecast_fine_tune
from dragoman.runs.forecast import forecast as forecast
from dragoman.runs.installation import doctor as doctor
from dragoman.runs.installation import find_guide as find_guide
from dragoman.runs.quantize import quantize as quantize
from dragoman.runs.recipe import Recipe as Recipe
from dragoman.runs.recipe import list_settings as list_settings
from dragoman.runs.report import report as report
from dragoman.runs.status import list_runs as list_runs
from dragoman.runs.train import train as train
from dragoman.runs.train import train_seeds as train_seeds
from dragoman.store.convert import convert as convert
from dragoman.store.folder import load_model as load_model
from dragoman.store.merging import average as average
from dragoman.store.merging import merge as merge
from dragoman.text.prepare import prepare_data as prepare_data
from dragoman.tokenizing.training import train_tokenizer as train_tokenizer
from dragoman.workshop.checks import check_workshop as check_workshop
from dragoman.workshop.exercises import make_workshop as make_workshop

__version__: str
__all__: list[str]
