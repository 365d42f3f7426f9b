"""Which runs a leaderboard ranks: every rule by name, with the reason where it is not kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from agentgym_suite.evaluation.declarations import Declaration, read_declaration
from agentgym_suite.evaluation.results import RunResults
from agentgym_suite.evaluation.run_header import read_run
from agentgym_suite.evaluation.scoring import score_run
from agentgym_suite.evaluation.suites import load_suite, shipped_suites
from agentgym_suite.evaluation.unranked_agents import (
    baseline_fault,
    copy_fault,
    feedback_fault,
    is_baseline,
)
from agentgym_suite.evaluation.verdicts import Verification, standing_verification

SubmissionType = Literal["standard", "custom"]

_OTHER_LIMITS = ("max_completion_tokens", "max_new_tokens", "max_output_tokens", "n_predict")
"""What servers call ``max_tokens``."""
_BOOKKEEPING = (
    "metadata",
    "priority",
    "prompt_cache_key",
    "safety_identifier",
    "service_tier",
    "store",
    "user",
)
"""Fields of a request that cannot change its reply."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of admission.

    Attributes:
        name: the rule, in two or three words.
        fault: why it is not kept; "" where it is.
        known: whether anything is said that it could be judged by.
    """

    name: str
    fault: str
    known: bool = True

    @property
    def answer(self) -> str:
        """Whether it is kept: "yes", "no" or "unknown"."""
        if not self.known:
            return "unknown"
        return "no" if self.fault else "yes"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A run that asks for a place.

    Attributes:
        folder: the run.
        header: what ``run.json`` says.
        results: its results, from its records.
        verification: the verdict that stands; None without one.
        declaration: what is declared of it; None where that is not enough.
        rules: every rule.
        submission_type: "standard" for an official suite as published; else "custom".
    """

    folder: Path
    header: Mapping[str, Any]
    results: RunResults
    verification: Verification | None
    declaration: Declaration | None
    rules: tuple[Rule, ...]
    submission_type: SubmissionType

    @property
    def faults(self) -> tuple[str, ...]:
        """Why it is not ranked; empty when it is."""
        return tuple(rule.fault for rule in self.rules if rule.fault)

    @property
    def ranked(self) -> bool:
        """Whether every rule is kept."""
        return all(rule.answer == "yes" for rule in self.rules)

    @property
    def baseline(self) -> bool:
        """Whether its agent comes with the suite."""
        return is_baseline(self.header["config"]["agent"])

    @property
    def counts(self) -> bool:
        """Whether its numbers may be shown: they are complete and a replay gave them again."""
        return self.results.status == "complete" and _verdict_fault(self.verification, "") == ""


def candidate(folder: Path) -> Candidate:
    """A run with all that decides about its admission.

    Raises:
        RunError: the folder holds no run, or a damaged one.
    """
    header, results = read_run(folder), score_run(folder)
    verification, why_none = standing_verification(folder)
    declaration, undeclared = read_declaration(folder)
    standard = (
        Rule("official suite", _suite_fault(header)),
        Rule("prompt format", _prompt_fault(header)),
        Rule("decoding", _decoding_fault(header)),
    )
    agent = header["config"]["agent"]
    missing = results.planned - results.finished
    rules = (
        Rule("complete", f"{missing} of {results.planned} episodes are missing" if missing else ""),
        Rule("verified", _verdict_fault(verification, why_none)),
        *standard,
        Rule("declarations", undeclared),
        _declared("not tuned on test", declaration, "tuned_on_test"),
        _declared("no privileged info", declaration, "uses_privileged_info_at_test"),
        Rule("own agent", baseline_fault(agent)),
        Rule("no copy", copy_fault(agent)),
        Rule("no success feedback", feedback_fault(agent)),
    )
    kind: SubmissionType = "custom" if any(rule.fault for rule in standard) else "standard"
    return Candidate(folder, header, results, verification, declaration, rules, kind)


def _verdict_fault(verification: Verification | None, why_none: str) -> str:
    if verification is None:
        return why_none or "it has not been verified"
    if verification.verdict == "verified":
        return ""
    return f"its verification ended in {verification.title}"


def _suite_fault(header: Mapping[str, Any]) -> str:
    """Official is a suite that comes with the package, played as it was published."""
    suite = header["suite"]
    if suite["departures"]:
        return "; ".join(suite["departures"])
    if suite["id"] not in shipped_suites():
        return f"suite {suite['id']} is none of the official ones"
    official = load_suite(suite["id"])
    if suite["digest"] != official.digest:
        return (
            f"suite {suite['id']} v{suite['version']} is not the official one of this version, "
            f"v{official.version}"
        )
    return ""


def _prompt_fault(header: Mapping[str, Any]) -> str:
    """An agent without messages has no prompt that could differ."""
    wanted = header["suite"]["content"].get("prompt", {}).get("format", "")
    prompt = header["config"].get("prompt")
    if not wanted or prompt is None or prompt.get("template") == wanted:
        return ""
    return f"its prompts are of the format {prompt.get('template')}, the suite's of {wanted}"


def _decoding_fault(header: Mapping[str, Any]) -> str:
    """What a suite says of decoding, a model must have obeyed."""
    stated = header["suite"]["content"].get("decoding") or {}
    wanted = {name: value for name, value in stated.items() if value is not None}
    if not wanted or header["config"].get("prompt") is None:
        return ""
    agent = header["config"]["agent"]
    given, request = agent.get("decoding") or {}, agent.get("request") or {}
    for name in sorted(wanted):
        sent = _sent_limits(given, request) if name == "max_tokens" else (given.get(name),)
        differing = [value for value in sent if value != wanted[name]]
        if differing:
            return f"its {name} is {differing[0]}, the suite's {wanted[name]}"
    stray = sorted(set(request) - {"max_tokens", *_OTHER_LIMITS, *_BOOKKEEPING})
    if stray:
        return f"its requests have the field {stray[0]}, of which the suite's decoding says nothing"
    return ""


def _sent_limits(given: Mapping[str, Any], request: Mapping[str, Any]) -> tuple[Any, ...]:
    """Every bound on the tokens of a reply that a request carries; None for no bound at all."""
    fields = {"max_tokens": given.get("max_tokens"), **request}
    limits = (fields.get(name) for name in ("max_tokens", *_OTHER_LIMITS))
    return tuple(limit for limit in limits if limit is not None) or (None,)


def _declared(rule: str, declaration: Declaration | None, name: str) -> Rule:
    """A rule that a declaration alone can answer."""
    if declaration is None:
        return Rule(rule, "", known=False)
    return Rule(rule, f"{name} is declared" if getattr(declaration, name) else "")
