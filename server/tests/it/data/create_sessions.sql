INSERT INTO sessions (secret_sha256, token_id, token_secret_sha256, created_at, expires_at)
SELECT sha256('s1'), id, secret_sha256, now(), now() + interval '1 hour' FROM tokens LIMIT 1;
