"""`make cases`: the score of each kind, with what is wrong."""

from __future__ import annotations

import sys
from collections import Counter

from tests.cases.stack import cases, faults


def main() -> int:
    """Print every case that is answered wrongly and a score a kind; 1 where one is."""
    right: Counter[str] = Counter()
    all_of: Counter[str] = Counter()
    for case in cases():
        found = faults(case)
        all_of[case.kind] += 1
        right[case.kind] += not found
        for fault in found:
            print(f"{case.id}: {fault}")
    for kind, count in all_of.items():
        print(f"{kind}: {right[kind]} of {count}")
    return int(right != all_of)


if __name__ == "__main__":
    sys.exit(main())
