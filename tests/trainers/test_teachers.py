"""Distillation over the whole vocabulary: chunks against full logits, and who the teacher is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
import torch
from torch import Tensor

from agentgym_suite.engines.chat_tokenizer import TransformersChatTokenizer
from agentgym_suite.errors import UsageError
from agentgym_suite.trainers.batch import StepBatch, collate
from agentgym_suite.trainers.batch_files import load_batch, save_batch
from agentgym_suite.trainers.hinting import Hinting, Hints
from agentgym_suite.trainers.logprobs import Forward, TeacherStates, policy_outputs, token_scores
from agentgym_suite.trainers.losses import Divergence
from agentgym_suite.trainers.metrics import METRICS_FILE, read_metrics
from agentgym_suite.trainers.offline_analyzers import NullAnalyzer
from agentgym_suite.trainers.passes import teacher_pass
from agentgym_suite.trainers.privileged import plain_encode
from agentgym_suite.trainers.privileged_rows import Privileged
from agentgym_suite.trainers.rows import trajectory_id
from agentgym_suite.trainers.teachers import (
    Teacher,
    check_vocabulary,
    other_teacher,
    own_teacher,
)
from tests.engines.small_policy import VOCABULARY, small_module, small_tokenizer
from tests.trainers.small_batches import mixed_rows
from tests.trainers.tiny_training import policy, trainer

KINDS: tuple[Divergence, ...] = ("reverse_kl", "forward_kl", "jsd")
BANNED = (VOCABULARY - 2, VOCABULARY - 1)


@pytest.fixture(scope="module")
def student() -> Any:
    return small_module(tie_word_embeddings=False).double()


@pytest.fixture(scope="module")
def teacher() -> Teacher:
    return Teacher(small_module(seed=4, tie_word_embeddings=False).double(), BANNED)


@pytest.fixture(scope="module")
def batch() -> StepBatch:
    """Every third row has no teacher; the prompts of the others are longer."""
    return collate(
        [
            replace(row, teacher_prompt_ids=(7, 9, *row.prompt_ids) if number % 3 else ())
            for number, row in enumerate(mixed_rows())
        ]
    )


def distributions(model: Any, prompt: tuple[int, ...], response: tuple[int, ...]) -> Tensor:
    """Log-probabilities of kept ids before each response token, from the model's full logits."""
    logits = model(input_ids=torch.tensor([prompt + response])).logits[0, len(prompt) - 1 : -1]
    kept: Tensor = (logits[:, : VOCABULARY - 2] / 0.8).log_softmax(-1)
    return kept


def plain(student: Any, teacher: Any, batch: StepBatch, kind: str) -> Tensor:
    """Sum over the sampled tokens of taught rows, by the definitions on whole distributions."""
    total = torch.zeros((), dtype=torch.float64)
    for row in batch.rows:
        if not row.teacher_prompt_ids or not row.response_ids:
            continue
        p = distributions(student, row.prompt_ids, row.response_ids)
        with torch.no_grad():
            q = distributions(teacher, row.teacher_prompt_ids, row.response_ids)
        middle = ((p.exp() + q.exp()) / 2).log()
        value = {
            "reverse_kl": p.exp() * (p - q),
            "forward_kl": q.exp() * (q - p),
            "jsd": (p.exp() * (p - middle) + q.exp() * (q - middle)) / 2,
        }[kind].sum(-1)
        total = total + value[torch.tensor(row.response_mask, dtype=torch.bool)].sum()
    return total


def taught(batch: StepBatch) -> Tensor:
    told = torch.tensor([bool(row.teacher_prompt_ids) for row in batch.rows])
    return batch.response_mask & told[:, None]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("most_logits", [1, 400, 1 << 23])
def test_chunks_are_the_plain_computation_and_so_is_their_gradient(
    student: Any, teacher: Teacher, batch: StepBatch, kind: Divergence, most_logits: int
) -> None:
    settings = Forward(temperature=0.8, banned_ids=BANNED, divergence=kind, most_logits=most_logits)
    student.zero_grad(set_to_none=True)
    found = policy_outputs(student, batch, settings, teacher=teacher).divergence
    assert found is not None
    value = found.masked_fill(~taught(batch), 0.0).sum()
    value.backward()
    mine = {name: weight.grad.clone() for name, weight in student.named_parameters()}
    student.zero_grad(set_to_none=True)
    wanted = plain(student, teacher.model, batch, kind)
    wanted.backward()  # type: ignore[no-untyped-call]
    assert value.item() == pytest.approx(wanted.item(), abs=1e-10)
    assert wanted.item() > 0.1
    for name, weight in student.named_parameters():
        torch.testing.assert_close(mine[name], weight.grad, rtol=0, atol=1e-10)
    assert not any(weight.grad is not None for weight in teacher.model.parameters())


