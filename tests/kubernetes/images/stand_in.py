# Stands in for programs of others in the examples of deploy/: it runs until SIGTERM, and prints when it begins and ends.
#
#   stand_in.py waits             a worker or a web server that nothing is asked of
#   stand_in.py ends              a migration: it ends at once
#   stand_in.py token --file=F --mode=M    writes the first token to a file that appears as a whole
#   stand_in.py proxy HOST        passes connections to 127.0.0.1:6379 on to HOST:6379, as stunnel would
import asyncio
import os
import pathlib
import signal
import sys


async def copy(reader, writer):
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    writer.close()


async def serve(host):
    async def connected(reader, writer):
        try:
            there, back = await asyncio.open_connection(host, 6379)
        except OSError:
            writer.close()
            return
        await asyncio.gather(copy(reader, back), copy(there, writer))

    await asyncio.start_server(connected, "127.0.0.1", 6379)


def write_token(options):
    file = pathlib.Path(options["file"])
    fresh = file.with_name("new")
    fresh.write_text("first-token")
    fresh.chmod(int(options["mode"], 8))
    fresh.rename(file)


async def main(role, *rest):
    end = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, end.set)
    print(role, "begins", flush=True)
    if role == "token":
        write_token(dict(option.removeprefix("--").split("=", 1) for option in rest))
    if role == "proxy":
        await serve(*rest)
    if role != "ends":
        await end.wait()
    print(role, "ends", flush=True)
    os._exit(0)  # connections that are still open end with the process


asyncio.run(main(*sys.argv[1:]))
