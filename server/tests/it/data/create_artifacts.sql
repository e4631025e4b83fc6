INSERT INTO artifacts (sha256, contents, created_at, created_by)
SELECT sha256('a'), 'a', now(), id FROM tokens LIMIT 1;
INSERT INTO attempt_artifacts (run_id, case_id, attempt, name, sha256)
SELECT run_id, case_id, 1, 'hlo.txt', sha256('a') FROM manifest_entries LIMIT 1;