@pytest.mark.parametrize("kind", KINDS)
def test_the_gradient_is_that_of_finite_differences(kind: Divergence) -> None:
    dice = torch.Generator().manual_seed(3)

    def several(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=dice, dtype=torch.float64)

    heads = [torch.nn.Linear(4, rows, bias=False, dtype=torch.float64) for rows in (9, 11)]
    for head in heads:
        torch.nn.init.normal_(head.weight, generator=dice)
    told = TeacherStates(several(5, 4), heads[1], (2, 9, 10))
    ids = torch.tensor([0, 1, 3, 4, 5])
    settings = Forward(banned_ids=(2,), divergence=kind, most_logits=40)

    def value(states: Tensor) -> Tensor:
        scores = token_scores(states, heads[0], ids, settings, told)
        assert scores.divergence is not None
        return scores.divergence.sum()

    states = several(5, 4).requires_grad_()
    (gradient,) = torch.autograd.grad(value(states), states)
    step = 1e-6
    for place in range(states.numel()):
        moved = torch.zeros(states.numel(), dtype=torch.float64)
        moved[place] = step
        away = moved.reshape(states.shape)
        with torch.no_grad():
            slope = (value(states + away) - value(states - away)) / (2 * step)
        assert float(gradient.flatten()[place]) == pytest.approx(float(slope), rel=1e-6, abs=1e-9)
    assert heads[1].weight.grad is None


