CREATE TABLE case_graphs (
    run_id bigint NOT NULL REFERENCES runs ON DELETE CASCADE,
    case_id bigint NOT NULL REFERENCES cases,
    graph text NOT NULL CHECK (length(graph) BETWEEN 1 AND 100),
    executed_as text,
    PRIMARY KEY (run_id, case_id)
);
COMMENT ON TABLE case_graphs IS
    'Which graph a model had, as the worker saw it, taken out of the evidence at ingest: cases with one graph need one execution';
COMMENT ON COLUMN case_graphs.executed_as IS
    'Key of the case whose execution was used; null where the case was executed itself';
CREATE INDEX case_graphs_by_graph ON case_graphs (run_id, graph);

INSERT INTO case_graphs (run_id, case_id, graph, executed_as)
SELECT DISTINCT ON (a.run_id, a.case_id)
       a.run_id, a.case_id, a.evidence ->> 'graph_signature', a.evidence ->> 'executed_as'
FROM attempts a JOIN cases c ON c.id = a.case_id
WHERE c.suite IN ('tier1', 'tier2', 'dynamism')
  AND length(a.evidence ->> 'graph_signature') BETWEEN 1 AND 100
ORDER BY a.run_id, a.case_id, a.attempt DESC;
