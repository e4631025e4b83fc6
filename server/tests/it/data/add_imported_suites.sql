INSERT INTO cases (key, suite, subject, subject_base)
VALUES ('junit:vllm/tests.a::test_b', 'junit:vllm', 'tests.a::test_b', 'tests.a::test_b');
INSERT INTO runs (key, body_sha256, suites, device_profile, device_kind, simulated, versions,
                  labels, claimed_host, created_by, started_at, state, manifest_sha256, planned)
SELECT 'imported', sha256('i1'), '{junit:vllm}', 'tpu', 'TPU v6e', false, '{}', '{}', 'host', id,
       now(), 'running', sha256('im1'), 1
FROM tokens LIMIT 1;
INSERT INTO manifest_entries (run_id, position, case_id)
SELECT runs.id, 0, cases.id FROM runs, cases
WHERE runs.key = 'imported' AND cases.suite = 'junit:vllm';
