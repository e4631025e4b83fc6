CREATE TABLE inventories (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    sha256 bytea NOT NULL UNIQUE CHECK (octet_length(sha256) = 32),
    dispatch_key text NOT NULL CHECK (length(dispatch_key) BETWEEN 1 AND 80),
    created_at timestamptz NOT NULL
);
COMMENT ON TABLE inventories IS
    'What the dispatcher of a build knows of every overload; builds with the same one share it';
COMMENT ON COLUMN inventories.sha256 IS 'Over the JSON of the inventory as this server writes it';

CREATE TABLE inventory_overloads (
    inventory_id bigint NOT NULL REFERENCES inventories ON DELETE CASCADE,
    name text NOT NULL CHECK (length(name) BETWEEN 1 AND 200),
    operator text NOT NULL,
    about jsonb NOT NULL,
    PRIMARY KEY (inventory_id, name)
);
COMMENT ON COLUMN inventory_overloads.operator IS 'The name without its overload';
COMMENT ON COLUMN inventory_overloads.about IS 'Schema, tags, delegate and kernels, as they were sent';
CREATE INDEX inventory_overloads_operator ON inventory_overloads (inventory_id, operator);

CREATE TABLE run_inventories (
    run_id bigint PRIMARY KEY REFERENCES runs ON DELETE CASCADE,
    inventory_id bigint NOT NULL REFERENCES inventories
);
CREATE INDEX run_inventories_inventory ON run_inventories (inventory_id);
