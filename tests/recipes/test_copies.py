"""docs/recipes.md, DuckDB and Datasette: the queries of the page on a copy of a log."""
import json
import os
import subprocess
import unittest

from rig import BUILD, PROGRAM, Failures, block, until


class Copies(unittest.TestCase):
    def setUp(self):
        self.rig = Failures()
        self.addCleanup(self.rig.end)
        self.rig.begin()
        rig = self.rig.run_sidecar()
        rig.fail(3)
        rig.fail(2, queue="video", error=b"disk full\nline 2", payload=b"\xff\x00")
        until("the log has all", lambda: rig.failures() == 5)
        rig.run("audit", "requeue", rig.ref("job-1"))
        until("the log has the answer", lambda: rig.count("kind = 'requeued'") == 1)
        self.env = dict(os.environ, PATH=f"{BUILD}/venv/bin:{PROGRAM.parent}:{os.environ['PATH']}", QUEUE_SIDECAR_CONFIG=str(rig.config))

    def shell(self, text):
        done = subprocess.run(["sh", "-euc", text], cwd=self.rig.dir, env=self.env, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_duckdb(self):
        self.shell(block("duckdb-export.sh"))
        program = "import duckdb, json, sys\nduckdb.sql(sys.argv[1])\nprint(json.dumps(duckdb.sql(sys.argv[2]).fetchall(), default=str))"
        done = subprocess.run(["python3", "-c", program, block("duckdb-parquet.sql"), block("duckdb-by-hour.sql")], cwd=self.rig.dir, env=self.env,
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = sorted(tuple(row[1:]) for row in json.loads(done.stdout))
        self.assertEqual(rows, [("email", "reported", 3, 2, "550 no such mailbox"), ("video", "reported", 2, 2, "disk full")])
        for name in ("duckdb-parquet.sql", "duckdb-by-hour.sql"):
            (self.rig.dir / name).write_text(block(name))
        self.assertRegex(self.shell(block("duckdb.sh")), r"email .* reported .* 550 no such mailbox")

    def test_datasette(self):
        backup, serve = block("datasette.sh").splitlines()
        (self.rig.dir / "datasette.yaml").write_text(block("datasette.yaml"))
        self.shell(backup)

        def get(query):
            return json.loads(self.shell(f"{serve} --get '/failures/{query}'"))

        rows = sorted((row["queue"], row["reason"], row["failures"]) for row in get("by_hour.json?_shape=array"))
        self.assertEqual(rows, [("email", "reported", 3), ("video", "reported", 2)])
        self.assertEqual(sorted(row["job_id"] for row in get("open_failures.json?_shape=array")), ["job-2", "job-3", "job-4", "job-5"])
        self.assertEqual([row["failures"] for row in get("errors.json?_shape=array")], [3, 2])
        self.assertEqual([row["kind"] for row in get("job.json?_shape=array&job_id=job-1")], ["failed", "requeued"])


if __name__ == "__main__":
    unittest.main()
