#!/usr/bin/env python3
"""Answers every item with the number of bytes in its file."""
import json
import os

told, answers = os.fdopen(3), os.fdopen(4, "w")


def say(**message):
    print(json.dumps(message), file=answers, flush=True)


say(type="hello", version=1)
for line in told:
    message = json.loads(line)
    if message["type"] != "item":
        continue
    try:
        say(type="done", id=message["id"], output=str(os.path.getsize(message["item"])))
    except OSError as error:
        say(type="failed", id=message["id"], detail=str(error), retry=False)
