DROP TABLE run_inventories;
DROP TABLE inventory_overloads;
DROP TABLE inventories;
