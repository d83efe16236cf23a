# Sends every command of a list to the cluster of ceph.conf, and says what became of each.
#
# The list is what a monitor of Ceph answers to "get_command_descriptions"; the manager's commands are in it, too. Without
# a list on the command line it asks the monitor for its own and prints it.

import json
import rados
import signal
import sys
import time

# Seconds that a command may take: none has anything to wait for. The bindings know no timeout: the alarm ends the script.
LIMIT = 20

# The flag of commands that the "ceph" program sends to the manager.
MGR = 8

# Arguments that must mean something for a command to get far; others are made up by their type.
VALUES = {
    "pool": "rbd", "poolstr": "rbd", "pool_name": "rbd", "srcpool": "rbd", "destpool": "rbd", "id": "0", "ids": ["0"],
    "pgid": "1.0", "who": "client.x", "entity": "client.x", "object": "thing", "var": "size", "addr": "10.9.9.9:0/1",
}
KINDS = {"CephInt": 1, "CephFloat": 0.5, "CephBool": True, "CephPgid": "1.0", "CephOsdName": "0", "CephPoolname": "rbd",
         "CephUUID": "00000000-0000-0000-0000-000000000001", "CephEntityAddr": "10.9.9.9:0/1", "CephIPAddr": "10.9.9.9"}


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
    print("to", kind, command, file=sys.stderr, flush=True)
    signal.alarm(LIMIT)
    text = json.dumps(command)
    if kind == "mgr":
        return cluster.mgr_command(text, b"")
    return cluster.mon_command(text, b"")


def try_all(cluster, listed):
    for described in listed.values():
        command = fill(described["sig"])
        for target in ["mon", "mgr"] if int(described.get("flags", 0)) & MGR else ["mon"]:
            began = time.monotonic()
            result, output, status = send(cluster, target, command)
            took = time.monotonic() - began
            print(json.dumps({"daemon": target, "command": command["prefix"], "result": result, "seconds": took,
                              "bytes": len(output), "status": status}), flush=True)


def main():
    with rados.Rados(conffile="") as cluster:
        if len(sys.argv) == 1:
            result, output, status = send(cluster, "mon", {"prefix": "get_command_descriptions"})
            print(output.decode())
            return
        with open(sys.argv[1]) as listed:
            try_all(cluster, json.load(listed))


main()
