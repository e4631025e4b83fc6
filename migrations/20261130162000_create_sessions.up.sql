CREATE TABLE sessions (
    secret_sha256 bytea PRIMARY KEY CHECK (octet_length(secret_sha256) = 32),
    token_id bigint NOT NULL REFERENCES tokens,
    token_secret_sha256 bytea NOT NULL CHECK (octet_length(token_secret_sha256) = 32),
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    CHECK (expires_at > created_at)
);
COMMENT ON TABLE sessions IS
    'Browsers that signed in with a token. Deleted when somebody signs out, and some time after they expire';
COMMENT ON COLUMN sessions.token_secret_sha256 IS
    'Of the token when it signed in: a token that is rotated ends its sessions, as one that is revoked does';
CREATE INDEX sessions_expires_at ON sessions (expires_at);
