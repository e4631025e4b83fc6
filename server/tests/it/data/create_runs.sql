INSERT INTO cases (key, suite, subject, subject_base, dtype, mode, direction)
VALUES ('operators/opinfo:add#0/float32.eager.forward', 'operators', 'opinfo:add#0', 'opinfo:add',
        'float32', 'eager', 'forward');
INSERT INTO runs (key, body_sha256, suites, device_profile, device_kind, simulated, versions,
                  labels, claimed_host, created_by, started_at, state, manifest_sha256, planned)
SELECT 'r1', sha256('r1'), '{operators}', 'tpu', 'TPU v6e', false, '{}', '{}', 'host', id, now(),
       'running', sha256('m1'), 1
FROM tokens;
INSERT INTO manifest_entries (run_id, position, case_id)
SELECT runs.id, 0, cases.id FROM runs, cases;
