UPDATE runs SET evidence_dropped_at = now();
