"""What ``data`` means: the embedded world, a finished folder, or official files to be imported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from agentgym_suite.chosen_data import GivenPath, locate_data
from agentgym_suite.data import Progress, json_digest, load_manifest, made_folder
from agentgym_suite.errors import DataMissing, UsageError
from agentgym_suite.multihop_qa.corpora import is_corpus_row
from agentgym_suite.multihop_qa.flashrag_files import search_r1_split
from agentgym_suite.multihop_qa.generated_files import GENERATED_KIND, embedded_folder
from agentgym_suite.multihop_qa.import_plan import ImportPlan, QuestionFile, publish_questions
from agentgym_suite.multihop_qa.question_folder import CORPUS_NAME, SPLITS
from agentgym_suite.multihop_qa.row_formats import dataset_named, format_of, full_named, split_named
from agentgym_suite.multihop_qa.twowiki_files import is_alias_row
from agentgym_suite.official_rows import Row, first_row
from agentgym_suite.source_texts import SourceText, find_texts

EMBEDDED = "embedded"
# The folder and the names of the embedded world that are played; the other formats mirror them.
_PLAYED_FOLDER = "2wiki"
_ALIASES_NAME = "id_aliases.jsonl"


def locate_questions(data: str | tuple[str, ...] | None, progress: Progress | None = None) -> Path:
    """The finished folder of ``data``, made now where it is new; see ``open_question_set``."""
    return locate_data(
        data,
        "multihop_qa",
        generated_kind=GENERATED_KIND,
        embedded=lambda: embedded_folder(progress),
        import_generated=lambda folder: _import(plan_generated(folder), progress),
        import_given=lambda given: _import(plan_import(given), progress),
    )


def plan_import(
    given: Sequence[GivenPath],
    *,
    dataset: str = "",
    full: bool = False,
    aliases: Path | None = None,
    corpus: Path | None = None,
    without_corpus: bool = False,
    skip_bad: bool = False,
) -> ImportPlan:
    """What to read from the given paths, each file told by its first row.

    Args:
        given: files, folders, archives; of folders and archives what is no data is passed over.
        dataset: what to call the data set of rows that do not say.
        full: play MuSiQue-Full where Ans is there too.
        aliases: 2Wiki's ``id_aliases``, where it is not among the given ones.
        corpus: passages, where they shall not come from the contexts.
        without_corpus: make no corpus.
        skip_bad: leave bad rows out.

    Raises:
        DataMissing: a path leads to nothing, or to nothing that is known.
        DataDamaged: a file cannot be read as any format.
        UsageError: it cannot be told which data set a file is.
    """
    files: list[QuestionFile] = []
    found_aliases = [] if aliases is None else find_texts(aliases)
    found_corpus = [] if corpus is None else find_texts(corpus)
    for each in given:
        known = False
        for text in find_texts(each.path):
            row = first_row(text) or {}
            form = format_of(row)
            if form is not None:
                called = dataset or form.dataset or dataset_named(text)
                files.append(_question_file(text, row, form.name, called, each.split))
            elif is_alias_row(row):
                found_aliases.append(text)
            elif is_corpus_row(row):
                found_corpus += [text] if corpus is None else []
            else:
                continue
            known = True
        if not known:
            raise DataMissing(
                f"{each.path} holds no rows in a format that is known; give files of HotpotQA, "
                "2Wiki, MuSiQue, FlashRAG, NQ-open, Bamboogle or Search-R1"
            )
    return ImportPlan(
        files=tuple(_without_twins(files, full)),
        aliases=found_aliases[0] if found_aliases else None,
        corpus=tuple(found_corpus),
        without_corpus=without_corpus,
        skip_bad=skip_bad,
    )


def _question_file(text: SourceText, row: Row, form: str, dataset: str, split: str) -> QuestionFile:
    if not dataset and form != "search-r1":
        raise UsageError(
            f"{text} does not say which data set it is; add --dataset nq, or name the file for it"
        )
    if not split and form == "search-r1":
        told = search_r1_split(row)
        split = told if told in SPLITS else ""
    return QuestionFile(text, form, dataset, split or split_named(text, dataset))


def _without_twins(files: Sequence[QuestionFile], full: bool) -> list[QuestionFile]:
    """MuSiQue's Ans is half of Full: where both are there, one of them gives passages only."""
    there = {(one.dataset, full_named(one.text)) for one in files if one.form == "musique"}
    both = {dataset for dataset, _ in there if {(dataset, True), (dataset, False)} <= there}
    return [
        replace(one, played=full_named(one.text) == full)
        if one.form == "musique" and one.dataset in both
        else one
        for one in files
    ]


def plan_generated(folder: Path) -> ImportPlan:
    """The questions of a generated world; its manifest has the digests of its files."""
    played = folder / _PLAYED_FOLDER
    manifest = load_manifest(folder)
    files = [
        QuestionFile(SourceText(played / f"{split}.json"), "2wiki", EMBEDDED, split)
        for split in SPLITS
        if (played / f"{split}.json").is_file()
    ]
    return ImportPlan(
        files=tuple(files),
        aliases=SourceText(played / _ALIASES_NAME),
        corpus=(SourceText(folder / CORPUS_NAME),),
        digests={folder / name: entry.sha256 for name, entry in manifest.files.items()},
    )


def _import(plan: ImportPlan, progress: Progress | None) -> Path:
    if not plan.files:
        raise DataMissing("these files hold passages and no questions; give files of questions too")
    folder = made_folder("multihop_qa", "cache", json_digest(plan.inputs(progress)))
    publish_questions(folder, plan, progress)
    return folder
