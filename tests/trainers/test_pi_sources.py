"""The sources of privileged information that TASPO is compared with."""

from __future__ import annotations

import pytest

from agentgym_suite.errors import UsageError
from agentgym_suite.trainers.analyzer import analyze_group
from agentgym_suite.trainers.offline_analyzers import NullAnalyzer
from agentgym_suite.trainers.pi_sources import (
    GENERIC_SKILL,
    GENERIC_SKILLS,
    action_overlap,
    privileged_texts,
)
from agentgym_suite.trainers.trajectory_traces import Trace, TraceGroup, TraceStep
from tests.trainers.traced import group, hint, item, mug, scripted, target


def doing(uid: str, *actions: str) -> Trace:
    return Trace(
        uid, "t", tuple(TraceStep("p", action, f"after {action}", True) for action in actions)
    )


def test_aligned_information_is_the_accepted_statements() -> None:
    members = group()
    hints = target("c", hint("e1"), hint("e1", statement="Clean it."), hint("e9"))
    found = analyze_group(members, scripted([item(mug("a"), mug("b"))], [hints]))
    assert privileged_texts(members, analysis=found) == {
        "a": "", "b": "", "c": "- Take the mug 1 that you saw.\n- Clean it."
    }  # fmt: skip
    with pytest.raises(UsageError, match="analysis of group 'g'"):
        privileged_texts(members)
    other = TraceGroup("h", (), (), ())
    with pytest.raises(UsageError, match="analysis of group 'h'"):
        privileged_texts(other, analysis=found)


def test_no_information_is_none_for_each() -> None:
    nothing = dict.fromkeys("abc", "")
    assert privileged_texts(group(), "none") == nothing
    found = analyze_group(group(), NullAnalyzer())
    assert privileged_texts(group(), "aligned", analysis=found) == nothing


def test_a_generic_skill_is_the_familys_text() -> None:
    members = TraceGroup("g", (doing("a"),), (0.0,), (0.0,), "look_at_obj_in_light")
    skill = GENERIC_SKILLS["look_at_obj_in_light"]
    assert privileged_texts(members, "generic_skill") == {"a": skill}
    assert privileged_texts(group(), "generic_skill") == dict.fromkeys("abc", GENERIC_SKILL)
    own = privileged_texts(members, "generic_skill", skills={"look_at_obj_in_light": "Lamp!"})
    assert own == {"a": "Lamp!"}


SIBLINGS = TraceGroup(
    "g",
    (
        doing("near", "go", "take", "put"),
        doing("far", "look", "take"),
        doing("lost", "go", "take", "drop"),
        doing("failed", "go", "take", "drop"),
    ),
    (1.0, 1.0, 0.0, 0.0),
    (1.0, 1.0, 0.0, 0.0),
)


def test_overlap_is_jaccards_of_the_sets_of_actions() -> None:
    near, far, lost, failed = SIBLINGS.traces
    assert action_overlap(lost, near) == 2 / 4
    assert action_overlap(lost, far) == 1 / 4
    assert action_overlap(lost, failed) == 1.0
    assert action_overlap(doing("x"), doing("y")) == 0.0
    assert action_overlap(doing("x", "go", "go"), doing("y", " go ")) == 1.0


def test_the_nearest_success_is_the_one_with_the_most_common_actions_never_oneself() -> None:
    texts = privileged_texts(SIBLINGS, "nearest_success")
    assert texts["lost"] == "> go\nafter go\n> take\nafter take\n> put\nafter put"
    assert texts["near"].startswith("> look")
    assert texts["far"] == texts["lost"]


def test_a_random_success_depends_on_seed_and_names_alone_and_is_never_oneself() -> None:
    drawn = [privileged_texts(SIBLINGS, "random_success", seed=seed) for seed in range(40)]
    assert drawn[0] == privileged_texts(SIBLINGS, "random_success", seed=0)
    assert {texts["lost"][:6] for texts in drawn} == {"> go\na", "> look"}
    assert {texts["near"][:6] for texts in drawn} == {"> look"}
    order = (3, 1, 0, 2)
    turned = TraceGroup(
        "g",
        tuple(SIBLINGS.traces[n] for n in order),
        tuple(SIBLINGS.verified_success[n] for n in order),
        tuple(SIBLINGS.rewards[n] for n in order),
    )
    assert privileged_texts(turned, "random_success", seed=5) == drawn[5]


def test_a_success_without_siblings_has_none() -> None:
    only = TraceGroup("g", SIBLINGS.traces[1:], (1.0, 0.0, 0.0), (1.0, 0.0, 0.0))
    for source in ("nearest_success", "random_success"):
        texts = privileged_texts(only, source)  # type: ignore[arg-type]
        assert texts["far"] == "" and texts["lost"].startswith("> look")


def test_refused_actions_are_not_told() -> None:
    refused = TraceStep("p", "juggle", "Nothing happens.", False)
    success = Trace("s", "t", (refused, TraceStep("p", "go", "q", True)))
    members = TraceGroup("g", (success, doing("x", "go")), (1.0, 0.0), (1.0, 0.0))
    assert privileged_texts(members, "nearest_success")["x"] == "> go\nq"


def test_an_unknown_source_is_refused() -> None:
    with pytest.raises(UsageError, match="pi_source 'oracle'"):
        privileged_texts(group(), "oracle")  # type: ignore[arg-type]
