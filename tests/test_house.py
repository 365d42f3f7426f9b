"""The shape of the house: floors, sizes, exported names, and the words that stay out."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib.metadata import metadata
from pathlib import Path

import pytest

import agentgym_suite
from agentgym_suite import errors

ROOT = Path(__file__).parents[1]
OUTER = ("indexes", "servers", "trainers", "evaluation")
FOLDERS = ("agentgym_suite", *OUTER)
# design: a file imports from its own floor or from floors below
FLOORS = {
    0: "errors spaces calls versions horizon arguments console dice json_stream files json_bounds"
    " machine usage literals coroutines"
    " own_modules",
    1: "data data_home chosen_data sources downloads deliveries download_pages tasks decoding"
    " renderers plain_words model_files"
    " replies reply_tags prompts rewards call_results source_texts official_rows game env making"
    " remote remote_client remote_values answer_bounds registry progress_bars indexes",
    2: "alfworld webshop multihop_qa paper_search engines agents episodes playing rollouts"
    " ray_env ray_pool chat agent_sources model_agents reflection endpoints endpoint_answers"
    " retries cassettes engine_chat",
    3: "evaluation trainers servers",
    4: "cli data_cli train_cli importers listing play doctor __main__",
}
FLOOR_OF = {name: floor for floor, names in FLOORS.items() for name in names.split()} | {"": 4}
ENVIRONMENT_FOLDERS = {"alfworld", "webshop", "multihop_qa", "paper_search"}


def sources() -> list[Path]:
    return sorted(p for folder in FOLDERS for p in (ROOT / folder).rglob("*.py"))


def room(path: Path) -> str:
    """The first name below the package: ``webshop`` for agentgym_suite/webshop/env.py."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    if parts[0] in OUTER:
        return parts[0]
    return "" if parts[1:] == ("__init__",) else parts[1]


def imported_rooms(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module] + [
                f"{node.module}.{a.name}" for a in node.names if node.module == "agentgym_suite"
            ]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            head, _, rest = name.partition(".")
            if head == "agentgym_suite" and rest:
                yield rest.split(".")[0]


@pytest.mark.parametrize("path", sources(), ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_go_down_and_never_across_environments(path: Path) -> None:
    own = room(path)
    assert own in FLOOR_OF, (
        f"{own} has no floor: add it to the table of this test and to the design"
    )
    for other in imported_rooms(ast.parse(path.read_text(encoding="utf-8"))):
        assert FLOOR_OF[other] <= FLOOR_OF[own], (
            f"{path.name} on floor {FLOOR_OF[own]} imports {other}"
        )
        if own in ENVIRONMENT_FOLDERS and other in ENVIRONMENT_FOLDERS:
            assert own == other
        assert {own, other} != {"trainers", "evaluation"}


def test_modules_import_each_other_in_no_circle() -> None:
    graph: dict[str, set[str]] = {}
    for path in sources():
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(("agentgym_suite", *parts) if parts[0] in OUTER else parts).removesuffix(
            ".__init__"
        )
        graph[name] = set()
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if (
                isinstance(node, ast.ImportFrom)
                and node.module
                and node.module.startswith("agentgym_suite.")
            ):
                graph[name].add(node.module)
                graph[name] |= {f"{node.module}.{alias.name}" for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module == "agentgym_suite":
                graph[name] |= {f"agentgym_suite.{alias.name}" for alias in node.names}
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, f"a circle: {' -> '.join((*trail, name))}"
        if name in done:
            return
        for other in sorted(graph.get(name, ())):
            visit(other, (*trail, name))
        done.add(name)

    for name in sorted(graph):
        visit(name, ())


def test_no_file_is_longer_than_its_idea() -> None:
    long = {
        str(p.relative_to(ROOT)): n
        for p in sources()
        if (n := len(p.read_text(encoding="utf-8").splitlines())) > 400
    }
    assert not long


def test_no_file_is_named_for_nothing() -> None:
    assert not [p for p in sources() if p.stem in ("utils", "helpers", "manager", "common", "misc")]


def test_the_environment_is_never_written_and_no_global_generator_is_used() -> None:
    forbidden = re.compile(
        r"os\.environ\[[^\]]+\]\s*=|os\.putenv|os\.environ\.(update|setdefault|pop)|\bsys\.argv\b"
        r"|np\.random\.(seed|rand|randint|choice|shuffle)\b|\brandom\.(seed|random|choice|shuffle|randint|sample)\("
    )
    found = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in sources()
        for match in forbidden.finditer(path.read_text(encoding="utf-8"))
    ]
    assert not found


def test_exported_names_are_sorted_and_exist() -> None:
    assert list(agentgym_suite.__all__) == sorted(set(agentgym_suite.__all__))
    assert all(hasattr(agentgym_suite, name) for name in agentgym_suite.__all__)


def test_every_extra_named_in_an_error_exists() -> None:
    named = {
        match[1]
        for path in sources()
        for match in re.finditer(r"MissingExtra\(\s*\"([\w-]+)\"", path.read_text(encoding="utf-8"))
    }
    offered = set(metadata("agentgym-suite").get_all("Provides-Extra") or ())
    assert named and named <= offered


def test_no_path_of_a_machine_and_no_registry_host_is_named() -> None:
    forbidden = re.compile(
        r"/(?:root)/|(?<![\w}])/home/\w+/|/tmp/\w+-"
        r"|files\.python"
        r"hosted|registry\.npm"
        r"js\b"
    )
    tracked = [
        p
        for folder in (*FOLDERS, "tests", "docs", "benchmarks")
        for p in (ROOT / folder).rglob("*")
    ]
    found = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in tracked
        if path.suffix in (".py", ".md", ".toml", ".html", ".css", ".js") and path != Path(__file__)
        for match in forbidden.finditer(path.read_text(encoding="utf-8"))
    ]
    assert not found


def test_the_exception_tree_is_drawn_in_its_docstring() -> None:
    classes = {
        name: c
        for name, c in vars(errors).items()
        if isinstance(c, type) and c.__module__ == errors.__name__
    }
    assert all(issubclass(c, errors.AgentGymSuiteError) for c in classes.values())
    assert errors.__doc__ is not None
    drawn = re.findall(
        r"^[ |]*(?:\+- )?(\w+)", errors.__doc__.partition("\n    Agent")[2], re.MULTILINE
    )
    assert set(classes) - {"AgentGymSuiteError"} <= set(drawn)
    for name in classes:
        assert classes[name].__doc__


def test_a_missing_extra_names_the_install_line_and_survives_pickling() -> None:
    import pickle

    error = errors.MissingExtra("lucene", "search='lucene'")
    assert "pip install 'agentgym-suite[lucene]'" in str(error)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
