INSERT INTO run_subjects (run_id, suite, subject_base, verdict, cases)
SELECT id, 'operators', 'opinfo:add', 'missing', 1 FROM runs LIMIT 1;
INSERT INTO run_overloads (run_id, suite, operator_id, cases, passed, blamed, subjects,
                           blocked_subjects, fell_back, blamed_outcomes)
SELECT id, 'operators', 1, 1, 0, 0, 1, '{}', 0, '{}' FROM runs LIMIT 1;
UPDATE runs SET summarised = true;
