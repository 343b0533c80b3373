"""`python -m model_servers.scripted_model --port 8000`: the scripted policy as an endpoint of its own.

Point the gym at it as at any endpoint: `++policy_base_url=http://127.0.0.1:8000/v1 ++policy_model_name=scripted_model`.
"""

import argparse

import uvicorn

from model_servers.scripted_model.endpoint import make_endpoint


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m model_servers.scripted_model", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=8000, help="port; 0 takes a free one (default: %(default)s)")
    options = parser.parse_args()
    uvicorn.run(make_endpoint(), host=options.host, port=options.port)


if __name__ == "__main__":
    main()
