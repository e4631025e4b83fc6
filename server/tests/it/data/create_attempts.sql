INSERT INTO signatures (id, outcome, stage, error_class, line)
VALUES ('0123456789abcdef', 'crash', 'execute', 'SIGABRT', 'check failed');
INSERT INTO attempts (run_id, case_id, attempt, outcome, stage, error_class, message, started_at,
                      seconds, evidence, body_sha256, signature)
SELECT run_id, case_id, 1, 'crash', 'execute', 'SIGABRT', 'check failed', now(), 0.5,
       '{"worst": -0.0}', sha256('a1'), '0123456789abcdef'
FROM manifest_entries;
