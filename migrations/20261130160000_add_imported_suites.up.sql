-- Suites imported from JUnit reports have names that nobody can list: `junit:vllm`.
ALTER TABLE cases
    DROP CONSTRAINT cases_suite_words,
    ADD CONSTRAINT cases_suite_words CHECK (
        suite ~ '^(operators|tier1|tier2|dynamism|junit:[a-z0-9][a-z0-9._-]{0,31})$'
    ),
    ALTER COLUMN dtype DROP NOT NULL,
    ALTER COLUMN mode DROP NOT NULL,
    ALTER COLUMN direction DROP NOT NULL,
    ADD CONSTRAINT cases_variant_unless_imported CHECK (
        (suite LIKE 'junit:%') = (dtype IS NULL) AND (dtype IS NULL) = (mode IS NULL)
        AND (mode IS NULL) = (direction IS NULL) AND (layout IS NULL OR dtype IS NOT NULL)
    );
COMMENT ON COLUMN cases.dtype IS
    'Null with mode and direction for an imported case: its report does not say how it was executed';
ALTER TABLE runs
    DROP CONSTRAINT runs_suites_words,
    ADD CONSTRAINT runs_suites_words CHECK (
        cardinality(suites) > 0 AND array_to_string(suites, '/', '-')
            ~ '^((operators|tier1|tier2|dynamism|junit:[a-z0-9][a-z0-9._-]{0,31})(/|$))+$'
    );
