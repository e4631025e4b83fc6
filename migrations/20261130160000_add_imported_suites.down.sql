-- What was imported has no place in the schema of before.
DELETE FROM runs WHERE EXISTS (SELECT FROM unnest(suites) AS s (suite) WHERE suite LIKE 'junit:%');
DELETE FROM cases WHERE suite LIKE 'junit:%';
ALTER TABLE runs
    DROP CONSTRAINT runs_suites_words,
    ADD CONSTRAINT runs_suites_words CHECK (
        suites <@ ARRAY['operators', 'tier1', 'tier2', 'dynamism'] AND cardinality(suites) > 0
    );
ALTER TABLE cases
    DROP CONSTRAINT cases_variant_unless_imported,
    ALTER COLUMN dtype SET NOT NULL,
    ALTER COLUMN mode SET NOT NULL,
    ALTER COLUMN direction SET NOT NULL,
    DROP CONSTRAINT cases_suite_words,
    ADD CONSTRAINT cases_suite_words CHECK (
        suite IN ('operators', 'tier1', 'tier2', 'dynamism')
    );
COMMENT ON COLUMN cases.dtype IS NULL;
