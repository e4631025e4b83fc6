DROP TABLE run_overload_variants;
DROP VIEW counted_overload_variants;
COMMENT ON COLUMN runs.summarised IS
    'Whether run_subjects and run_overloads hold what counted_subjects and counted_overloads would count; where they do not, pages count';
