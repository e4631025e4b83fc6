DROP TABLE case_graphs;
