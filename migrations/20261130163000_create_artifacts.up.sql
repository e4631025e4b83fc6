CREATE TABLE artifacts (
    sha256 bytea PRIMARY KEY CHECK (octet_length(sha256) = 32),
    contents bytea NOT NULL CHECK (octet_length(contents) <= 8388608),
    created_at timestamptz NOT NULL,
    created_by bigint NOT NULL REFERENCES tokens
);
COMMENT ON TABLE artifacts IS
    'Files that attempts left, each once, by its hash. Retention deletes those that no attempt names any more';
-- They are compressed where they come from, or do not compress.
ALTER TABLE artifacts ALTER COLUMN contents SET STORAGE EXTERNAL;

CREATE TABLE attempt_artifacts (
    run_id bigint NOT NULL REFERENCES runs ON DELETE CASCADE,
    case_id bigint NOT NULL REFERENCES cases,
    attempt integer NOT NULL,
    name text NOT NULL CHECK (length(name) BETWEEN 1 AND 100),
    sha256 bytea NOT NULL REFERENCES artifacts,
    PRIMARY KEY (run_id, case_id, attempt, name)
);
COMMENT ON COLUMN attempt_artifacts.attempt IS 'Number within the run, as in attempts';
CREATE INDEX attempt_artifacts_sha256 ON attempt_artifacts (sha256);
