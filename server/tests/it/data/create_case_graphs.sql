INSERT INTO case_graphs (run_id, case_id, graph, executed_as)
SELECT run_id, case_id, '33c06f8d5e5c7cf2', NULL FROM manifest_entries LIMIT 1;
