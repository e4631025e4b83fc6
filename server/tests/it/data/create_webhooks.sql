INSERT INTO webhook_deliveries (webhook, event, body, created_at, next_try_at)
VALUES ('chat', 'run.sealed', '{}', now(), now());
INSERT INTO gate_states (gate, answer, since) VALUES ('nightly', 'open', now());
