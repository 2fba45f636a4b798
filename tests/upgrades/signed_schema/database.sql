BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0002');
CREATE TABLE datasets (
	id VARCHAR(32) NOT NULL, 
	name VARCHAR(63) NOT NULL, 
	population VARCHAR(63) NOT NULL, 
	manifest TEXT NOT NULL, 
	row_count BIGINT NOT NULL, 
	lattice_digest VARCHAR(64) NOT NULL, 
	snapshot_nonce VARCHAR(64) NOT NULL, 
	snapshot_commitment VARCHAR(64) NOT NULL, 
	created_at VARCHAR(32) NOT NULL, 
	CONSTRAINT pk_datasets PRIMARY KEY (id), 
	CONSTRAINT fk_datasets_population_populations FOREIGN KEY(population) REFERENCES populations (name), 
	CONSTRAINT uq_datasets_name UNIQUE (name)
);
INSERT INTO "datasets" VALUES('ds_000000000000000000000002','cohort','town','{"name":"cohort","population":"town","description":"","row_capacity":1000,"subject":null,"rows_per_subject":null,"library":"shared","columns":[{"name":"age","type":"numeric","unit":"years","description":"","lower":50.0,"upper":100.0,"levels":[],"missing":"complete"},{"name":"sex","type":"categorical","unit":null,"description":"","lower":null,"upper":null,"levels":["F","M","X"],"missing":"complete"},{"name":"creatinine","type":"numeric","unit":"mg/dL","description":"","lower":0.0,"upper":3.0,"levels":[],"missing":"omit"},{"name":"weight","type":"numeric","unit":"kg","description":"","lower":40.0,"upper":160.0,"levels":[],"missing":"midpoint"},{"name":"height","type":"numeric","unit":"cm","description":"","lower":140.0,"upper":200.0,"levels":[],"missing":"indicator"},{"name":"smoker","type":"boolean","unit":null,"description":"","lower":null,"upper":null,"levels":["no","yes"],"missing":"midpoint"},{"name":"treated","type":"boolean","unit":null,"description":"","lower":null,"upper":null,"levels":["no","yes"],"missing":"indicator"},{"name":"frail","type":"boolean","unit":null,"description":"","lower":null,"upper":null,"levels":["no","yes"],"missing":"omit"},{"name":"alive","type":"boolean","unit":null,"description":"","lower":null,"upper":null,"levels":[],"missing":"complete"},{"name":"region","type":"categorical","unit":null,"description":"","lower":null,"upper":null,"levels":["north","south","west"],"missing":"indicator"},{"name":"stage","type":"categorical","unit":null,"description":"","lower":null,"upper":null,"levels":["I","II","III"],"missing":"omit"},{"name":"ward","type":"categorical","unit":null,"description":"","lower":null,"upper":null,"levels":["a","b"],"missing":"midpoint"},{"name":"kappa","type":"numeric","unit":"mg/dL","description":"","lower":0.0,"upper":6.0,"levels":[],"missing":"complete"},{"name":"lambda","type":"numeric","unit":"mg/dL","description":"","lower":0.0,"upper":6.0,"levels":[],"missing":"omit"},{"name":"dose","type":"numeric","unit":"mg","description":"","lower":-10.0,"upper":10.0,"levels":[],"missing":"indicator"}]}',80,'122c1b47fdf023a6bf2b0bb1a25da39210a59502a65d8fd19cba75416dd31059','0000000000000000000000000000000000000000000000000000000000000001','5280656eb812aa835e4b88f780d85c43faaadd90326fcd264e70f9597eb23929','2026-03-01T12:00:00Z');
INSERT INTO "datasets" VALUES('ds_000000000000000000000003','hidden','valley','{"name":"hidden","population":"valley","description":"","row_capacity":1000,"subject":null,"rows_per_subject":null,"library":"shared","columns":[{"name":"age","type":"numeric","unit":"years","description":"","lower":50.0,"upper":100.0,"levels":[],"missing":"complete"},{"name":"sex","type":"categorical","unit":null,"description":"","lower":null,"upper":null,"levels":["F","M","X"],"missing":"complete"},{"name":"creatinine","type":"numeric","unit":"mg/dL","description":"","lower":0.0,"upper":3.0,"levels":[],"missing":"omit"},{"name":"weight","type":"numeric","unit":"kg","description":"","lower":40.0,"upper":160.0,"levels":[],"missing":"midpoint"},{"name":"height","type":"numeric","unit":"cm","description":"","lower":140.0,"upper":200.0,"levels":[],"missing":"indicator"},{"name":"smoker","type":"boolean","unit":null,"description":"","lower":null,"upper":null,"levels":["no","yes"],"missing":"midpoint"},{"name":"treated","type":"boolean","unit":null,"description":"","lower":null,"upper":null,"levels":["no","yes"],"missing":"indicator"},{"name":"frail","type":"boolean","unit":null,"description":"","lower":null,"upper":null,"levels":["no","yes"],"missing":"omit"},{"name":"alive","type":"boolean","unit":null,"description":"","lower":null,"upper":null,"levels":[],"missing":"complete"},{"name":"region","type":"categorical","unit":null,"description":"","lower":null,"upper":null,"levels":["north","south","west"],"missing":"indicator"},{"name":"stage","type":"categorical","unit":null,"description":"","lower":null,"upper":null,"levels":["I","II","III"],"missing":"omit"},{"name":"ward","type":"categorical","unit":null,"description":"","lower":null,"upper":null,"levels":["a","b"],"missing":"midpoint"},{"name":"kappa","type":"numeric","unit":"mg/dL","description":"","lower":0.0,"upper":6.0,"levels":[],"missing":"complete"},{"name":"lambda","type":"numeric","unit":"mg/dL","description":"","lower":0.0,"upper":6.0,"levels":[],"missing":"omit"},{"name":"dose","type":"numeric","unit":"mg","description":"","lower":-10.0,"upper":10.0,"levels":[],"missing":"indicator"}]}',40,'6ef14000d0676eda94b7f32287fd3b21a0d03fa8b9b8dd6fc44bc145a42def83','0000000000000000000000000000000000000000000000000000000000000002','2a413ef41d5e2a9802113e217b2db50a1f7a7c37c63e43505755beeff7bb0d6d','2026-03-01T12:00:00Z');
CREATE TABLE grants (
	principal_id VARCHAR(32) NOT NULL, 
	dataset_id VARCHAR(32) NOT NULL, 
	created_at VARCHAR(32) NOT NULL, 
	CONSTRAINT pk_grants PRIMARY KEY (principal_id, dataset_id), 
	CONSTRAINT fk_grants_dataset_id_datasets FOREIGN KEY(dataset_id) REFERENCES datasets (id), 
	CONSTRAINT fk_grants_principal_id_principals FOREIGN KEY(principal_id) REFERENCES principals (id)
);
INSERT INTO "grants" VALUES('prn_000000000000000000000006','ds_000000000000000000000002','2026-03-01T12:00:00Z');
INSERT INTO "grants" VALUES('prn_000000000000000000000007','ds_000000000000000000000002','2026-03-01T12:00:00Z');
CREATE TABLE "idempotency_keys" (
    principal_id VARCHAR(32) NOT NULL, "key" VARCHAR(128) NOT NULL, fingerprint VARCHAR(80) NOT NULL,
    release_id VARCHAR(32), reservation_id VARCHAR(32),
    CONSTRAINT pk_idempotency_keys PRIMARY KEY (principal_id, "key"),
    CONSTRAINT fk_idempotency_keys_principal_id_principals FOREIGN KEY(principal_id) REFERENCES principals (id),
    CONSTRAINT fk_idempotency_keys_reservation_id_reservations FOREIGN KEY(reservation_id) REFERENCES reservations (id) DEFERRABLE INITIALLY DEFERRED,
    CONSTRAINT fk_idempotency_keys_release_id_releases FOREIGN KEY(release_id) REFERENCES releases (id)
      DEFERRABLE INITIALLY DEFERRED
) WITHOUT ROWID;
INSERT INTO "idempotency_keys" VALUES('prn_000000000000000000000006','k1','1b7b6f9212bad272d2526bdfdf8d7cd38db683f2a39bc3be09deca4c7b64c87c:any','rel_000000000000000000000009',NULL);
INSERT INTO "idempotency_keys" VALUES('prn_000000000000000000000006','k2','c25420a7e807ac39e50ec928c26c82fdfa00729983cb586df4557485f4e50a8a:any','rel_00000000000000000000000c','job_00000000000000000000000b');
INSERT INTO "idempotency_keys" VALUES('prn_000000000000000000000006','k5','1da49e95dca08815d7ad4b04de841d6ab25d69de4c221149ccf16e2bdda1a5f7:study',NULL,'res_000000000000000000000013');
INSERT INTO "idempotency_keys" VALUES('prn_000000000000000000000006','k6','980178f891ce420cac95f812b40dd43490644d7686b9b1ac87d4095b5f45d75b:paid','rel_000000000000000000000015',NULL);
INSERT INTO "idempotency_keys" VALUES('prn_000000000000000000000007','k3','a13287510d1e1f978d3d9e8df01e00bf8f5ed94e11279b5d3fcb57990c6f850c:any','rel_00000000000000000000000e',NULL);
INSERT INTO "idempotency_keys" VALUES('prn_000000000000000000000007','k4','48a07d0c49d08132aaf04857068f84fba29561bb0d7627c1e3f8ea8e02493b7a:any','rel_000000000000000000000011','job_000000000000000000000010');
CREATE TABLE ledger_entries (
	population VARCHAR(63) NOT NULL, 
	sequence BIGINT NOT NULL, 
	payload TEXT NOT NULL, 
	entry_hash VARCHAR(64) NOT NULL, signature VARCHAR(88) DEFAULT '' NOT NULL, 
	CONSTRAINT pk_ledger_entries PRIMARY KEY (population, sequence), 
	CONSTRAINT fk_ledger_entries_population_populations FOREIGN KEY(population) REFERENCES populations (name)
);
INSERT INTO "ledger_entries" VALUES('town',1,'{"accountant":"gdp","actor":"operator:test","adjacency":"add_remove","delta":"1e-06","epoch":1,"format":2,"key_id":"key_ec75421b35015cbcb19ff1307901beb5","kind":"open","limit":"4000000000000","pending":"0","population":"town","posted":"0","previous_hash":"0000000000000000000000000000000000000000000000000000000000000000","sequence":1,"time":"2026-03-01T12:00:00Z","units":"4000000000000"}','4fa6647db827f82c739e6dd9d3dbd717db708ff9e668d8e68f5a5fcaa183e000','CdJm4B4zBcnyL2XpGUyARPZ3O1z8RA6RgjSwk8QZybGbPDceVn7zXtlvN7gZuWxi3SKtd12IJkDs3AuseD+eDQ==');
INSERT INTO "ledger_entries" VALUES('valley',1,'{"accountant":"gdp","actor":"operator:test","adjacency":"add_remove","delta":"1e-06","epoch":1,"format":2,"key_id":"key_ec75421b35015cbcb19ff1307901beb5","kind":"open","limit":"4000000000000","pending":"0","population":"valley","posted":"0","previous_hash":"0000000000000000000000000000000000000000000000000000000000000000","sequence":1,"time":"2026-03-01T12:00:00Z","units":"4000000000000"}','be54aaa9a86018ea45dc36aed333450f761c0eae5b4ed0a55285553041baba8b','lkaOPHsWyp3iqYoK73nQPw2LBGYROUzcJkx/Kq5xYRQg68xrAYDScc/Y0+oo2TYABgRWHJN+inisUMZPySn2Aw==');
INSERT INTO "ledger_entries" VALUES('town',2,'{"actor":"operator:test","dataset":"cohort","dataset_id":"ds_000000000000000000000002","epoch":1,"format":2,"key_id":"key_ec75421b35015cbcb19ff1307901beb5","kind":"dataset","limit":"4000000000000","manifest_digest":"1c6771736151e9a36ad0500b45d37fbae50e3ba49d3ae9ba51218f7d8535df98","pending":"0","population":"town","posted":"0","previous_hash":"4fa6647db827f82c739e6dd9d3dbd717db708ff9e668d8e68f5a5fcaa183e000","sequence":2,"snapshot":"5280656eb812aa835e4b88f780d85c43faaadd90326fcd264e70f9597eb23929","time":"2026-03-01T12:00:00Z","units":"0"}','4e2c1bebade09740835aa6576663cec5a8fab36abb0b1886d5bc578b1995e3f5','2QD4IGfkN95vIznLes7nrzBgC+h1df35RhXMDWKr1Cb1t3shsdp0tmSdnrxLs95oT424hEy0pCHMriwi4alADA==');
INSERT INTO "ledger_entries" VALUES('valley',2,'{"actor":"operator:test","dataset":"hidden","dataset_id":"ds_000000000000000000000003","epoch":1,"format":2,"key_id":"key_ec75421b35015cbcb19ff1307901beb5","kind":"dataset","limit":"4000000000000","manifest_digest":"65e046dcf77daa44a3e6f74f199cd74bcb2cd20d0dc7f5290e1b58e088bca86d","pending":"0","population":"valley","posted":"0","previous_hash":"be54aaa9a86018ea45dc36aed333450f761c0eae5b4ed0a55285553041baba8b","sequence":2,"snapshot":"2a413ef41d5e2a9802113e217b2db50a1f7a7c37c63e43505755beeff7bb0d6d","time":"2026-03-01T12:00:00Z","units":"0"}','b4dbc3e6752bfdc5dfec81727564fcfeb50686c0331e887246674ae841404e4e','k//GuDR+fDXDeSEqU0YlCMRrKQ1tDu4GOVp9J4ke5iZxeGftC65ErARejE0mwp54YqmxGb82lxXzhEr02iHrAw==');
INSERT INTO "ledger_entries" VALUES('town',3,'{"actor":"prn_000000000000000000000006","answer_digest":"73409073464d3dac050359dfd87a99f4493d00bb6fd6bfb3b34b4c0f262cc1f6","dataset":"cohort","epoch":1,"format":2,"key_id":"key_ec75421b35015cbcb19ff1307901beb5","kind":"charge","limit":"4000000000000","mechanism":[{"copies":1,"distribution":"discrete_gaussian","norm":"L2 squared","scales":["1536590766817","1536590766817"],"sensitivity":"2951388980831767756810","statistic":"xtx"},{"copies":1,"distribution":"discrete_gaussian","norm":"L2 squared","scales":["1066716882905","1066716882905"],"sensitivity":"1180555592332707102724","statistic":"xty"},{"copies":1,"distribution":"discrete_gaussian","norm":"L2 squared","scales":["1178511320335","1178511320335"],"sensitivity":"295138898083176775681","statistic":"yty"}],"pending":"0","population":"town","posted":"2500000000","previous_hash":"4e2c1bebade09740835aa6576663cec5a8fab36abb0b1886d5bc578b1995e3f5","release":"rel_000000000000000000000009","request_digest":"1b7b6f9212bad272d2526bdfdf8d7cd38db683f2a39bc3be09deca4c7b64c87c","sequence":3,"snapshot":"5280656eb812aa835e4b88f780d85c43faaadd90326fcd264e70f9597eb23929","time":"2026-03-01T12:00:00Z","units":"2500000000"}','6b3bf44e7bec71cf58afa17a4c24f45a8c2cf10ff7a203ca257e037a13a7ec79','cSK/iU+bwjANZbEzE5eTinGiQ4R1zgnaMAZ2wl+I6OpeQnqRrdV1H7Bkbivk4Azu1BBWAHyXLQfszKVZ+RCUCg==');
INSERT INTO "ledger_entries" VALUES('town',4,'{"actor":"prn_000000000000000000000006","epoch":1,"format":2,"key_id":"key_ec75421b35015cbcb19ff1307901beb5","kind":"reserve","limit":"4000000000000","pending":"2500000000","population":"town","posted":"2500000000","previous_hash":"6b3bf44e7bec71cf58afa17a4c24f45a8c2cf10ff7a203ca257e037a13a7ec79","reservation":"job_00000000000000000000000b","sequence":4,"time":"2026-03-01T12:00:00Z","units":"2500000000"}','f247de38012b12e3906aa28602f1c95caa1dad335f4be966aee7e044f16437ff','KiAjOey3lp8o+VFEbo6/qhgFsznlKyBWzj2DOVmBr9EsMMLu7MvK4W0oy3AFe+W5EokD8ts6rcYW4T23py6MBA==');
INSERT INTO "ledger_entries" VALUES('town',5,'{"actor":"prn_000000000000000000000006","answer_digest":"766ee6d15d2f71647ba4a0ddad7695a92d821dd66a38b7ead5813ab03d622da9","dataset":"cohort","epoch":1,"format":2,"key_id":"key_ec75421b35015cbcb19ff1307901beb5","kind":"charge","limit":"4000000000000","mechanism":[{"copies":1,"distribution":"discrete_gaussian","norm":"L2 squared","scales":["1093297936449","773078384721"],"sensitivity":"1494125472303210823696","statistic":"xtx"},{"copies":1,"distribution":"discrete_gaussian","norm":"L2 squared","scales":["800035627562","800035627562"],"sensitivity":"664059143069030940676","statistic":"xty"},{"copies":1,"distribution":"discrete_gaussian","norm":"L2 squared","scales":["1178511320335","1178511320335"],"sensitivity":"295138898083176775681","statistic":"yty"}],"pending":"0","population":"town","posted":"5000000000","previous_hash":"f247de38012b12e3906aa28602f1c95caa1dad335f4be966aee7e044f16437ff","release":"rel_00000000000000000000000c","request_digest":"c25420a7e807ac39e50ec928c26c82fdfa00729983cb586df4557485f4e50a8a","reservation":"job_00000000000000000000000b","sequence":5,"snapshot":"5280656eb812aa835e4b88f780d85c43faaadd90326fcd264e70f9597eb23929","time":"2026-03-01T12:00:00Z","units":"2500000000"}','726a9401c1a08672ca0573e6e918bb7eb48078c6baa5812c94405d4aa9da1605','/mx1k/gvHZfXBZ0NoR+jUFb1oDGeNuEy2uHijk89RsmQxbgvpsb7zPug2trbZ35r2TA4MPH5avMbGIw5gSaGCQ==');
INSERT INTO "ledger_entries" VALUES('town',6,'{"actor":"prn_000000000000000000000007","answer_digest":"3a6935df6b1242a6a4f696c2704b5d9a4999dd3f695f8eb4ee9b0c7103324b2c","dataset":"cohort","epoch":1,"format":2,"key_id":"key_ec75421b35015cbcb19ff1307901beb5","kind":"derive","limit":"4000000000000","pending":"0","population":"town","posted":"5000000000","previous_hash":"726a9401c1a08672ca0573e6e918bb7eb48078c6baa5812c94405d4aa9da1605","release":"rel_00000000000000000000000e","request_digest":"a13287510d1e1f978d3d9e8df01e00bf8f5ed94e11279b5d3fcb57990c6f850c","sequence":6,"snapshot":"5280656eb812aa835e4b88f780d85c43faaadd90326fcd264e70f9597eb23929","source":"rel_000000000000000000000009","time":"2026-03-01T12:00:00Z","units":"0"}','7d4c07a9ba9c6db13d8c22bc98aabbea25529f146d802c252b90341113611dee','s0K4saZF1QIYzobSmShcL3C8X4rmJWnM/zYtqpH89kmVQC5ZYmsHchIrhQPc7kC1RGX6SH9+cNdc3cYcQWizAA==');
INSERT INTO "ledger_entries" VALUES('town',7,'{"actor":"prn_000000000000000000000007","epoch":1,"format":2,"key_id":"key_ec75421b35015cbcb19ff1307901beb5","kind":"reserve","limit":"4000000000000","pending":"27648786422","population":"town","posted":"5000000000","previous_hash":"7d4c07a9ba9c6db13d8c22bc98aabbea25529f146d802c252b90341113611dee","reservation":"job_000000000000000000000010","sequence":7,"time":"2026-03-01T12:00:00Z","units":"27648786422"}','d65e32160acaf820001c2250e3df4f540bd8bde8a00363dd7f0cda415d7bc7c1','4VvkBQHiq4XKNHRU2aG79zRwB9IdnQ8hyRJ6oWPRuzKWFr0/2DMfDu2ehbP/DtaFETyYtDDFuYD9Nnp6iLIIBw==');
INSERT INTO "ledger_entries" VALUES('town',8,'{"actor":"prn_000000000000000000000007","answer_digest":"a667aad6dfce455e9d0af33c82b394bc920ffb1457d44727d393751088d44af1","dataset":"cohort","epoch":1,"format":2,"key_id":"key_ec75421b35015cbcb19ff1307901beb5","kind":"charge","limit":"4000000000000","mechanism":[{"copies":1,"distribution":"discrete_laplace","norm":"L1","scales":["1550039733023","1550039733023"],"sensitivity":"103077642246","statistic":"xtx"},{"copies":1,"distribution":"discrete_laplace","norm":"L1","scales":["452094922132","452094922132"],"sensitivity":"51538821123","statistic":"xty"},{"copies":1,"distribution":"discrete_laplace","norm":"L1","scales":["1808379688527","1808379688527"],"sensitivity":"17179607041","statistic":"yty"},{"copies":1,"distribution":"discrete_laplace","norm":"L1","scales":["5153882112900","5153882112900"],"sensitivity":"51538821129","statistic":"lambda_min"}],"pending":"0","population":"town","posted":"32648786422","previous_hash":"d65e32160acaf820001c2250e3df4f540bd8bde8a00363dd7f0cda415d7bc7c1","release":"rel_000000000000000000000011","request_digest":"48a07d0c49d08132aaf04857068f84fba29561bb0d7627c1e3f8ea8e02493b7a","reservation":"job_000000000000000000000010","sequence":8,"snapshot":"5280656eb812aa835e4b88f780d85c43faaadd90326fcd264e70f9597eb23929","time":"2026-03-01T12:00:00Z","units":"27648786422"}','e43ba970adf283abe8dd5c941a6b527f7ad4d3062a2c9641bbbf4cbf1aaa9605','aAdECB8IYyNTzJm3QJKKetcksNu/7En63VlkPqxkaoPepyyal5uVWrsmIeDnUyHkyOAvz4NkPfCFanE6osFZAg==');
INSERT INTO "ledger_entries" VALUES('town',9,'{"actor":"prn_000000000000000000000006","epoch":1,"expires_at":"2027-02-23T07:06:40Z","format":2,"key_id":"key_ec75421b35015cbcb19ff1307901beb5","kind":"reserve","limit":"4000000000000","pending":"90000000000","population":"town","posted":"32648786422","previous_hash":"e43ba970adf283abe8dd5c941a6b527f7ad4d3062a2c9641bbbf4cbf1aaa9605","project":"kidney","reservation":"res_000000000000000000000013","sequence":9,"time":"2026-03-01T12:00:00Z","units":"90000000000"}','f7be690a116d787ae106fb6c07415635e47c7ad05be3c2082f91be1120861844','5v1Qo10buQWpjrXrJ17BQd4vjmkrYT2W99T3k6EuNgCgL8WCNT06n3mfJrCbXL56DOPvjYlvreek8NDPyUR6AA==');
INSERT INTO "ledger_entries" VALUES('town',10,'{"actor":"prn_000000000000000000000006","answer_digest":"e6dcc2d4f3922416478eca6a3f5ecb592ab0a4c121386990a46904fc9b403ce1","dataset":"cohort","epoch":1,"format":2,"key_id":"key_ec75421b35015cbcb19ff1307901beb5","kind":"charge","limit":"4000000000000","mechanism":[{"copies":1,"distribution":"discrete_gaussian","norm":"L2 squared","scales":["1190238089964","1190238089964"],"sensitivity":"1770833388499060654086","statistic":"xtx"},{"copies":1,"distribution":"discrete_gaussian","norm":"L2 squared","scales":["923803919241","923803919241"],"sensitivity":"885416694249530327043","statistic":"xty"},{"copies":1,"distribution":"discrete_gaussian","norm":"L2 squared","scales":["1178511320335","1178511320335"],"sensitivity":"295138898083176775681","statistic":"yty"}],"pending":"87500000000","population":"town","posted":"35148786422","previous_hash":"f7be690a116d787ae106fb6c07415635e47c7ad05be3c2082f91be1120861844","project":"kidney","release":"rel_000000000000000000000015","request_digest":"30d2e7acb4b76523b8b88abc64a35df96c55378cbb52f419b7ee803056914d81","reservation":"res_000000000000000000000013","sequence":10,"snapshot":"5280656eb812aa835e4b88f780d85c43faaadd90326fcd264e70f9597eb23929","time":"2026-03-01T12:00:00Z","units":"2500000000"}','7487d3ae146926b95546116d0d2791e29d7f48e010db0b122f68446608f66b1e','oMV5neowMmRX9MW0xelSLwCV6KgZbd8nx17nM8TPduBEZNvLuKBn5hayojRKUWnl1noqGRHyM5rHphBYfAe/DA==');
INSERT INTO "ledger_entries" VALUES('town',11,'{"actor":"prn_000000000000000000000004","approved_by":"prn_000000000000000000000004","epoch":1,"format":2,"key_id":"key_ec75421b35015cbcb19ff1307901beb5","kind":"limit","limit":"2250000000000","pending":"87500000000","population":"town","posted":"35148786422","previous_hash":"7487d3ae146926b95546116d0d2791e29d7f48e010db0b122f68446608f66b1e","reason":"a shorter study","sequence":11,"time":"2026-03-01T12:00:00Z","units":"2250000000000"}','c3e1751e18fada55d53b8606d6ae509676a3ac89471f15e282bb06e9edba919d','5vX3peTR1iklb8NCMvriLih+OxgfViMC2tlD2TPZjNZcxY3pVPuEtR4Nrlu7jlYAmfmZqqFdxOYQ+qAo+e4KDQ==');
CREATE TABLE populations (
	name VARCHAR(63) NOT NULL, 
	adjacency VARCHAR(16) NOT NULL, 
	accountant VARCHAR(16) NOT NULL, 
	delta VARCHAR(32) NOT NULL, 
	limit_units BIGINT NOT NULL, 
	posted_units BIGINT NOT NULL, 
	pending_units BIGINT NOT NULL, 
	head_sequence BIGINT NOT NULL, 
	head_hash VARCHAR(64) NOT NULL, 
	created_at VARCHAR(32) NOT NULL, epoch INTEGER DEFAULT '1' NOT NULL, 
	CONSTRAINT pk_populations PRIMARY KEY (name), 
	CONSTRAINT ck_populations_within_limit CHECK (posted_units + pending_units <= limit_units), 
	CONSTRAINT ck_populations_amounts_not_negative CHECK (posted_units >= 0 AND pending_units >= 0)
);
INSERT INTO "populations" VALUES('town','add_remove','gdp','1e-06',2250000000000,35148786422,87500000000,11,'c3e1751e18fada55d53b8606d6ae509676a3ac89471f15e282bb06e9edba919d','2026-03-01T12:00:00Z',1);
INSERT INTO "populations" VALUES('valley','add_remove','gdp','1e-06',4000000000000,0,0,2,'b4dbc3e6752bfdc5dfec81727564fcfeb50686c0331e887246674ae841404e4e','2026-03-01T12:00:00Z',1);
CREATE TABLE principals (
	id VARCHAR(32) NOT NULL, 
	name VARCHAR(63) NOT NULL, 
	role VARCHAR(16) NOT NULL, 
	created_at VARCHAR(32) NOT NULL, 
	CONSTRAINT pk_principals PRIMARY KEY (id), 
	CONSTRAINT uq_principals_name UNIQUE (name)
);
INSERT INTO "principals" VALUES('prn_000000000000000000000004','root','admin','2026-03-01T12:00:00Z');
INSERT INTO "principals" VALUES('prn_000000000000000000000005','audra','auditor','2026-03-01T12:00:00Z');
INSERT INTO "principals" VALUES('prn_000000000000000000000006','ada','analyst','2026-03-01T12:00:00Z');
INSERT INTO "principals" VALUES('prn_000000000000000000000007','ben','analyst','2026-03-01T12:00:00Z');
CREATE TABLE proposals (
	id VARCHAR(32) NOT NULL, 
	population VARCHAR(63) NOT NULL, 
	scope VARCHAR(16) NOT NULL, 
	label VARCHAR(63) NOT NULL, 
	limit_units BIGINT NOT NULL, 
	from_units BIGINT NOT NULL, 
	reason TEXT NOT NULL, 
	proposed_by VARCHAR(32) NOT NULL, 
	proposed_at VARCHAR(32) NOT NULL, 
	state VARCHAR(16) NOT NULL, 
	decided_by VARCHAR(32), 
	decided_at VARCHAR(32), 
	CONSTRAINT pk_proposals PRIMARY KEY (id), 
	CONSTRAINT fk_proposals_population_populations FOREIGN KEY(population) REFERENCES populations (name), 
	CONSTRAINT fk_proposals_proposed_by_principals FOREIGN KEY(proposed_by) REFERENCES principals (id), 
	CONSTRAINT fk_proposals_decided_by_principals FOREIGN KEY(decided_by) REFERENCES principals (id)
);
INSERT INTO "proposals" VALUES('prp_000000000000000000000017','town','','',2250000000000,4000000000000,'a shorter study','prn_000000000000000000000004','2026-03-01T12:00:00Z','applied','prn_000000000000000000000004','2026-03-01T12:00:00Z');
INSERT INTO "proposals" VALUES('prp_000000000000000000000019','town','','',3240000000000,2250000000000,'a longer study','prn_000000000000000000000004','2026-03-01T12:00:00Z','open',NULL,NULL);
CREATE TABLE releases (
	id VARCHAR(32) NOT NULL, 
	dataset_id VARCHAR(32) NOT NULL, 
	population VARCHAR(63) NOT NULL, 
	sequence BIGINT NOT NULL, 
	request_digest VARCHAR(64) NOT NULL, 
	answer TEXT NOT NULL, 
	CONSTRAINT pk_releases PRIMARY KEY (id), 
	CONSTRAINT fk_releases_dataset_id_datasets FOREIGN KEY(dataset_id) REFERENCES datasets (id), 
	CONSTRAINT fk_releases_entry FOREIGN KEY(population, sequence) REFERENCES ledger_entries (population, sequence), 
	CONSTRAINT uq_releases_population UNIQUE (population, sequence)
);
INSERT INTO "releases" VALUES('rel_000000000000000000000009','ds_000000000000000000000002','town',3,'1b7b6f9212bad272d2526bdfdf8d7cd38db683f2a39bc3be09deca4c7b64c87c','{"id":"rel_000000000000000000000009","dataset":"cohort","kind":"gram","created_at":"2026-03-01T12:00:00Z","request":{"kind":"gram","features":["age","sex","weight"],"targets":["kappa"],"intercept":true,"rows":{"map":"box"},"statistics":["xtx","xty","yty"],"mechanism":"gaussian","calibration":"analytic","price":{"mu":0.05},"shares":{"xtx":0.5,"xty":0.415,"yty":0.085},"fresh":false},"features":[{"name":"age","type":"numeric","unit":"years","lower":50.0,"upper":100.0,"missing":"complete"},{"name":"sex","type":"categorical","unit":null,"levels":["F","M","X"],"missing":"complete"},{"name":"weight","type":"numeric","unit":"kg","lower":40.0,"upper":160.0,"missing":"midpoint"}],"terms":[{"name":"(constant)","kind":"constant"},{"name":"age","kind":"numeric","column":"age","center":75.0,"scale":25.0,"unit":"years"},{"name":"sex[M]","kind":"level","column":"sex","level":"M"},{"name":"sex[X]","kind":"level","column":"sex","level":"X"},{"name":"weight","kind":"numeric","column":"weight","center":100.0,"scale":60.0,"unit":"kg"}],"targets":[{"name":"kappa","kind":"numeric","column":"kappa","center":3.0,"scale":3.0,"unit":"mg/dL"}],"statistics":{"xtx":{"shape":[5,5],"packing":"upper","step":5.82085491020516e-11,"values":[79.99999997508674,9.178017990440717,23.99999996425995,23.999999958846555,-2.7385463306418827,39.62958735716055,4.383593567435661,0.6273165463726861,3.2537192782464412,24.00000004295791,3.7544514170823285e-8,-1.7568416796128974,24.000000026717725,-2.163422856372655,30.557286204052936]},"xty":{"shape":[5,1],"packing":"full","step":5.82085491020516e-11,"values":[7.382479735206884,-1.6783198315414833,6.339274133517127,-1.8595722986420782,-0.94935814364533]},"yty":{"shape":[1],"packing":"full","step":5.82085491020516e-11,"values":[35.24686850129216]}},"noise":{"distribution":"discrete_gaussian","sd":{"xtx_diagonal":89.44271910002648,"xtx_offdiagonal":89.44271910002648,"xty":62.09204205656312,"yty":68.59943405704351}},"cost":{"units":"2500000000","mu":0.05,"rho":0.00125,"epsilon":0.189213173,"delta":1e-6,"share_of_budget":0.000625}}');
INSERT INTO "releases" VALUES('rel_00000000000000000000000c','ds_000000000000000000000002','town',5,'c25420a7e807ac39e50ec928c26c82fdfa00729983cb586df4557485f4e50a8a','{"id":"rel_00000000000000000000000c","dataset":"cohort","kind":"gram","created_at":"2026-03-01T12:00:00Z","request":{"kind":"gram","features":["age","sex"],"targets":["kappa"],"intercept":true,"rows":{"map":"ball","norm":1.5},"statistics":["xtx","xty","yty"],"mechanism":"gaussian","calibration":"analytic","price":{"mu":0.05},"shares":{"xtx":0.5,"xty":0.415,"yty":0.085},"fresh":false},"features":[{"name":"age","type":"numeric","unit":"years","lower":50.0,"upper":100.0,"missing":"complete"},{"name":"sex","type":"categorical","unit":null,"levels":["F","M","X"],"missing":"complete"}],"terms":[{"name":"(constant)","kind":"constant"},{"name":"age","kind":"numeric","column":"age","center":75.0,"scale":25.0,"unit":"years"},{"name":"sex[M]","kind":"level","column":"sex","level":"M"},{"name":"sex[X]","kind":"level","column":"sex","level":"X"}],"targets":[{"name":"kappa","kind":"numeric","column":"kappa","center":3.0,"scale":3.0,"unit":"mg/dL"}],"statistics":{"xtx":{"shape":[4,4],"packing":"upper","step":5.82085491020516e-11,"values":[74.91445931135137,8.852377738678918,21.14118914036923,21.7732701523554,35.291084470096756,3.5408929481811424,1.1443768414539721,21.141189113302257,-3.486692091212891e-8,21.773270119875033]},"xty":{"shape":[4,1],"packing":"full","step":5.82085491020516e-11,"values":[6.617902342333326,-1.1678719956816968,5.723724790056448,-2.0086002876344837]},"yty":{"shape":[1],"packing":"full","step":5.82085491020516e-11,"values":[32.94508905141144]}},"noise":{"distribution":"discrete_gaussian","sd":{"xtx_diagonal":63.63928661696331,"xtx_offdiagonal":44.99977111676707,"xty":46.56891311033335,"yty":68.59943405704351}},"cost":{"units":"2500000000","mu":0.05,"rho":0.00125,"epsilon":0.189213173,"delta":1e-6,"share_of_budget":0.000625}}');
INSERT INTO "releases" VALUES('rel_00000000000000000000000e','ds_000000000000000000000002','town',6,'a13287510d1e1f978d3d9e8df01e00bf8f5ed94e11279b5d3fcb57990c6f850c','{"id":"rel_00000000000000000000000e","dataset":"cohort","kind":"gram","created_at":"2026-03-01T12:00:00Z","request":{"kind":"gram","features":["age"],"targets":["kappa"],"intercept":true,"rows":{"map":"box"},"statistics":["xtx","xty","yty"],"mechanism":"gaussian","calibration":"analytic","price":{"mu":0.01},"shares":{"xtx":0.5,"xty":0.415,"yty":0.085},"fresh":false},"features":[{"name":"age","type":"numeric","unit":"years","lower":50.0,"upper":100.0,"missing":"complete"}],"terms":[{"name":"(constant)","kind":"constant"},{"name":"age","kind":"numeric","column":"age","center":75.0,"scale":25.0,"unit":"years"}],"targets":[{"name":"kappa","kind":"numeric","column":"kappa","center":3.0,"scale":3.0,"unit":"mg/dL"}],"statistics":{"xtx":{"shape":[2,2],"packing":"upper","step":5.82085491020516e-11,"values":[79.99999997508674,9.178017990440717,39.62958735716055]},"xty":{"shape":[2,1],"packing":"full","step":5.82085491020516e-11,"values":[7.382479735206884,-1.6783198315414833]},"yty":{"shape":[1],"packing":"full","step":5.82085491020516e-11,"values":[35.24686850129216]}},"noise":{"distribution":"discrete_gaussian","sd":{"xtx_diagonal":89.44271910002648,"xtx_offdiagonal":89.44271910002648,"xty":62.09204205656312,"yty":68.59943405704351}},"cost":{"units":"0","mu":0.0,"rho":0.0,"epsilon":0.0,"delta":1e-6,"share_of_budget":0.0},"derived_from":"rel_000000000000000000000009"}');
INSERT INTO "releases" VALUES('rel_000000000000000000000011','ds_000000000000000000000002','town',8,'48a07d0c49d08132aaf04857068f84fba29561bb0d7627c1e3f8ea8e02493b7a','{"id":"rel_000000000000000000000011","dataset":"cohort","kind":"gram","created_at":"2026-03-01T12:00:00Z","request":{"kind":"gram","features":["age","sex"],"targets":["kappa"],"intercept":true,"rows":{"map":"box"},"statistics":["xtx","xty","yty","lambda_min"],"mechanism":"laplace","calibration":"analytic","price":{"epsilon":0.2},"shares":{"xtx":0.3325,"xty":0.57,"yty":0.0475,"lambda_min":0.05},"fresh":false},"features":[{"name":"age","type":"numeric","unit":"years","lower":50.0,"upper":100.0,"missing":"complete"},{"name":"sex","type":"categorical","unit":null,"levels":["F","M","X"],"missing":"complete"}],"terms":[{"name":"(constant)","kind":"constant"},{"name":"age","kind":"numeric","column":"age","center":75.0,"scale":25.0,"unit":"years"},{"name":"sex[M]","kind":"level","column":"sex","level":"M"},{"name":"sex[X]","kind":"level","column":"sex","level":"X"}],"targets":[{"name":"kappa","kind":"numeric","column":"kappa","center":3.0,"scale":3.0,"unit":"mg/dL"}],"statistics":{"xtx":{"shape":[4,4],"packing":"upper","step":5.82085491020516e-11,"values":[80.00000004179374,9.178018057147714,24.000000030966948,24.000000025553554,39.629587429280946,4.383593639556054,0.6273165019013546,24.000000003899974,-1.5134222766533418e-9,23.99999999307318]},"xty":{"shape":[4,1],"packing":"full","step":5.82085491020516e-11,"values":[7.382479712389133,-1.6783198543592346,6.3392741106993755,-1.8595723214598294]},"yty":{"shape":[1],"packing":"full","step":5.82085491020516e-11,"values":[35.24686848388781]},"lambda_min":{"shape":[],"packing":"full","step":5.82085491020516e-11,"values":[7.983328216861046]}},"noise":{"distribution":"discrete_laplace","sd":{"xtx_diagonal":127.59821615399997,"xtx_offdiagonal":127.59821615399997,"xty":37.216146378274,"yty":148.86458551301368,"lambda_min":424.2640687613201}},"cost":{"units":"27648786422","mu":0.16627924230642863,"rho":0.013824393211,"epsilon":0.684071769,"delta":1e-6,"pure_epsilon":0.1999999999998712,"share_of_budget":0.0069121966055}}');
INSERT INTO "releases" VALUES('rel_000000000000000000000015','ds_000000000000000000000002','town',10,'30d2e7acb4b76523b8b88abc64a35df96c55378cbb52f419b7ee803056914d81','{"id":"rel_000000000000000000000015","dataset":"cohort","kind":"gram","created_at":"2026-03-01T12:00:00Z","request":{"kind":"gram","features":["height"],"targets":["kappa"],"intercept":true,"rows":{"map":"box"},"statistics":["xtx","xty","yty"],"mechanism":"gaussian","calibration":"analytic","price":{"mu":0.05},"shares":{"xtx":0.5,"xty":0.415,"yty":0.085},"fresh":true},"features":[{"name":"height","type":"numeric","unit":"cm","lower":140.0,"upper":200.0,"missing":"indicator"}],"terms":[{"name":"(constant)","kind":"constant"},{"name":"height","kind":"numeric","column":"height","center":170.0,"scale":30.0,"unit":"cm"},{"name":"height[missing]","kind":"missing","column":"height"}],"targets":[{"name":"kappa","kind":"numeric","column":"kappa","center":3.0,"scale":3.0,"unit":"mg/dL"}],"statistics":{"xtx":{"shape":[3,3],"packing":"upper","step":5.82085491020516e-11,"values":[79.9999999585555,-0.4872321576985714,7.999999947728723,34.041056511439216,5.3493656624785424e-8,8.000000048080262]},"xty":{"shape":[3,1],"packing":"full","step":5.82085491020516e-11,"values":[7.3824797673962115,-0.3249674811348323,-0.1224679435320502]},"yty":{"shape":[1],"packing":"full","step":5.82085491020516e-11,"values":[35.246868544308285]}},"noise":{"distribution":"discrete_gaussian","sd":{"xtx_diagonal":69.28203230280161,"xtx_offdiagonal":69.28203230280161,"xty":53.77328579380747,"yty":68.59943405704351}},"cost":{"units":"2500000000","mu":0.05,"rho":0.00125,"epsilon":0.189213173,"delta":1e-6,"share_of_budget":0.000625}}');
CREATE TABLE reservations (
	id VARCHAR(32) NOT NULL, 
	population VARCHAR(63) NOT NULL, 
	dataset_id VARCHAR(32) NOT NULL, 
	principal_id VARCHAR(32) NOT NULL, 
	project VARCHAR(63) NOT NULL, 
	study_id VARCHAR(32), 
	units BIGINT NOT NULL, 
	drawn_units BIGINT NOT NULL, 
	state VARCHAR(16) NOT NULL, 
	outcome VARCHAR(16) NOT NULL, 
	request_digest VARCHAR(64) NOT NULL, 
	details TEXT NOT NULL, 
	owner VARCHAR(32) NOT NULL, 
	created_at VARCHAR(32) NOT NULL, 
	expires_at VARCHAR(32) NOT NULL, 
	sequence BIGINT NOT NULL, 
	CONSTRAINT pk_reservations PRIMARY KEY (id), 
	CONSTRAINT ck_reservations_drawn_within CHECK (drawn_units >= 0 AND drawn_units <= units), 
	CONSTRAINT fk_reservations_dataset_id_datasets FOREIGN KEY(dataset_id) REFERENCES datasets (id), 
	CONSTRAINT fk_reservations_population_populations FOREIGN KEY(population) REFERENCES populations (name), 
	CONSTRAINT fk_reservations_principal_id_principals FOREIGN KEY(principal_id) REFERENCES principals (id), 
	CONSTRAINT fk_reservations_study_id_reservations FOREIGN KEY(study_id) REFERENCES reservations (id)
);
INSERT INTO "reservations" VALUES('job_00000000000000000000000b','town','ds_000000000000000000000002','prn_000000000000000000000006','',NULL,2500000000,2500000000,'closed','done','c25420a7e807ac39e50ec928c26c82fdfa00729983cb586df4557485f4e50a8a','{"duration_ms":5,"request":"{\"kind\": \"gram\", \"features\": [\"age\", \"sex\"], \"targets\": [\"kappa\"], \"intercept\": true, \"rows\": {\"map\": \"ball\", \"norm\": 1.5}, \"statistics\": [\"xtx\", \"xty\", \"yty\"], \"mechanism\": \"gaussian\", \"calibration\": \"analytic\", \"price\": {\"mu\": 0.05}, \"shares\": {\"xtx\": 0.5, \"xty\": 0.415, \"yty\": 0.085}, \"fresh\": false}"}','wrk_00000000000000000000000a','2026-03-01T12:00:00Z','',4);
INSERT INTO "reservations" VALUES('job_000000000000000000000010','town','ds_000000000000000000000002','prn_000000000000000000000007','',NULL,27648786422,27648786422,'closed','done','48a07d0c49d08132aaf04857068f84fba29561bb0d7627c1e3f8ea8e02493b7a','{"duration_ms":5,"request":"{\"kind\": \"gram\", \"features\": [\"age\", \"sex\"], \"targets\": [\"kappa\"], \"intercept\": true, \"rows\": {\"map\": \"box\"}, \"statistics\": [\"xtx\", \"xty\", \"yty\", \"lambda_min\"], \"mechanism\": \"laplace\", \"calibration\": \"analytic\", \"price\": {\"epsilon\": 0.2}, \"shares\": {\"xtx\": 0.3325, \"xty\": 0.57, \"yty\": 0.0475, \"lambda_min\": 0.05}, \"fresh\": false}"}','wrk_00000000000000000000000f','2026-03-01T12:00:00Z','',7);
INSERT INTO "reservations" VALUES('res_000000000000000000000013','town','ds_000000000000000000000002','prn_000000000000000000000006','kidney',NULL,90000000000,2500000000,'open','running','','{"id":"res_000000000000000000000013","dataset":"cohort","population":"town","state":"open","reserved":{"units":"90000000000","mu":0.3,"rho":0.045,"epsilon":1.29170994,"delta":1e-6},"drawn":{"units":"0","mu":0.0,"rho":0.0,"epsilon":0.0,"delta":1e-6},"remaining":{"units":"90000000000","mu":0.3,"rho":0.045,"epsilon":1.29170993,"delta":1e-6},"created_at":"2026-03-01T12:00:00Z","expires_at":"2027-02-23T07:06:40Z","project":"kidney"}','','2026-03-01T12:00:00Z','2027-02-23T07:06:40Z',9);
CREATE TABLE seal (
	id INTEGER NOT NULL, 
	reason TEXT NOT NULL, 
	sealed_at VARCHAR(32) NOT NULL, 
	CONSTRAINT pk_seal PRIMARY KEY (id)
);
INSERT INTO "seal" VALUES(1,'','');
CREATE TABLE shares (
	population VARCHAR(63) NOT NULL, 
	scope VARCHAR(16) NOT NULL, 
	label VARCHAR(63) NOT NULL, 
	limit_units BIGINT, 
	posted_units BIGINT NOT NULL, 
	pending_units BIGINT NOT NULL, 
	CONSTRAINT pk_shares PRIMARY KEY (population, scope, label), 
	CONSTRAINT ck_shares_amounts_not_negative CHECK (posted_units >= 0 AND pending_units >= 0), 
	CONSTRAINT ck_shares_within_limit CHECK (limit_units IS NULL OR posted_units + pending_units <= limit_units), 
	CONSTRAINT fk_shares_population_populations FOREIGN KEY(population) REFERENCES populations (name)
);
INSERT INTO "shares" VALUES('town','analyst','prn_000000000000000000000006',NULL,7500000000,87500000000);
INSERT INTO "shares" VALUES('town','analyst','prn_000000000000000000000007',NULL,27648786422,0);
INSERT INTO "shares" VALUES('town','project','kidney',NULL,2500000000,87500000000);
CREATE TABLE signing_keys (
	key_id VARCHAR(40) NOT NULL, 
	public_key VARCHAR(44) NOT NULL, 
	created_at VARCHAR(32) NOT NULL, 
	previous VARCHAR(40) NOT NULL, 
	endorsement VARCHAR(88) NOT NULL, 
	CONSTRAINT pk_signing_keys PRIMARY KEY (key_id), 
	CONSTRAINT uq_signing_keys_previous UNIQUE (previous)
);
INSERT INTO "signing_keys" VALUES('key_ec75421b35015cbcb19ff1307901beb5','fk+1G+AlMCoQmWMm06UcYzSqCMBscJln/qMNaFyyPFk=','2026-03-01T12:00:00Z','','');
CREATE TABLE snapshots (
	digest VARCHAR(64) NOT NULL, 
	population VARCHAR(63) NOT NULL, 
	CONSTRAINT pk_snapshots PRIMARY KEY (digest), 
	CONSTRAINT fk_snapshots_population_populations FOREIGN KEY(population) REFERENCES populations (name)
);
INSERT INTO "snapshots" VALUES('29ea96e3f5d2a859f9e731396b1de20587aaee0711f986f9e3ebf78e6e01f02b','town');
INSERT INTO "snapshots" VALUES('b4af71be032d58092d0cccc7bdb6c5a176fe5e175812ca73c489f075837cb108','town');
INSERT INTO "snapshots" VALUES('d65600d0d41962fd3224a7aa7938af2dd43c477b0b31a1158e01d5ccd5cc089b','valley');
INSERT INTO "snapshots" VALUES('f16759b4f337b6c24aa9368c1025ea792a1fd02eb373606992d322ab44df914e','valley');
CREATE TABLE tokens (
	id VARCHAR(32) NOT NULL, 
	principal_id VARCHAR(32) NOT NULL, 
	secret_hash VARCHAR(64) NOT NULL, 
	created_at VARCHAR(32) NOT NULL, 
	expires_at VARCHAR(32) NOT NULL, 
	revoked_at VARCHAR(32), 
	CONSTRAINT pk_tokens PRIMARY KEY (id), 
	CONSTRAINT fk_tokens_principal_id_principals FOREIGN KEY(principal_id) REFERENCES principals (id)
);
INSERT INTO "tokens" VALUES('0000000000000001','prn_000000000000000000000004','050fea273d55d71e26c76a7579d08148640a6f36d5edb6d75eb64fe2b6485ee0','2026-03-01T12:00:00Z','2026-05-30T12:00:00Z',NULL);
INSERT INTO "tokens" VALUES('0000000000000002','prn_000000000000000000000005','fc8ffddb4bc3ab0849af1fd6ab535a4ac254bb13f2b3af04d31c3289e0dbb193','2026-03-01T12:00:00Z','2026-05-30T12:00:00Z',NULL);
INSERT INTO "tokens" VALUES('0000000000000003','prn_000000000000000000000006','ca077a94034ec36e57830a019211ddd346df7a0989afcdefeaf7c6933a2b11ad','2026-03-01T12:00:00Z','2026-05-30T12:00:00Z',NULL);
INSERT INTO "tokens" VALUES('0000000000000004','prn_000000000000000000000007','6bf328c08c2878d11d0a64812dcedefea7aeb6e124b0fd8fbe0cb0f0bab0aea9','2026-03-01T12:00:00Z','2026-05-30T12:00:00Z',NULL);
CREATE TABLE workers (
	id VARCHAR(32) NOT NULL, 
	beat BIGINT NOT NULL, 
	CONSTRAINT pk_workers PRIMARY KEY (id)
);
CREATE INDEX ix_releases_dataset_request ON releases (dataset_id, request_digest);
CREATE TRIGGER ledger_entries_no_update BEFORE UPDATE ON ledger_entries BEGIN SELECT RAISE(ABORT, 'ledger_entries is append-only'); END;
CREATE TRIGGER ledger_entries_no_delete BEFORE DELETE ON ledger_entries BEGIN SELECT RAISE(ABORT, 'ledger_entries is append-only'); END;
CREATE TRIGGER releases_no_update BEFORE UPDATE ON releases BEGIN SELECT RAISE(ABORT, 'releases is append-only'); END;
CREATE TRIGGER releases_no_delete BEFORE DELETE ON releases BEGIN SELECT RAISE(ABORT, 'releases is append-only'); END;
CREATE TRIGGER snapshots_no_update BEFORE UPDATE ON snapshots BEGIN SELECT RAISE(ABORT, 'snapshots is append-only'); END;
CREATE TRIGGER snapshots_no_delete BEFORE DELETE ON snapshots BEGIN SELECT RAISE(ABORT, 'snapshots is append-only'); END;
CREATE INDEX ix_reservations_state ON reservations (state);
CREATE INDEX ix_reservations_request_digest ON reservations (request_digest);
CREATE TRIGGER idempotency_keys_no_update BEFORE UPDATE ON idempotency_keys WHEN OLD.release_id IS NOT NULL OR NEW.principal_id <> OLD.principal_id OR NEW.key <> OLD.key OR NEW.fingerprint <> OLD.fingerprint OR (NEW.reservation_id IS DISTINCT FROM OLD.reservation_id AND NOT EXISTS (SELECT 1 FROM reservations WHERE id = OLD.reservation_id AND state = 'closed')) BEGIN SELECT RAISE(ABORT, 'idempotency_keys: a key that has its answer, or waits for it, never changes'); END;
CREATE TRIGGER idempotency_keys_no_delete BEFORE DELETE ON idempotency_keys BEGIN SELECT RAISE(ABORT, 'idempotency_keys is append-only'); END;
CREATE INDEX ix_idempotency_keys_reservation_id ON idempotency_keys (reservation_id);
CREATE TRIGGER signing_keys_no_update BEFORE UPDATE ON signing_keys BEGIN SELECT RAISE(ABORT, 'signing_keys is append-only'); END;
CREATE TRIGGER signing_keys_no_delete BEFORE DELETE ON signing_keys BEGIN SELECT RAISE(ABORT, 'signing_keys is append-only'); END;
CREATE TRIGGER seal_stays BEFORE UPDATE ON seal WHEN NEW.id <> OLD.id OR (OLD.reason <> '' AND NEW.reason = '' AND EXISTS (SELECT 1 FROM populations LEFT JOIN ledger_entries ON population = name AND sequence = head_sequence AND entry_hash = head_hash WHERE coalesce(payload, '') NOT LIKE '%"kind":"reconcile"%')) BEGIN SELECT RAISE(ABORT, 'the seal stays until every ledger is reconciled'); END;
COMMIT;
