"""``python -m agentgym_suite`` is the ``agentgym-suite`` command."""

from agentgym_suite.cli import main

raise SystemExit(main())
