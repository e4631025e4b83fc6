CREATE TABLE signatures (
    id text PRIMARY KEY CHECK (id ~ '^[0-9a-f]{16}$'),
    outcome text NOT NULL,
    stage text,
    error_class text NOT NULL,
    operator text,
    line text NOT NULL
);
COMMENT ON TABLE signatures IS 'What failing cases cluster by; see server/src/judge/signature.rs';
COMMENT ON COLUMN signatures.id IS 'First 16 hex digits of the SHA-256 over the other columns';
COMMENT ON COLUMN signatures.line IS
    'First line of the message with addresses, numbers and paths replaced';

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
COMMENT ON TABLE attempts IS 'Append-only: no row is ever updated, see the trigger';
COMMENT ON COLUMN attempts.evidence IS
    'protocol::Evidence. `json` and not `jsonb`, because jsonb turns -0.0 into 0 and 1e300 into 301 digits; nothing queries inside it, what is queried has columns and tables of its own';
COMMENT ON COLUMN attempts.body_sha256 IS
    'Of the attempt as re-written by the server: tells a replay from a clash';
COMMENT ON COLUMN attempts.signature IS 'Null on a pass';

CREATE FUNCTION refuse_update() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END
$$;
CREATE TRIGGER attempts_are_append_only BEFORE UPDATE ON attempts
    FOR EACH ROW EXECUTE FUNCTION refuse_update();
CREATE TRIGGER audit_log_is_append_only BEFORE UPDATE OR DELETE ON audit_log
    FOR EACH ROW EXECUTE FUNCTION refuse_update();
