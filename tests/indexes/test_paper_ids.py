"""arXiv ids in every spelling that users and data files have, and titles as keys."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_suite.indexes.paper_ids import id_keys, keep_letters, normalize_arxiv_id, title_key

ACCEPTED = {
    "1706.03762": "1706.03762",
    "1706.03762v5": "1706.03762",
    "arXiv:1706.03762v1 [cs.CL]": "1706.03762",
    "https://arxiv.org/abs/1706.03762v2?x=1": "1706.03762",
    "http://arxiv.org/pdf/1706.03762.pdf": "1706.03762",
    "https://arxiv.org/pdf/1706.03762v7.pdf#page=3": "1706.03762",
    "export.arxiv.org/abs/hep-th/9901001v2": "hep-th/9901001",
    "cs/0112017": "cs/0112017",
    "CS/0112017": "cs/0112017",
    "cs.CL/0112017v1": "cs/0112017",
    "math.GT/0309136": "math/0309136",
    "solv-int/9901001": "solv-int/9901001",
    "acc-phys/9501001": "acc-phys/9501001",
    "q-alg/9704002v1": "q-alg/9704002",
    "0912.3995": "0912.3995",
    "10.48550/arXiv.2005.14165": "2005.14165",
    "https://doi.org/10.48550/ARXIV.2005.14165": "2005.14165",
    " 2005.14165 \n": "2005.14165",
    "ar5iv.labs.arxiv.org/html/2005.14165": "2005.14165",
    "https://ar5iv.org/abs/2005.14165": "2005.14165",
}
REFUSED = ("", "GPT", "12345.678", "1706.037621", "1706.03762vX", "None", 1706.03762)


@pytest.mark.parametrize("text", ACCEPTED)
def test_every_spelling_is_the_bare_id(text: str) -> None:
    assert normalize_arxiv_id(text) == ACCEPTED[text]


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_no_id_is_refused(text: object) -> None:
    assert normalize_arxiv_id(text) is None


def test_these_are_the_cases_of_the_specification() -> None:
    assert len(ACCEPTED) + len(REFUSED) == 27


@pytest.mark.parametrize(
    "text",
    [
        "(1706.03762)",
        "'1706.03762',",
        "[1706.03762v2];",
        "１７０６．０３７６２",
        "arXiv: 1706.03762",
        "https://www.arxiv.org/pdf/1706.03762v1/",
        "doi:10.48550/arXiv.1706.03762.",
        "https://dx.doi.org/10.48550/arXiv.1706.03762",
        "arXiv:arXiv:1706.03762",
        "https://browse.arxiv.org/html5/1706.03762",
    ],
)
def test_more_spellings(text: str) -> None:
    assert normalize_arxiv_id(text) == "1706.03762"


@pytest.mark.parametrize(
    "text",
    [
        "2013.12345",
        "0000.0000",
        "0703.1234",  # the new form began in April 2007
        "1412.12345",  # five digits came in 2015
        "1501.1234",
        "cs/0113017",
        "cs/0813017",
        "1706.03762 v2",
        "٢٠٠٥.١٤١٦٥",
        "2020.acl-main.148",
        "A00-1009",
        None,
        b"1706.03762",
    ],
)
def test_more_that_is_refused(text: object) -> None:
    assert normalize_arxiv_id(text) is None


@given(st.text())
def test_a_normalised_id_stays_as_it_is(text: str) -> None:
    found = normalize_arxiv_id(text)
    assert found is None or normalize_arxiv_id(found) == found


@given(
    st.integers(7, 99), st.integers(1, 12), st.integers(0, 99_999), st.integers(1, 99), st.data()
)
def test_versions_and_addresses_change_nothing(
    year: int, month: int, number: int, version: int, data: st.DataObject
) -> None:
    early = year < 15
    bare = f"{year:02}{month:02}.{number % 10_000:04}" if early else f"{year}{month:02}.{number:05}"
    if bare < "0704":
        return
    form = data.draw(
        st.sampled_from(["{}", "arXiv:{}", "https://arxiv.org/abs/{}", "arxiv.org/pdf/{}.pdf"])
    )
    assert normalize_arxiv_id(form.format(f"{bare}v{version}")) == bare


def test_titles_are_told_by_letters_and_digits() -> None:
    assert title_key(" GPT-4: A\tReport ") == title_key("GPT 4 — a report")
    assert title_key("GPT-4") != title_key("GPT-3")
    assert title_key("Eﬃcient Straße") == "efficientstrasse"


def test_letters_alone_lose_digits_as_in_the_published_comparison() -> None:
    assert keep_letters("GPT-4: Été") == "gptété"
    assert keep_letters("GPT-4") == keep_letters("GPT-3")


@pytest.mark.parametrize(
    "text",
    ["A00-1009", "[A00-1009]", '"A00-1009"', "(“A00-1009”).", " a00-1009. ", "`A00-1009`,"],
)
def test_an_id_is_found_in_its_dress(text: str) -> None:
    assert {"A00-1009", "a00-1009"} & set(id_keys(text))


@pytest.mark.parametrize(
    "text",
    ["10.1/X", "doi:10.1/X", "DOI: 10.1/x", "https://doi.org/10.1/X", "dx.doi.org/10.1/X."],
)
def test_a_doi_is_found_in_every_form(text: str) -> None:
    assert {"10.1/x", "doi:10.1/x", "https://doi.org/10.1/x"} <= set(id_keys(text))


def test_an_id_as_it_stands_comes_before_its_plain_form() -> None:
    assert id_keys("[7]") == ["[7]", "7"] and id_keys("«1706.03762v2».")[0] == "1706.03762"
    assert id_keys("[" * 100_000) and id_keys("") == id_keys(" ") == []
