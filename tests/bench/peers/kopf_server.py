"""kopf's webhook server without a cluster, on uvloop as with `kopf run`.

Arguments: port, certificate, key.
"""

import base64
import json
import sys
from typing import Any

import kopf
import uvloop
from rules import mutate, validate


async def review(data: Any, **_: Any) -> Any:
    """Return the response to a review; kopf decodes and encodes."""
    request = data["request"]
    response: dict[str, Any] = {"uid": request["uid"], "allowed": True}
    if message := validate(request["kind"]["kind"], request["object"]):
        response |= {"allowed": False, "status": {"code": 403, "message": message}}
    elif operations := mutate(request["object"]):
        response |= {
            "patchType": "JSONPatch",
            "patch": base64.b64encode(json.dumps(operations).encode()).decode(),
        }
    return {"apiVersion": data["apiVersion"], "kind": "AdmissionReview", "response": response}


async def main() -> None:
    port, certificate, key = sys.argv[1:4]
    server = kopf.WebhookServer(addr="127.0.0.1", port=int(port), certfile=certificate, pkeyfile=key)
    async for _ in server(review):
        pass


if __name__ == "__main__":
    uvloop.run(main())
