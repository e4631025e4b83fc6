CREATE TABLE tokens (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL UNIQUE CHECK (length(name) BETWEEN 1 AND 80),
    secret_sha256 bytea NOT NULL UNIQUE CHECK (octet_length(secret_sha256) = 32),
    scopes text[] NOT NULL CONSTRAINT tokens_scopes_words CHECK (
        scopes <@ ARRAY['ingest', 'triage', 'gate', 'admin'] AND cardinality(scopes) > 0
    ),
    created_at timestamptz NOT NULL DEFAULT now(),
    last_used_at timestamptz,
    revoked_at timestamptz
);
COMMENT ON COLUMN tokens.secret_sha256 IS
    'SHA-256 of the secret. The secret has 256 random bits, so a slow hash would add nothing; it is printed once and stored nowhere';
COMMENT ON COLUMN tokens.revoked_at IS
    'Set once; the row stays, so that runs and the audit log keep naming who wrote them';

CREATE TABLE audit_log (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at timestamptz NOT NULL DEFAULT now(),
    token_id bigint REFERENCES tokens,
    actor text NOT NULL,
    action text NOT NULL CHECK (action ~ '^[a-z]+(\.[a-z_]+)+$'),
    subject text NOT NULL,
    detail jsonb NOT NULL DEFAULT '{}'
);
COMMENT ON COLUMN audit_log.token_id IS 'Null for what was done on the command line of the server';
COMMENT ON COLUMN audit_log.actor IS 'Token name, or `command line`, as it was then';
COMMENT ON COLUMN audit_log.action IS 'noun.verb: token.create, run.void, waiver.create, …';
CREATE INDEX audit_log_at ON audit_log (at DESC);
