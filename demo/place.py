"""A process that places orders: `python -m demo.place --shop FILE --storage URL ORDER...`.

Prints one line of JSON per order. With `--announce` it stops at every point at which an effect is
half done, says so (`at ...`), and waits for a line on its standard input: the place to kill it.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from calandria import Runtime, Settings
from demo import catalogue, orders
from demo.shop import Shop


def main() -> None:
    """Place the orders named on the command line, in that order."""
    options = _parse()
    known = {order.id: order for order in catalogue.orders()}
    orders.use(Shop(options.shop, announce=_announce if options.announce else None))
    settings = Settings(lease_ttl=options.lease_ttl)
    with Runtime(storage=options.storage, settings=settings):
        for order_id in options.orders:
            result = orders.place(known[order_id])
            print(json.dumps({"order": order_id, "run": result.run_id}), flush=True)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shop", type=Path, required=True)
    parser.add_argument("--storage", required=True)
    parser.add_argument("--lease-ttl", type=float, default=60.0, help="seconds")
    parser.add_argument("--announce", action="store_true")
    parser.add_argument("orders", type=int, nargs="+")
    return parser.parse_args()


def _announce(point: str) -> None:
    print(f"at {point}", flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    main()
