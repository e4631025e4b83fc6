INSERT INTO waivers (case_pattern, outcomes, reason, owner, issue, author, approver, expires_on)
VALUES ('operators/*', '{crash}', 'known to abort', 'numerics', 'https://example.com/1', 'ada',
        'grace', current_date + 30);
UPDATE case_verdicts SET verdict = 'waived', waiver_id = (SELECT id FROM waivers);
INSERT INTO gate_evaluations (gate, rules_sha256, candidate, run_ids, answer, body, body_sha256,
                              evaluated_at)
SELECT 'nightly', sha256('g'), 'latest', ARRAY[id], 'incomplete', '{}', sha256('b'), now() FROM runs;
