INSERT INTO run_sources (run_id, number, journal, shard, shards, received)
SELECT id, 1, 'j2', 2, 3, 1 FROM runs LIMIT 1;
INSERT INTO attempts (run_day, run_id, case_id, attempt, source, source_attempt, outcome, stage,
                      error_class, message, started_at, seconds, evidence, body_sha256, signature)
SELECT run_day, run_id, case_id, 2, 1, 1, outcome, stage, error_class, message, started_at,
       seconds, evidence, sha256('a2'), signature
FROM attempts LIMIT 1;
INSERT INTO rejudge_queue (run_id, since) SELECT id, now() FROM runs LIMIT 1;
