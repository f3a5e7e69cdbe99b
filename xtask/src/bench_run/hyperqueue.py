"""Runs the lines of a file as tasks of HyperQueue, and prints the seconds that they took.

The package on PyPI contains the binding, a server and workers. It has no journal."""

import sys
import time

from hyperqueue import Job, LocalCluster
from hyperqueue.cluster import WorkerConfig

cores, tasks = int(sys.argv[1]), [line.split() for line in open(sys.argv[2])]
with LocalCluster(worker_config=WorkerConfig(cores=cores)) as cluster:
    client = cluster.client()
    job = Job()
    for task in tasks:
        job.program(task, stdout=None, stderr=None)
    start = time.monotonic()
    client.wait_for_jobs([client.submit(job)])
    print(f"took {time.monotonic() - start}", flush=True)
