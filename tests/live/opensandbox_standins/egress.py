#!/usr/bin/python3 -I
"""Stand-in for the egress sidecar: a firewall in the namespace that it shares with a sandbox, and the policy to read.

Addresses only: names need the real one's DNS proxy. In mode `dns` it enforces nothing, as the real one does for
connections to addresses.
"""

import http.server
import ipaddress
import json
import os
import signal
import subprocess

PORT = 18080
MODE = os.environ.get("OPENSANDBOX_EGRESS_MODE", "dns")
TOKEN = os.environ.get("OPENSANDBOX_EGRESS_TOKEN", "")
POLICY = json.loads(os.environ.get("OPENSANDBOX_EGRESS_RULES") or "{}")


def enforce():
    default = "drop" if POLICY.get("defaultAction", "deny") == "deny" else "accept"
    rules = [
        "table inet egress {",
        f"  chain output {{ type filter hook output priority 0; policy {default};",
        '    oifname "lo" accept',
        "    ct state established,related accept",
    ]
    for rule in POLICY.get("egress") or []:
        network = ipaddress.ip_network(rule["target"])
        family = "ip" if network.version == 4 else "ip6"
        rules.append(f"    {family} daddr {network} {'accept' if rule['action'] == 'allow' else 'drop'}")
    rules += ["  }", "}"]
    subprocess.run(["nft", "-f", "-"], input="\n".join(rules), text=True, check=True)


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *words):
        pass

    def do_GET(self):
        if self.path == "/healthz":
            self.answer(200, {"status": "ok"})
        elif TOKEN and self.headers.get("OPENSANDBOX-EGRESS-AUTH") != TOKEN:
            self.answer(401, {"code": "UNAUTHORIZED", "message": "a token is needed"})
        else:
            mode = "deny_all" if POLICY.get("defaultAction") == "deny" else "allow_all"
            self.answer(200, {"status": "ok", "mode": mode, "enforcementMode": MODE, "policy": POLICY})

    def answer(self, status, content):
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))  # one that ignores it makes each kill take ten seconds
    if MODE == "dns+nft":
        enforce()
    http.server.ThreadingHTTPServer(("0.0.0.0", PORT), Handler).serve_forever()
