"""Which selector judges relevance: one that is named, one that is given, or the annotation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentgym_suite.arguments import shown
from agentgym_suite.errors import UsageError
from agentgym_suite.indexes.opening import is_server
from agentgym_suite.indexes.selector_scores import check_digest, check_is_selector
from agentgym_suite.paper_search.annotated import Annotated
from agentgym_suite.paper_search.paper_sources import PaperSource

if TYPE_CHECKING:
    from agentgym_suite.indexes.selectors import Selector

LEXICAL = "lexical"
ORACLE = "oracle"


def check_selector(selector: str | Selector) -> str | Selector:
    """A ``selector`` argument: a name, or something that scores papers.

    Raises:
        UsageError: it is neither, there is no selector of that name, or it names no model or
            address where one is needed.
    """
    if isinstance(selector, str):
        if selector not in (LEXICAL, ORACLE):
            from agentgym_suite.indexes.selectors import check_selector_name

            check_selector_name(selector)
        return selector
    check_is_selector(selector)
    return selector


def check_words_counted(
    selector: str | Selector, index: str | None, papers: PaperSource | None
) -> None:
    """Refuse the selector ``lexical`` where no store on this machine says how rare a word is.

    Args:
        selector: as ``check_selector`` gave it.
        index: as ``check_index`` gave it.
        papers: the open source that is searched instead, if one was given.

    Raises:
        UsageError: the papers are another machine's.
    """
    remote = papers.store is None if papers is not None else index is not None and is_server(index)
    if selector == LEXICAL and remote:
        where = "the given papers" if papers is not None else f"those of {shown(index)}"
        raise UsageError(
            "selector is 'lexical', which weighs words by the counts of a store on this machine, "
            f"and {where} have none here; give the store's folder by index=, or choose oracle, "
            "local:MODEL, vllm_classify:URL or openai_logprobs:URL"
        )


def judge_for(
    selector: str | Selector, annotated: Annotated, source: PaperSource, opened: Selector | None
) -> Selector:
    """The selector of an episode.

    Args:
        selector: as ``check_selector`` gave it.
        annotated: the papers that the selector ``oracle`` takes for relevant.
        source: the store whose words the selector ``lexical`` weighs.
        opened: the named selector of an earlier episode, if there was one.

    Raises:
        UsageError: there is no selector of this name.
        RetrievalError: it cannot be used.
        MissingExtra: it needs packages that are not installed.
    """
    if not isinstance(selector, str):
        return selector
    if selector == ORACLE:
        from agentgym_suite.indexes.oracle_selector import OracleSelector

        return OracleSelector({*annotated.ids, *annotated.papers})
    if opened is not None:
        return opened
    from agentgym_suite.indexes.selectors import open_selector

    return open_selector(selector, store=source.store)


def told_selector(judge: Selector | None) -> dict[str, str]:
    """What provenance says of a selector; the annotation has no one digest for all tasks.

    Raises:
        UsageError: its digest is no text.
    """
    if judge is None:
        return {"name": "", "digest": ""}
    digest = "" if judge.name == ORACLE else check_digest(judge.name, judge.digest)
    return {"name": judge.name, "digest": digest}
