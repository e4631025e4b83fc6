CREATE TABLE run_sources (
    run_id bigint NOT NULL REFERENCES runs ON DELETE CASCADE,
    number smallint NOT NULL CHECK (number >= 0),
    journal text NOT NULL CHECK (length(journal) <= 80),
    shard integer,
    shards integer,
    received bigint NOT NULL DEFAULT 0 CHECK (received >= 0),
    finished_at timestamptz,
    sealed_at timestamptz,
    PRIMARY KEY (run_id, number),
    UNIQUE (run_id, journal),
    CHECK ((shard IS NULL) = (shards IS NULL)),
    CHECK (shard BETWEEN 1 AND shards)
);
COMMENT ON TABLE run_sources IS
    'Who sends results of a run: one journal of one runner each. A shard that is executed again elsewhere is another source of the same shard';
COMMENT ON COLUMN run_sources.journal IS
    'Random name of the runner''s journal; empty for a runner that does not say';
COMMENT ON COLUMN run_sources.received IS
    'Rows of attempts of this source, kept here for its seal';
COMMENT ON COLUMN run_sources.sealed_at IS
    'When the source said that it has nothing more to send, by the server''s clock';

CREATE TABLE rejudge_queue (
    run_id bigint PRIMARY KEY REFERENCES runs ON DELETE CASCADE,
    since timestamptz NOT NULL
);
COMMENT ON TABLE rejudge_queue IS
    'Sealed runs whose stored verdicts may no longer be right: an earlier run was sealed, changed or withdrawn, or a waiver ended';

ALTER TABLE runs ADD COLUMN is_rerun boolean NOT NULL
    GENERATED ALWAYS AS (labels ? 'rerun_of') STORED;
COMMENT ON COLUMN runs.is_rerun IS
    'It executed only what had come out badly elsewhere, so it is nobody''s newest run';

ALTER TABLE case_verdicts
    ADD COLUMN mixed boolean NOT NULL DEFAULT false,
    ADD COLUMN overlapping boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN case_verdicts.mixed IS 'Some attempts passed and some did not';
COMMENT ON COLUMN case_verdicts.overlapping IS
    'More than one source executed it; the worst of what they say stands';
UPDATE case_verdicts v SET mixed = true
WHERE verdict = 'flaky' OR (verdict = 'waived' AND EXISTS (
    SELECT FROM attempts a
    WHERE a.run_id = v.run_id AND a.case_id = v.case_id AND a.outcome = 'pass'
));
CREATE INDEX case_verdicts_by_waiver ON case_verdicts (waiver_id) WHERE waiver_id IS NOT NULL;

-- The same table once more, in one part for each month of run starts.
ALTER TABLE attempts RENAME TO attempts_of_before;
ALTER TABLE attempts_of_before RENAME CONSTRAINT attempts_pkey TO attempts_of_before_pkey;
CREATE TABLE attempts (
    run_day date NOT NULL,
    run_id bigint NOT NULL REFERENCES runs ON DELETE CASCADE,
    case_id bigint NOT NULL REFERENCES cases,
    attempt integer NOT NULL CHECK (attempt BETWEEN 1 AND 1000),
    source smallint NOT NULL,
    source_attempt integer NOT NULL,
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
    PRIMARY KEY (run_id, case_id, attempt, run_day)
) PARTITION BY RANGE (run_day);
COMMENT ON TABLE attempts IS
    'Append-only: no row is ever updated, see the trigger. One part for each month of run starts, made by ensure_attempts_part when a run is announced';
COMMENT ON COLUMN attempts.run_day IS
    'Day (UTC) on which the run started, so that all of a run is in one part';
COMMENT ON COLUMN attempts.attempt IS
    'Number within the run. What two sources both call 1 are two attempts, the later one under the next free number';
COMMENT ON COLUMN attempts.source_attempt IS
    'Number that the source gave it; with the source it is what a replay has again';
COMMENT ON COLUMN attempts.evidence IS
    'protocol::Evidence. `json` and not `jsonb`, because jsonb turns -0.0 into 0 and 1e300 into 301 digits; nothing queries inside it, what is queried has columns and tables of its own';
COMMENT ON COLUMN attempts.body_sha256 IS
    'Of the attempt as re-written by the server: tells a replay from a clash';
COMMENT ON COLUMN attempts.signature IS 'Null on a pass';

CREATE FUNCTION ensure_attempts_part(day date) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    first date := date_trunc('month', day)::date;
    part text := 'attempts_' || to_char(day, 'YYYY_MM');
BEGIN
    IF to_regclass(part) IS NULL THEN
        -- Two announcements at once: the second one waits, and then finds it.
        PERFORM pg_advisory_xact_lock(hashtext('ensure_attempts_part'));
        EXECUTE format('CREATE TABLE IF NOT EXISTS %I PARTITION OF attempts
                        FOR VALUES FROM (%L) TO (%L)',
                       part, first, (first + interval '1 month')::date);
    END IF;
END
$$;
CREATE FUNCTION analyze_attempts_part(day date) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('ANALYZE %I', 'attempts_' || to_char(day, 'YYYY_MM'));
END
$$;
COMMENT ON FUNCTION analyze_attempts_part IS
    'Only the part that a run has changed: the others are as they were';

SELECT ensure_attempts_part((started_at AT TIME ZONE 'UTC')::date) FROM runs;
INSERT INTO run_sources (run_id, number, journal, received, sealed_at)
SELECT id, 0, '', attempts, sealed_at FROM runs WHERE attempts > 0;
INSERT INTO attempts (run_day, run_id, case_id, attempt, source, source_attempt, outcome, stage,
                      error_class, message, operator, started_at, seconds, evidence, body_sha256,
                      signature, received_at)
SELECT (r.started_at AT TIME ZONE 'UTC')::date, a.run_id, a.case_id, a.attempt, 0, a.attempt,
       a.outcome, a.stage, a.error_class, a.message, a.operator, a.started_at, a.seconds,
       a.evidence, a.body_sha256, a.signature, a.received_at
FROM attempts_of_before a JOIN runs r ON r.id = a.run_id;
DROP TABLE attempts_of_before;
CREATE TRIGGER attempts_are_append_only BEFORE UPDATE ON attempts
    FOR EACH ROW EXECUTE FUNCTION refuse_update();
