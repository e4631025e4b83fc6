INSERT INTO operators (overload, operator) VALUES ('aten::sub.Tensor', 'aten::sub');
UPDATE case_verdicts SET operators = (SELECT array_agg(id ORDER BY id) FROM operators);
