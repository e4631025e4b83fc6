CREATE TABLE cases (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    key text NOT NULL UNIQUE CHECK (octet_length(key) <= 512),
    suite text NOT NULL CONSTRAINT cases_suite_words CHECK (
        suite IN ('operators', 'tier1', 'tier2', 'dynamism')
    ),
    subject text NOT NULL,
    subject_base text NOT NULL,
    dtype text NOT NULL CONSTRAINT cases_dtype_words CHECK (
        dtype IN ('float64', 'float32', 'bfloat16', 'float16', 'float8_e4m3fn', 'float8_e5m2',
                  'complex64', 'complex128', 'int64', 'int32', 'int16', 'int8', 'uint8', 'bool')
    ),
    mode text NOT NULL CONSTRAINT cases_mode_words CHECK (mode IN ('eager', 'strict', 'compile')),
    direction text NOT NULL CONSTRAINT cases_direction_words CHECK (
        direction IN ('forward', 'train')
    ),
    layout text
);
COMMENT ON TABLE cases IS 'Every case ever planned; the parts are those of its key, taken apart once';
COMMENT ON COLUMN cases.subject IS 'opinfo:nn.functional.relu#3, timm:resnet18#tiny';
COMMENT ON COLUMN cases.subject_base IS
    'The subject without sample number or size: what has one page';
CREATE INDEX cases_subject_base ON cases (suite, subject_base);

CREATE TABLE runs (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    key text NOT NULL UNIQUE CHECK (key ~ '^[a-z0-9][a-z0-9._-]{0,79}$'),
    body_sha256 bytea NOT NULL CHECK (octet_length(body_sha256) = 32),
    suites text[] NOT NULL CONSTRAINT runs_suites_words CHECK (
        suites <@ ARRAY['operators', 'tier1', 'tier2', 'dynamism'] AND cardinality(suites) > 0
    ),
    device_profile text NOT NULL CHECK (length(device_profile) BETWEEN 1 AND 40),
    device_kind text NOT NULL CHECK (length(device_kind) <= 200),
    simulated boolean NOT NULL,
    versions jsonb NOT NULL,
    labels jsonb NOT NULL,
    claimed_host text NOT NULL CHECK (length(claimed_host) <= 255),
    created_by bigint NOT NULL REFERENCES tokens,
    started_at timestamptz NOT NULL,
    finished_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    last_activity_at timestamptz NOT NULL DEFAULT now(),
    sealed_at timestamptz,
    sealed_by text CONSTRAINT runs_sealed_by_words CHECK (sealed_by IN ('runner', 'silence')),
    state text NOT NULL DEFAULT 'created' CONSTRAINT runs_state_words CHECK (
        state IN ('created', 'running', 'sealed')
    ),
    completeness text CONSTRAINT runs_completeness_words CHECK (
        completeness IN ('complete', 'incomplete', 'void')
    ),
    manifest_sha256 bytea CHECK (octet_length(manifest_sha256) = 32),
    planned bigint NOT NULL DEFAULT 0 CHECK (planned >= 0),
    attempts bigint NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    CONSTRAINT runs_completeness_when_sealed CHECK (
        (state = 'sealed') = (completeness IS NOT NULL)
        AND (state = 'sealed') = (sealed_at IS NOT NULL)
        AND (state = 'sealed') = (sealed_by IS NOT NULL)
    ),
    CONSTRAINT runs_running_has_manifest CHECK (
        state = 'created' OR completeness = 'void' OR manifest_sha256 IS NOT NULL
        OR sealed_by = 'silence'
    )
);
COMMENT ON COLUMN runs.body_sha256 IS
    'Of the request that created the run: a replay has the same, another body under the same key is refused';
COMMENT ON COLUMN runs.claimed_host IS
    'As the runner says; nothing checks it. Who wrote is created_by';
COMMENT ON COLUMN runs.started_at IS
    'By the runner''s clock. Runs are ordered by it, so that a run pushed late from disk takes its own place in time';
COMMENT ON COLUMN runs.sealed_by IS
    '`silence`: no result came for the stated time, so the server closed the run; a late seal by the runner replaces it';
COMMENT ON COLUMN runs.completeness IS
    'complete: every planned case was judged. incomplete: some are missing or inconclusive. void: a person withdrew the run';
COMMENT ON COLUMN runs.manifest_sha256 IS 'Over every case key followed by a line feed, in order';
COMMENT ON COLUMN runs.planned IS 'Rows of manifest_entries, kept here for lists of runs';
COMMENT ON COLUMN runs.attempts IS 'Rows of attempts, kept here for the seal and for lists of runs';
CREATE INDEX runs_started_at ON runs (started_at DESC, id DESC);
CREATE INDEX runs_device ON runs (device_profile, started_at DESC, id DESC);
CREATE INDEX runs_open ON runs (last_activity_at) WHERE state <> 'sealed';

CREATE TABLE manifest_entries (
    run_id bigint NOT NULL REFERENCES runs ON DELETE CASCADE,
    position integer NOT NULL CHECK (position >= 0),
    case_id bigint NOT NULL REFERENCES cases,
    PRIMARY KEY (run_id, position),
    UNIQUE (run_id, case_id)
);
