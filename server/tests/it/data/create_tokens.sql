INSERT INTO tokens (name, secret_sha256, scopes)
VALUES ('nightly', sha256('secret'), '{ingest,triage}');
INSERT INTO audit_log (token_id, actor, action, subject)
SELECT id, name, 'token.create', name FROM tokens;
