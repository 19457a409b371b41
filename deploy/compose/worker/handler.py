import time


def handle(job):
    """Yours. Returns when the job is done; an exception is its failure, which the sidecar retries or ends."""
    print("at work on", job, flush=True)
    time.sleep(1)
    if b"hopeless" in job:
        raise ValueError("!550 no such mailbox")  # the "!" says that no retry can help
    if b"poison" in job:
        raise ValueError("451 try again later")
