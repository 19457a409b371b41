"""Hooks of schemathesis: random texts name no failure and no queue, so half of them become names that exist."""
import os
import urllib.parse
import zlib

import schemathesis

REFS = os.environ["QS_REFS"].split()
QUEUES = ["mail", "videos", "km", "private", "later"]


def replaced(value, names):
    digest = zlib.crc32(repr(value).encode())
    return names[digest // 2 % len(names)] if digest % 2 else value


@schemathesis.hook
def map_path_parameters(context, path_parameters):
    if path_parameters and "ref" in path_parameters:
        path_parameters["ref"] = replaced(path_parameters["ref"], REFS)
    return path_parameters


@schemathesis.hook
def filter_query(context, query):
    """An address that is too long is answered before the API sees it."""
    return len(urllib.parse.urlencode(query or {}, doseq=True)) < 12000


@schemathesis.hook
def map_query(context, query):
    if query and isinstance(query.get("queue"), str):
        query["queue"] = replaced(query["queue"], QUEUES)
    return query


@schemathesis.hook
def map_body(context, body):
    if isinstance(body, dict) and isinstance(body.get("refs"), list):
        body["refs"] = [replaced(ref, REFS) if isinstance(ref, str) else ref for ref in body["refs"]]
    return body
