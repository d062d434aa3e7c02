"""Says who is a member of a cluster at each change: `python -m chaos_run.lookout CLUSTER-FOLDER`.

Each line is a JSON list of names, the manager's first.
"""

from __future__ import annotations

import json
import queue
import sys
from pathlib import Path

from streammine.model.coordination import CoordinationEvent, MembersChanged
from streammine.runtime.coordinator import Coordinator
from streammine.runtime.standing import StandingCluster


def main() -> None:
    address = StandingCluster(Path(sys.argv[1])).address
    events: queue.SimpleQueue[CoordinationEvent] = queue.SimpleQueue()
    secret = address.keys().zookeeper_secret
    with Coordinator(address.zookeeper, address.name, secret, events.put) as service:
        service.start()
        while True:
            event = events.get()
            if isinstance(event, MembersChanged):
                print(json.dumps([member.name for member in event.members]), flush=True)


if __name__ == "__main__":
    main()