def test_no_more_logits_exist_at_a_time_than_are_allowed(
    student: Any, teacher: Teacher, batch: StepBatch
) -> None:
    most = 5 * 2 * VOCABULARY
    sizes: list[int] = []

    def seen(module: Any, given: Any, logits: Tensor) -> None:
        sizes.append(logits.numel())

    hooks = [
        m.get_output_embeddings().register_forward_hook(seen) for m in (student, teacher.model)
    ]
    settings = Forward(banned_ids=BANNED, divergence="reverse_kl", most_logits=most)
    found = policy_outputs(student, batch, settings, teacher=teacher).divergence
    assert found is not None
    forward = len(sizes)
    found.sum().backward()
    for hook in hooks:
        hook.remove()
    tokens = int(batch.response_mask.sum())
    assert forward == 2 * -(-tokens // 5)
    assert len(sizes) == 2 * forward, "the backward pass makes them again"
    assert max(sizes) <= most / 2


def test_a_teacher_that_is_the_student_diverges_by_nothing(student: Any, batch: StepBatch) -> None:
    rows = [replace(row, teacher_prompt_ids=row.prompt_ids) for row in batch.rows]
    settings = Forward(banned_ids=BANNED, divergence="jsd")
    with torch.no_grad():
        found = policy_outputs(
            student, collate(rows), settings, teacher=Teacher(student, BANNED)
        ).divergence
    assert found is not None and float(found.abs().max()) < 1e-12


def test_without_a_teacher_a_divergence_is_refused(student: Any, batch: StepBatch) -> None:
    with pytest.raises(UsageError, match="divergence is 'jsd'; give the teacher"):
        policy_outputs(student, batch, Forward(divergence="jsd"))


@pytest.mark.parametrize("others", [VOCABULARY - 3, VOCABULARY, VOCABULARY + 4])
def test_tails_that_only_one_of_two_models_has_are_left_out_of_both(
    student: Any, batch: StepBatch, others: int
) -> None:
    model = small_module(seed=4, tie_word_embeddings=False, vocab_size=others).double()
    teacher, banned = other_teacher(model, student, BANNED)
    common = min(VOCABULARY - 2, others)
    assert set(range(VOCABULARY)) - set(banned) == set(range(common))
    assert set(range(others)) - set(teacher.banned_ids) == set(range(common))
    rows = [
        replace(row, teacher_prompt_ids=row.prompt_ids)
        for row in batch.rows
        if max((*row.prompt_ids, *row.response_ids)) < common
    ]
    settings = Forward(banned_ids=banned, divergence="reverse_kl")
    with torch.no_grad():
        found = policy_outputs(student, collate(rows), settings, teacher=teacher).divergence
        row = rows[0]
        ids = torch.tensor([row.prompt_ids + row.response_ids])
        at = slice(len(row.prompt_ids) - 1, -1)
        p, q = (m(input_ids=ids).logits[0, at, :common].log_softmax(-1) for m in (student, model))
    assert found is not None
    wanted = (p.exp() * (p - q)).sum(-1)
    torch.testing.assert_close(found[0, : len(wanted)], wanted, rtol=0, atol=1e-10)
    scored = teacher_pass(collate(rows), teacher, settings, 100).teacher_logprobs
    assert scored is not None
    told = q.gather(1, torch.tensor(row.response_ids)[:, None]).squeeze(1)
    torch.testing.assert_close(scored[0, : len(told)], told, rtol=0, atol=1e-10)


def test_another_vocabulary_is_refused_in_one_sentence() -> None:
    ours, theirs = small_tokenizer(), small_tokenizer()
    check_vocabulary(ours, theirs, "teacher")
    theirs.add_tokens(["w999"])
    with pytest.raises(UsageError, match=r"big has another vocabulary.*'w999' is 61 in"):
        check_vocabulary(ours, theirs, "big")
    with pytest.raises(UsageError, match="big has no tokenizer"):
        check_vocabulary(ours, None, "big")


def test_a_teacher_of_the_policys_own_weights_stays_behind_until_it_is_told() -> None:
    student = small_module()
    teacher = own_teacher(student, BANNED, stays=True)
    before = [weight.clone() for weight in teacher.model.parameters()]
    with torch.no_grad():
        for weight in student.parameters():
            weight.add_(0.1)
    pairs = zip(before, teacher.model.parameters(), strict=True)
    assert all(torch.equal(old, now) for old, now in pairs)
    teacher.begin(student)
    pairs = zip(student.parameters(), teacher.model.parameters(), strict=True)
    assert all(torch.equal(own, now) for own, now in pairs)
    assert own_teacher(student, BANNED, stays=False).model is student


def test_the_teachers_prompts_are_kept_with_a_batch(batch: StepBatch, tmp_path: Path) -> None:
    save_batch(batch, tmp_path / "batch.npz")
    assert load_batch(tmp_path / "batch.npz").rows == batch.rows


class Told(Hinting):
    """Tells every trajectory the same."""

    def hints(self, episodes: Any, iteration: int) -> Hints:
        return Hints({trajectory_id(e): "add[3] of 11" for e in episodes}, (), {})


def told(tokenizer: Any) -> Privileged:
    chat = TransformersChatTokenizer(tokenizer)
    return Privileged(Told(NullAnalyzer()), chat, plain_encode(tokenizer), "raw", 64)


@pytest.mark.parametrize("kind", KINDS)
def test_opsd_learns_over_the_whole_vocabulary(kind: str, tmp_path: Path) -> None:
    _, tokenizer = policy()
    training = trainer(
        "opsd",
        tmp_path,
        more={"privileged": told(tokenizer)},
        objective="full",
        divergence=kind,
        budget_steps=1,
    )
    before = [weight.clone() for weight in training.policy.parameters()]
    training.run()
    line = read_metrics(tmp_path / METRICS_FILE)[0]
    assert line["loss/distillation"] > 0 and line["teacher/coverage"] == 1.0
    assert not all(
        torch.equal(old, now) for old, now in zip(before, training.policy.parameters(), strict=True)
    )


@pytest.mark.parametrize("objective", ["full", "sampled"])
def test_opd_learns_from_another_model_that_stays_as_it_is(objective: str, tmp_path: Path) -> None:
    other, _ = policy(seed=5)
    before = [weight.clone() for weight in other.parameters()]
    training = trainer(
        "opd",
        tmp_path,
        more={"teacher": other},
        objective=objective,
        kl_coef=0.0,
        learning_rate=1e-2,
        budget_steps=200 if objective == "full" else 40,
    )
    start = [weight.clone() for weight in training.policy.parameters()]
    training.run()
    lines = read_metrics(tmp_path / METRICS_FILE)[:-1]
    assert all(line["teacher/coverage"] == 1.0 for line in lines)
    assert all(torch.equal(old, now) for old, now in zip(before, other.parameters(), strict=True))
    pairs = zip(start, training.policy.parameters(), strict=True)
    assert not all(torch.equal(old, now) for old, now in pairs)
    if objective == "full":  # on samples it is an advantage, which does not shrink
        assert lines[-1]["loss/distillation"] < 0.9 * lines[0]["loss/distillation"]


@pytest.mark.parametrize(("algorithm", "what"), [("opd", "another model"), ("opsd", "privileged")])
def test_a_teacher_that_is_not_given_is_asked_for(
    algorithm: str, what: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=f"{algorithm} needs {what}.*; give it to the trainer"):
        trainer(algorithm, tmp_path)


def test_a_stopped_distillation_goes_on_as_if_it_had_not_stopped(tmp_path: Path) -> None:
    def train(name: str, steps: int) -> list[Tensor]:
        _, tokenizer = policy()
        training = trainer(
            "opsd",
            tmp_path / name,
            more={"privileged": told(tokenizer)},
            objective="full",
            budget_steps=steps,
        )
        training.run()
        return [weight.clone() for weight in training.policy.parameters()]

    whole = train("whole", 120)
    train("parts", 40)
    resumed = train("parts", 120)
    assert all(torch.equal(one, other) for one, other in zip(whole, resumed, strict=True))
