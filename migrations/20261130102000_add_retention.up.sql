ALTER TABLE runs ADD COLUMN evidence_dropped_at timestamptz;
COMMENT ON COLUMN runs.evidence_dropped_at IS
    'When retention began to delete its attempts; from then on it takes in nothing and is not judged again';

CREATE FUNCTION drop_empty_attempts_parts(before date) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    part text;
    is_empty boolean;
    dropped integer := 0;
BEGIN
    -- The parent first, in the order in which ingest takes them; rather not at all than long.
    PERFORM set_config('lock_timeout', '5s', true);
    LOCK TABLE attempts IN ACCESS EXCLUSIVE MODE;
    FOR part IN
        SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = 'attempts'::regclass
          AND c.relname < 'attempts_' || to_char(before, 'YYYY_MM')
    LOOP
        -- A run of that month may still get results.
        EXECUTE format('SELECT NOT EXISTS (SELECT FROM %I) AND NOT EXISTS (
                            SELECT FROM runs
                            WHERE to_char(started_at AT TIME ZONE ''UTC'', ''YYYY_MM'') = %L)',
                       part, right(part, 7)) INTO is_empty;
        IF is_empty THEN
            EXECUTE format('DROP TABLE %I', part);
            dropped := dropped + 1;
        END IF;
    END LOOP;
    RETURN dropped;
END
$$;
