DROP FUNCTION drop_empty_attempts_parts;
ALTER TABLE runs DROP COLUMN evidence_dropped_at;
