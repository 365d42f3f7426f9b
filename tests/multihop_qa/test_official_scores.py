"""Set-level scores of the benchmarks' own scripts, by hand-computed values."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentgym_suite.errors import DataDamaged, DataError, DataMissing
from agentgym_suite.multihop_qa.official_scores import (
    MusiquePrediction,
    OfficialGold,
    Predictions,
    hotpot_scores,
    musique_scores,
    twowiki_scores,
)
from agentgym_suite.multihop_qa.prediction_files import (
    gold_of,
    read_golds,
    read_musique_predictions,
    read_predictions,
    write_musique_predictions,
    write_predictions,
)
from agentgym_suite.multihop_qa.questions import Question
from tests.multihop_qa import official_rows as official
from tests.multihop_qa.official_rows import variant, write_lines, write_list

HOTPOT = [
    OfficialGold("1", ("grey lantern",), (("A", 0), ("B", 1))),
    OfficialGold("2", ("yes", "never looked at"), (("C", 0),)),
]


def test_hotpotqa_perfect() -> None:
    told = Predictions(
        answers={"1": "The Grey Lantern", "2": "yes"},
        supporting={"1": [("B", 1), ("A", 0), ("A", 0)], "2": [("C", 0)]},
    )
    assert set(hotpot_scores(HOTPOT, told).values()) == {1.0}


def test_hotpotqa_by_parts() -> None:
    told = Predictions(
        answers={"1": "grey", "2": "yes it is"},
        supporting={"1": [("A", 0), ("a", 0), ("C", 0)], "2": []},
    )
    found = hotpot_scores(HOTPOT, told)
    # answer: f1 2/3, p 1, r 1/2 and nothing; support: p 1/3, r 1/2, f1 2/5 and nothing
    assert found["em"] == 0.0
    assert found["f1"] == pytest.approx(1 / 3)
    assert (found["prec"], found["recall"]) == (0.5, 0.25)
    assert (found["sp_prec"], found["sp_recall"]) == pytest.approx((1 / 6, 1 / 4))
    assert found["sp_f1"] == pytest.approx(0.2)
    # joint of the first: p 1/3, r 1/4, f1 2/7
    assert found["joint_f1"] == pytest.approx(1 / 7)
    assert (found["joint_prec"], found["joint_recall"]) == pytest.approx((1 / 6, 1 / 8))
    assert found["joint_em"] == 0.0


def test_what_is_missing_counts_nothing_and_the_divisor_stays() -> None:
    told = Predictions(answers={"1": "grey lantern", "9": "x"}, supporting={"2": [("C", 0)]})
    found = hotpot_scores(HOTPOT, told)
    assert (found["em"], found["sp_em"], found["joint_em"]) == (0.5, 0.5, 0.0)
    assert set(hotpot_scores(HOTPOT, Predictions()).values()) == {0.0}
    with pytest.raises(DataError, match="no gold"):
        hotpot_scores([], told)


def test_twowiki() -> None:
    spellings = (("Grey Lantern", "director", "Odrin Vale"), ("Grey Lantern", "director", "Vale"))
    golds = [
        OfficialGold(
            "1",
            ("Grey Lantern", "Lantern"),
            (("Grey Lantern", 0), ("Vale", 2)),
            (spellings, (("Odrin Vale", "born", "the 1900s"),)),
        ),
        OfficialGold("2", ("no",), (("X", 0),), ((("a", "b", "c"),),)),
        OfficialGold("3", ("x",)),
    ]
    told = Predictions(
        answers={"1": "lantern", "2": "no"},
        supporting={"1": [("GREY lantern", 0), ("vale", 2)], "2": [("X", 0), ("x", 0)]},
        evidences={
            "1": [
                ("grey  lantern!", "Director", "VALE"),
                ("Grey Lantern", "director", "Odrin Vale"),
                ("Odrin Vale", "born", "1900s"),  # articles count in triples
            ],
            "2": [("A", "B", "C.")],
        },
    )
    found = twowiki_scores(golds, told)
    assert found["em"] == 66.67
    assert found["f1"] == 66.67
    # support: right; two facts that lower case makes one are both hits, which is not exact no more
    assert found["sp_em"] == pytest.approx(66.67)
    assert (found["sp_prec"], found["sp_recall"]) == (66.67, 66.67)
    # evidence of the first: both spellings of one triple hit: p 2/3, r 2/2
    assert found["evi_em"] == pytest.approx(33.33)
    assert (found["evi_prec"], found["evi_recall"]) == (55.56, 66.67)
    assert found["evi_f1"] == 60.0
    assert found["joint_em"] == pytest.approx(33.33)
    assert (found["joint_prec"], found["joint_recall"], found["joint_f1"]) == (55.56, 66.67, 60.0)


def musique(number: int, *, answerable: bool = True) -> OfficialGold:
    return OfficialGold(
        f"q{number}",
        ("Ilse Dorn", "Ilse"),
        (("Harrow", 0), ("Odrin Vale", 1), ("Tessaly", 3)),
        answerable=answerable,
    )


def test_musique_answerable() -> None:
    golds = [musique(1), musique(2)]
    told = [
        MusiquePrediction("q1", "ilse", (0, 1, 3)),
        MusiquePrediction("q2", "Dorn of Harrow", (0, 7)),
    ]
    # f1 of the second: against "ilse dorn" 2 * 1/3 * 1/2 / (5/6) = 0.4; support 2/5
    assert musique_scores(golds, told) == {
        "answer_em": 0.5,
        "answer_f1": 0.7,
        "support_f1": 0.7,
    }


def test_musique_full_groups() -> None:
    golds = [musique(1), musique(2), musique(1, answerable=False), musique(2, answerable=False)]
    told = [
        MusiquePrediction("q1", "Ilse Dorn", (0, 1, 3), answerable=True),
        MusiquePrediction("q2", "Ilse Dorn", (0, 1, 3), answerable=True),
        MusiquePrediction("q1", "", (), answerable=False),
        MusiquePrediction("q2", "Ilse", (), answerable=True),  # not told apart
    ]
    assert musique_scores(golds, told) == {
        "answer_em": 1.0,
        "answer_f1": 1.0,
        "support_f1": 1.0,
        "group_answer_sufficiency_f1": 0.5,
        "group_support_sufficiency_f1": 0.5,
    }
    with pytest.raises(DataError, match="question q2 has 1 rows"):
        musique_scores(golds[:3], told[:3])


def test_musique_wants_every_row_in_order() -> None:
    golds, told = (
        [musique(1), musique(2)],
        [MusiquePrediction("q1", ""), MusiquePrediction("q2", "")],
    )
    assert musique_scores(golds, told)["answer_f1"] == 0.0
    for wrong in (told[:1], told[::-1], []):
        with pytest.raises(DataError, match="the same order"):
            musique_scores(golds, wrong)
    with pytest.raises(DataError, match="no gold with an answer"):
        musique_scores([musique(1, answerable=False)], told[:1])


def test_musique_gives_two_answers_without_words_full_f1() -> None:
    golds = [OfficialGold("q1", ("The",))]
    assert musique_scores(golds, [MusiquePrediction("q1", "!")])["answer_f1"] == 1.0


# --- files --------------------------------------------------------------------------


def test_golds_of_official_files(tmp_path: Path) -> None:
    [hotpot] = read_golds(write_list(tmp_path / "hotpot.json", [official.HOTPOT]))
    assert hotpot.answers == ('Morne" Upper',)
    assert hotpot.supporting == (("Odrin Vale", 1), ("Tessaly", 0))
    aliases = write_lines(tmp_path / "aliases.jsonl", official.ALIASES)
    [twowiki] = read_golds(write_list(tmp_path / "2wiki.json", [official.TWOWIKI]), aliases)
    assert twowiki.answers == ("Grey Lantern", "The Grey Lantern")
    assert [len(spellings) for spellings in twowiki.evidences] == [6, 3]
    assert ("The Grey Lantern", "director", "Valean") in twowiki.evidences[0]
    assert twowiki.evidences[1][2] == ("Valean", "date of birth", "1 May 1900")
    twin = variant(official.MUSIQUE, answerable=False)
    ans, unanswerable = read_golds(write_lines(tmp_path / "m.jsonl", [official.MUSIQUE, twin]))
    assert (ans.answerable, unanswerable.answerable) == (True, False)
    assert {number for _, number in ans.supporting} == {0, 1, 3}
    with pytest.raises(DataDamaged, match="line 1: a row in no format"):
        read_golds(write_lines(tmp_path / "x.jsonl", [{"a": 1}]))
    broken = variant(official.TWOWIKI, evidences_id=[["Q1", "director", "Q3"]])
    with pytest.raises(DataDamaged, match="'evidences_id' does not fit"):
        read_golds(write_list(tmp_path / "y.json", [broken]))


def test_the_gold_of_a_loaded_question() -> None:
    question = Question(
        "7", "2wikimultihopqa", "dev", "?", "a", ("b",), evidences=(("s", "r", "o"),)
    )
    assert gold_of(question) == OfficialGold("7", ("a", "b"), (), ((("s", "r", "o"),),))
    assert gold_of(Question("7", "musique", "test", "?", "")).answers == ("",)


def test_prediction_files_come_back(tmp_path: Path) -> None:
    told = Predictions({"1": "é"}, {"1": (("T", 0),)}, {"1": (("s", "r", "o"),)})
    write_predictions(tmp_path / "p.json", told)
    assert read_predictions(tmp_path / "p.json") == told
    write_predictions(tmp_path / "p.json", Predictions({"1": "x"}))
    assert read_predictions(tmp_path / "p.json") == Predictions({"1": "x"})
    rows = [MusiquePrediction("q1", "x", (0, 3), answerable=False), MusiquePrediction("q2", "")]
    write_musique_predictions(tmp_path / "m.jsonl", rows)
    assert read_musique_predictions(tmp_path / "m.jsonl") == rows


@pytest.mark.parametrize(
    "text", ["[]", "{", '{"answer": {"1": 2}}', '{"sp": {"1": [["T"]]}}', '{"evidence": {"1": 3}}']
)
def test_what_is_no_prediction_file(tmp_path: Path, text: str) -> None:
    path = tmp_path / "p.json"
    path.write_text(text, "utf-8")
    with pytest.raises(DataDamaged, match="is no prediction file"):
        read_predictions(path)
    with pytest.raises(DataMissing):
        read_predictions(tmp_path / "absent.json")
    for row in ({"id": "1"}, {"id": "1", "predicted_answer": "x", "predicted_support_idxs": ["0"]}):
        with pytest.raises(DataDamaged, match="line 1"):
            read_musique_predictions(write_lines(tmp_path / "m.jsonl", [row]))


def test_the_golds_score_themselves(shared: Path) -> None:
    folder = shared / "data" / "qa"
    golds = read_golds(folder / "hotpot_distractor_dev100.json")
    told = Predictions(
        {gold.id: gold.answers[0] for gold in golds}, {g.id: g.supporting for g in golds}
    )
    assert set(hotpot_scores(golds, told).values()) == {1.0}
    golds = read_golds(folder / "musique_100.jsonl")
    rows = [
        MusiquePrediction(gold.id, gold.answers[-1], tuple(n for _, n in gold.supporting))
        for gold in golds
    ]
    assert set(musique_scores(golds, rows).values()) == {1.0}
