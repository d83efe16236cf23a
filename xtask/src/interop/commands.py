# Sends every command of a list to the cluster of ceph.conf, and says what became of each.
#
# The list is what daemons of Ceph say of their commands: a JSON object of the daemon's kind ("osd", "mon") and its
# answer to "get_command_descriptions". Without a list on the command line it asks the cluster for its own and prints it.

import json
import rados
import sys
import time

# Seconds that a command may take: none has anything to wait for.
LIMIT = 10

# Arguments that must mean something for a command to get far; others are made up by their type.
VALUES = {
    "pool": "rbd", "poolstr": "rbd", "pool_name": "rbd", "srcpool": "rbd", "destpool": "rbd", "id": "0", "ids": ["0"],
    "pgid": "1.0", "who": "client.x", "entity": "client.x", "object": "thing", "var": "size", "addr": "10.9.9.9:0/1",
}
KINDS = {"CephInt": 1, "CephFloat": 0.5, "CephBool": True, "CephPgid": "1.0", "CephOsdName": "0", "CephPoolname": "rbd",
         "CephUUID": "00000000-0000-0000-0000-000000000001", "CephEntityAddr": "10.9.9.9:0/1", "CephIPAddr": "10.9.9.9"}


def descriptions(cluster):
    ask = json.dumps({"prefix": "get_command_descriptions"})
    answers = {"osd": cluster.osd_command(0, ask, b"", timeout=LIMIT),
               "mon": cluster.mon_command(ask, b"", timeout=LIMIT)}
    return {kind: json.loads(answer[1]) for kind, answer in answers.items()}


def fill(signature):
    """A command by its signature, with the arguments that it must have."""
    words = [part for part in signature if isinstance(part, str)]
    command = {"prefix": " ".join(words)}
    for part in signature:
        if isinstance(part, str) or str(part.get("req", "true")).lower() == "false":
            continue
        kind, name = part["type"], part["name"]
        value = VALUES.get(name, KINDS.get(kind, "x"))
        if kind == "CephChoices":
            value = part["strings"].split("|")[0]
        if part.get("n") == "N" and not isinstance(value, list):
            value = [value]
        command[name] = value
    return command


def send(cluster, kind, command):
    text = json.dumps(command)
    if kind == "osd":
        return cluster.osd_command(0, text, b"", timeout=LIMIT)
    return cluster.mon_command(text, b"", timeout=LIMIT)


def main():
    with rados.Rados(conffile="") as cluster:
        if len(sys.argv) == 1:
            print(json.dumps(descriptions(cluster)))
            return
        with open(sys.argv[1]) as listed:
            every = json.load(listed)
        for kind in ["osd", "mon"]:
            for described in every[kind].values():
                command = fill(described["sig"])
                began = time.monotonic()
                result, output, status = send(cluster, kind, command)
                took = time.monotonic() - began
                print(json.dumps({"daemon": kind, "command": command["prefix"], "result": result, "seconds": took,
                                  "bytes": len(output), "status": status}), flush=True)


main()
