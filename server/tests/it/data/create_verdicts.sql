INSERT INTO case_verdicts (run_id, case_id, position, verdict, outcome, attempts, decisive_attempt)
SELECT run_id, case_id, 0, 'failed', 'crash', 1, 1 FROM manifest_entries;
INSERT INTO run_tallies (run_id, suite, verdict, cases) SELECT id, 'operators', 'failed', 1 FROM runs;
INSERT INTO operators (overload, operator) VALUES ('aten::add.Tensor', 'aten::add');
INSERT INTO operator_cases (run_id, operator_id, case_id, calls, blamed)
SELECT run_id, operators.id, case_id, 3, true FROM manifest_entries, operators;
