CREATE TABLE waivers (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    case_pattern text NOT NULL CHECK (length(case_pattern) BETWEEN 1 AND 600),
    operator text,
    device_profile text,
    outcomes text[] NOT NULL CONSTRAINT waivers_outcomes_words CHECK (
        outcomes <@ ARRAY['mismatch', 'error', 'unsupported', 'fallback', 'crash', 'timeout', 'oom']
        AND cardinality(outcomes) > 0
    ),
    reason text NOT NULL CHECK (length(btrim(reason)) BETWEEN 10 AND 2000),
    owner text NOT NULL CHECK (length(btrim(owner)) > 0),
    issue text NOT NULL CHECK (issue ~ '^https?://[^[:space:]]+$'),
    author text NOT NULL CHECK (length(btrim(author)) > 0),
    approver text NOT NULL CHECK (length(btrim(approver)) > 0),
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_on date NOT NULL,
    revoked_at timestamptz,
    CONSTRAINT waivers_two_people CHECK (lower(btrim(approver)) <> lower(btrim(author))),
    CONSTRAINT waivers_expire CHECK (expires_on <= (created_at AT TIME ZONE 'UTC')::date + 366)
);
COMMENT ON COLUMN waivers.case_pattern IS
    'Case key in which `*` stands for any characters; `*` alone is every case, and then the operator is required by the API';
COMMENT ON COLUMN waivers.operator IS 'Only failures blamed on this overload';
COMMENT ON COLUMN waivers.device_profile IS 'Null: on every device profile';
COMMENT ON COLUMN waivers.outcomes IS
    'Outcomes it forgives. What was not executed or taught nothing cannot be waived';
COMMENT ON COLUMN waivers.expires_on IS 'First day (UTC) on which it no longer holds';

ALTER TABLE case_verdicts ADD CONSTRAINT case_verdicts_waiver
    FOREIGN KEY (waiver_id) REFERENCES waivers;

CREATE TABLE gate_evaluations (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    gate text NOT NULL,
    rules_sha256 bytea NOT NULL CHECK (octet_length(rules_sha256) = 32),
    candidate text NOT NULL,
    run_ids bigint[] NOT NULL,
    answer text NOT NULL CONSTRAINT gate_evaluations_answer_words CHECK (
        answer IN ('open', 'closed', 'incomplete')
    ),
    body json NOT NULL,
    body_sha256 bytea NOT NULL CHECK (octet_length(body_sha256) = 32),
    evaluated_at timestamptz NOT NULL,
    UNIQUE (gate, candidate, body_sha256)
);
COMMENT ON TABLE gate_evaluations IS
    'Answers given. The same answer to the same question is one row, with the time it was first given';
COMMENT ON COLUMN gate_evaluations.candidate IS 'As asked: a run key, or `latest`';
COMMENT ON COLUMN gate_evaluations.body IS 'The whole answer, byte for byte';
CREATE INDEX gate_evaluations_recent ON gate_evaluations (gate, evaluated_at DESC);
