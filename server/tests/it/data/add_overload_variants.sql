INSERT INTO run_overload_variants (run_id, suite, operator_id, dtype, mode, direction, verdict,
                                   outcome, cases)
SELECT id, 'operators', 1, 'float32', 'eager', 'forward', 'passed', 'pass', 1 FROM runs LIMIT 1;
UPDATE runs SET summarised = true;
