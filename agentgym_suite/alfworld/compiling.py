"""From the texts of a game file to a compiled game; what files share is compiled once."""

from __future__ import annotations

from agentgym_suite.alfworld.domains import CompiledDomain
from agentgym_suite.alfworld.game import CompiledGame
from agentgym_suite.alfworld.game_files import GameFile
from agentgym_suite.alfworld.grammars import GrammarCompiler
from agentgym_suite.alfworld.pddl import read_domain, read_problem
from agentgym_suite.alfworld.sources import GRAMMAR, Source

_MOST_DOMAINS = 16


class Compiler:
    """Compiles games and remembers what they share: domains, and the parts of grammars.

    Whoever owns a set of games owns a compiler; there is none behind the scenes. Safe to use from
    several threads: what is remembered is never changed, at worst made twice.
    """

    def __init__(self) -> None:
        self._domains: dict[str, GrammarCompiler] = {}

    def compile(self, game: GameFile) -> CompiledGame:
        """Compile a game.

        Raises:
            DataDamaged: a text breaks its format, or domain, problem and grammar do not agree.
            UnsupportedConstruct: a text uses what the engine does not interpret.
        """
        name = f"{game.game_id} ({game.path})" if game.path else game.game_id
        grammars = self._domains.get(game.domain)
        if grammars is None:
            source = Source(name, "domain")
            domain = CompiledDomain(read_domain(game.domain, source), source)
            grammars = GrammarCompiler(domain)
            if len(self._domains) >= _MOST_DOMAINS:
                self._domains.clear()
            self._domains[game.domain] = grammars
        domain = grammars.domain
        grammar = grammars.compile(game.grammar, Source(name, GRAMMAR))
        source = Source(name, "problem")
        problem = read_problem(game.problem, domain.domain, source, domain.goals)
        return CompiledGame(game.game_id, domain, grammar, problem, source)


def compile_game(game: GameFile, compiler: Compiler | None = None) -> CompiledGame:
    """Compile one game, with a compiler that remembers what games share, or alone.

    Raises:
        DataDamaged: a text breaks its format, or domain, problem and grammar do not agree.
        UnsupportedConstruct: a text uses what the engine does not interpret.
    """
    return (compiler or Compiler()).compile(game)
