ALTER TABLE attempts RENAME TO attempts_in_parts;
ALTER TABLE attempts_in_parts RENAME CONSTRAINT attempts_pkey TO attempts_in_parts_pkey;
CREATE TABLE attempts (
    run_id bigint NOT NULL REFERENCES runs ON DELETE CASCADE,
    case_id bigint NOT NULL REFERENCES cases,
    attempt integer NOT NULL CHECK (attempt BETWEEN 1 AND 1000),
    outcome text NOT NULL CONSTRAINT attempts_outcome_words CHECK (
        outcome IN ('pass', 'mismatch', 'error', 'unsupported', 'fallback', 'crash', 'timeout',
                    'oom', 'skipped', 'infra', 'host-limit')
    ),
    stage text CONSTRAINT attempts_stage_words CHECK (
        stage IN ('import', 'build', 'reference', 'transfer', 'trace', 'lower', 'compile',
                  'execute', 'compare', 'teardown')
    ),
    error_class text NOT NULL,
    message text NOT NULL CHECK (octet_length(message) <= 1024),
    operator text,
    started_at timestamptz NOT NULL,
    seconds double precision NOT NULL CHECK (seconds >= 0 AND seconds < 'Infinity'),
    evidence json NOT NULL,
    body_sha256 bytea NOT NULL CHECK (octet_length(body_sha256) = 32),
    signature text REFERENCES signatures,
    received_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (run_id, case_id, attempt)
);
INSERT INTO attempts
SELECT run_id, case_id, attempt, outcome, stage, error_class, message, operator, started_at,
       seconds, evidence, body_sha256, signature, received_at
FROM attempts_in_parts;
DROP TABLE attempts_in_parts;
CREATE TRIGGER attempts_are_append_only BEFORE UPDATE ON attempts
    FOR EACH ROW EXECUTE FUNCTION refuse_update();
DROP FUNCTION ensure_attempts_part;
DROP FUNCTION analyze_attempts_part;
DROP INDEX case_verdicts_by_waiver;
ALTER TABLE case_verdicts DROP COLUMN mixed, DROP COLUMN overlapping;
ALTER TABLE runs DROP COLUMN is_rerun;
DROP TABLE rejudge_queue;
DROP TABLE run_sources;
