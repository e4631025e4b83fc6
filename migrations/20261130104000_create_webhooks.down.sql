DROP TABLE gate_states;
DROP TABLE webhook_deliveries;
