CREATE TABLE webhook_deliveries (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    webhook text NOT NULL CHECK (length(webhook) BETWEEN 1 AND 80),
    event text NOT NULL CONSTRAINT webhook_deliveries_event_words CHECK (
        event IN ('run.sealed', 'regression', 'gate.changed')
    ),
    body text NOT NULL,
    created_at timestamptz NOT NULL,
    tries integer NOT NULL DEFAULT 0,
    next_try_at timestamptz,
    delivered_at timestamptz,
    status integer,
    problem text,
    CHECK (delivered_at IS NULL OR next_try_at IS NULL)
);
COMMENT ON TABLE webhook_deliveries IS
    'What is to be told to others, written in the transaction of what happened, and how telling it went';
COMMENT ON COLUMN webhook_deliveries.next_try_at IS
    'When it is due; null when it was delivered or given up';
COMMENT ON COLUMN webhook_deliveries.status IS 'HTTP status of the last answer';
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (next_try_at)
    WHERE next_try_at IS NOT NULL;

CREATE TABLE gate_states (
    gate text PRIMARY KEY,
    answer text NOT NULL CONSTRAINT gate_states_answer_words CHECK (
        answer IN ('open', 'closed', 'incomplete')
    ),
    since timestamptz NOT NULL
);
COMMENT ON TABLE gate_states IS
    'The answer of each gate for `latest` when it was last looked at, to see when it changes';
