"""The evaluation harness: suites, records, statistics and reports."""
