INSERT INTO inventories (sha256, dispatch_key, created_at)
VALUES (decode(repeat('ab', 32), 'hex'), 'PrivateUse1', now());
INSERT INTO inventory_overloads (inventory_id, name, operator, about)
SELECT id, 'aten::add.Tensor', 'aten::add', '{}' FROM inventories;
INSERT INTO run_inventories (run_id, inventory_id)
SELECT runs.id, inventories.id FROM runs, inventories LIMIT 1;
