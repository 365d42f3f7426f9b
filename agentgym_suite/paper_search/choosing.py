"""What ``data`` means: the embedded world, a finished folder, or official files to be imported."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from agentgym_suite.chosen_data import GivenPath, locate_data
from agentgym_suite.data import Progress, json_digest, load_manifest, made_folder
from agentgym_suite.errors import DataMissing
from agentgym_suite.official_rows import first_row
from agentgym_suite.paper_search.generated_files import GENERATED_KIND, embedded_folder
from agentgym_suite.paper_search.generator import BROAD_SET, NARROW_SET
from agentgym_suite.paper_search.import_plan import ImportPlan, QueryFile, publish_queries
from agentgym_suite.paper_search.paper_files import is_paper_row
from agentgym_suite.paper_search.query_files import format_of
from agentgym_suite.paper_search.query_folder import CITATIONS_NAME, CORPUS_NAME
from agentgym_suite.source_texts import SourceText, find_texts

EMBEDDED = "embedded"

_CITATIONS_ENDING = ".tsv"
_SPLIT_WORDS: Mapping[str, str] = MappingProxyType(
    {
        "train": "train",
        "dev": "dev",
        "valid": "dev",
        "val": "dev",
        "validation": "dev",
        "test": "test",
        "real": "real",
    }
)


def locate_queries(data: str | tuple[str, ...] | None, progress: Progress | None = None) -> Path:
    """The finished folder of ``data``, made now where it is new; see ``open_query_set``."""
    return locate_data(
        data,
        "paper_search",
        generated_kind=GENERATED_KIND,
        embedded=lambda: embedded_folder(progress),
        import_generated=lambda folder: _import(plan_generated(folder), progress),
        import_given=lambda given: _import(plan_import(given), progress),
    )


def plan_import(
    given: Sequence[GivenPath],
    *,
    corpus: Path | None = None,
    citations: Path | None = None,
    skip_bad: bool = False,
) -> ImportPlan:
    """What to read from the given paths, each file told by its first row.

    Args:
        given: files, folders, archives; of folders and archives what is no data is passed over.
        corpus: papers, where they are not among the given ones.
        citations: who cites whom, likewise.
        skip_bad: leave bad rows out.

    Raises:
        DataMissing: a path leads to nothing, or to nothing that is known.
        DataDamaged: a file cannot be read as any format.
    """
    files: list[QueryFile] = []
    papers = [] if corpus is None else find_texts(corpus)
    edges = [] if citations is None else [SourceText(citations)]
    for each in given:
        known = False
        for text in find_texts(each.path, {_CITATIONS_ENDING}):
            if _CITATIONS_ENDING in text.inner_path.suffixes:
                edges.append(text)
                known = True
                continue
            row = first_row(text) or {}
            form = format_of(row)
            if form is not None:
                files.append(QueryFile(text, form.name, each.split or split_named(text)))
            elif is_paper_row(row):
                papers += [text] if corpus is None else []
            else:
                continue
            known = True
        if not known:
            raise DataMissing(
                f"{each.path} holds no rows in a format that is known; give files of PaSa, "
                "LitSearch or ScholarGym"
            )
    return ImportPlan(tuple(files), tuple(papers), edges[0] if edges else None, skip_bad)


def split_named(text: SourceText) -> str:
    """The split that a text is named for, ``test`` when it is named for none.

    RealScholarQuery has a test split alone, which stands beside AutoScholarQuery's as ``real``.
    """
    path = text.inner_path
    words = re.split(r"[^a-z]+", path.name.lower())
    split = next((_SPLIT_WORDS[word] for word in words if word in _SPLIT_WORDS), "test")
    place = f"{path.parent.name} {path.name}".lower()
    return "real" if split == "test" and "realscholar" in place else split


def plan_generated(folder: Path) -> ImportPlan:
    """The queries of a generated world; its manifest has the digests of its files."""
    manifest = load_manifest(folder)
    files = [
        QueryFile(SourceText(folder / name / f"{split}.jsonl"), "pasa", prefix + split, EMBEDDED)
        for name, prefix in ((BROAD_SET, ""), (NARROW_SET, "auto_"))
        for split in ("train", "dev", "test")
    ]
    return ImportPlan(
        files=tuple(files),
        corpus=(SourceText(folder / CORPUS_NAME),),
        citations=SourceText(folder / CITATIONS_NAME),
        digests={folder / name: entry.sha256 for name, entry in manifest.files.items()},
    )


def _import(plan: ImportPlan, progress: Progress | None) -> Path:
    if not plan.files:
        raise DataMissing("these files hold papers and no queries; give files of queries too")
    folder = made_folder("paper_search", "cache", json_digest(plan.inputs(progress)))
    publish_queries(folder, plan, progress)
    return folder
