"""Foreign servers, clients and proxies judge HTTP/1.1, WebSocket and TLS of our programs.

Our client is decart-check, our server decart-standin. The judges are websockets, aiohttp, hypercorn and h11 of PyPI, curl,
nginx, HAProxy, squid, tinyproxy, and the programs of OpenSSL and GnuTLS. All run in a network namespace of their own.

    check_judges.py [--list] [WORD...]

scripts/test runs a sample, scripts/verify (DECART_VERIFY=1) all rows. With words, the rows whose name contains one of them.
Prints "ok NAME", "not ok NAME: why" or "skip NAME: why".
"""

import concurrent.futures
import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "..", "Host"))
from checks import NAMESPACES_UP, STANDIN, VERIFYING, Results, lacking  # noqa: E402
from judges import CHECK, ROWS, Lab, program  # noqa: E402
import judge_clients  # noqa: E402, F401
import judge_proxies  # noqa: E402, F401
import judge_servers  # noqa: E402, F401

INSIDE = "DECART_JUDGES_NAMESPACE"


def main():
    words = [word for word in sys.argv[1:] if word != "--list"]
    rows = [row for row in ROWS if not words or any(word in row.name for word in words)]
    if "--list" in sys.argv:
        print(*(f"{'sample ' if row.is_sample else '       '}{row.name}" for row in rows), sep="\n")
        return False
    rows = [row for row in rows if words or VERIFYING or row.is_sample]
    report = Results("judges")
    report.require(STANDIN, CHECK)
    if missing := lacking():
        report.skip(f"not installed: {missing}")
        return False
    if INSIDE not in os.environ:
        os.environ[INSIDE] = str(os.geteuid())
        os.execvp(NAMESPACES_UP[0], [*NAMESPACES_UP, sys.executable, *sys.argv])
    with tempfile.TemporaryDirectory(prefix="decart-judges-") as folder:
        lab = Lab(folder)
        try:
            with concurrent.futures.ThreadPoolExecutor(6) as pool:
                for row in rows:
                    pool.submit(report.perform, row.name, perform, report, row, lab)
        finally:
            lab.close()
    return report.failed


def perform(report, row, lab):
    if missing := [name for name in row.programs if not program(name)]:
        return report.skip(f"{row.name}: {', '.join(missing)} is not installed")
    if os.environ[INSIDE] != "0" and {"nginx", "squid"} & set(row.programs):
        return report.skip(f"{row.name}: needs root, as the server changes its user")
    row.function(lab)
    report(row.name)


if __name__ == "__main__":
    sys.exit(main())
