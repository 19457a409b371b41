#!/usr/bin/env python3
"""Shows what compare.py measured. `report.py write DIR` makes peers.txt and, by plot.py, the pictures from DIR/peers.json. `report.py
table LOAD` prints the medians of docs/benchmarks/peers.json in Markdown, for docs/benchmarks.md (make docs)."""
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

PLOT = pathlib.Path(__file__).parent.parent / "plot.py"
# Column, metric, factor.
STORM = [
    ("jobs/s", "jobs_per_s", 1),
    ("first job after, ms", "first_ms", 1),
    ("PING p99, ms", "ping_p99_ms", 1),
    ("PING max, ms", "ping_max_ms", 1),
    ("commands a job", "commands", 1),
    ("Redis, us a job", "redis_us", 1),
    ("scheduler, us a job", "peer_us", 1),
    ("RSS, MiB", "rss_mib", 1),
]
STEADY = [
    ("late p50, ms", "late_p50_ms", 1),
    ("late p99, ms", "late_p99_ms", 1),
    ("early, %", "early", 100),
    ("not ready, %", "not_ready", 100),
    ("PING p99, ms", "ping_p99_ms", 1),
    ("PING max, ms", "ping_max_ms", 1),
    ("commands a job", "commands", 1),
    ("Redis, us a job", "redis_us", 1),
    ("scheduler, us a job", "peer_us", 1),
]


def short(value):
    """Three digits, without an exponent."""
    if abs(value) >= 99.95:
        return f"{float(f'{value:.3g}'):,.0f}"
    return f"{value:.3g}" if abs(value) >= 0.0005 else "0"


def columns(load):
    return STORM if load == "storm" else STEADY


def values(told, load, name, metric):
    """The values of all rounds; without the rounds in which no job became ready."""
    return [value for value in told["results"][load][name][metric] if value is not None]


def median(found):
    return statistics.median(found) if found else None


def title(told, load):
    if load == "storm":
        return f"{told['storm_jobs']:,} jobs fall due at one moment"
    return f"{int(load.removesuffix('/s')):,} jobs fall due each second, for {told['seconds']} s"


def markdown(told, load):
    yield "| | " + " | ".join(heading for heading, _, _ in columns(load)) + " |"
    yield "|---" * (len(columns(load)) + 1) + "|"
    for name in told["peers"]:
        row = [name]
        for _, metric, factor in columns(load):
            found = values(told, load, name, metric)
            row.append(short(factor * median(found)) if found else "-")
        mark = "**" if name == "sidecar" else ""
        yield "| " + " | ".join(f"{mark}{cell}{mark}" for cell in row) + " |"


def text(told):
    """Every median, with the least and the greatest round."""
    machine = told["machine"]
    quiet = [short(median([one[key] for one in told["nobody"]])) for key in ("ping_p99_ms", "ping_max_ms")]
    yield f"Medians of {told['rounds']} rounds (min to max). Redis {machine['redis']}, {machine['cpus']} CPUs, nice {machine['nice']},"
    yield f"load average at the end {machine['load'][0]}. Without a scheduler: PING p99 {quiet[0]} ms, max {quiet[1]} ms."
    for load in told["results"]:
        yield f"\n{title(told, load)}"
        for heading, metric, factor in columns(load):
            yield f"\n  {heading}"
            for name in told["peers"]:
                found = [factor * value for value in values(told, load, name, metric)]
                shown = f"{short(median(found)):>10}   ({short(min(found))} to {short(max(found))})" if found else "         -"
                yield f"    {name:<14}{shown}"


def bar(told, name, heading, label, series):
    """A chart for plot.py: a bar for each peer and each (name, load, metric) of the series. An axis of decades has no place for 0."""
    shown = [(one, [median(values(told, load, peer, metric)) for peer in told["peers"]]) for one, load, metric in series]
    return {
        "name": f"peers_{name}",
        "title": heading,
        "kind": "bar",
        "y": {"label": label, "log": True},
        "categories": told["peers"],
        "marked": "sidecar",
        "series": [{"name": one, "values": [value if value and value > 0 else None for value in found]} for one, found in shown],
    }


def charts(told):
    storm = title(told, "storm")
    yield bar(told, "rate", f"{storm}: jobs that become ready", "jobs/s", [("jobs/s", "storm", "jobs_per_s")])
    yield bar(told, "ping", f"{storm}: another client's PING", "ms", [("p99", "storm", "ping_p99_ms"), ("max", "storm", "ping_max_ms")])
    for name, metric in (("redis", "redis_us"), ("scheduler", "peer_us")):
        series = [("all at one moment", "storm", metric), ("1,000 jobs/s", "1000/s", metric)]
        yield bar(told, name, f"Processor time of {'Redis' if name == 'redis' else 'the scheduler'} for a job", "us", series)
    for load in (load for load in told["results"] if load != "storm"):
        series = [("p50", load, "late_p50_ms"), ("p99", load, "late_p99_ms")]
        yield bar(told, f"late_{load.removesuffix('/s')}", f"{title(told, load)}: how late they are ready", "ms", series)


def write(told, folder):
    (folder / "peers.txt").write_text("\n".join(text(told)) + "\n")
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump({"charts": list(charts(told))}, file)
        file.flush()
        subprocess.run([sys.executable, PLOT, file.name, folder], check=True)


def main():
    verb, argument = sys.argv[1:]
    folder = pathlib.Path(argument if verb == "write" else "docs/benchmarks")
    told = json.loads((folder / "peers.json").read_text())
    if verb == "write":
        write(told, folder)
    else:
        print("\n".join(markdown(told, argument)))


main()
