"""Who is asking: the card's `auth` as headers and query parameters, resolved at every call."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field

from aitest_lib.config.endpoint import ApiKey, Auth, Basic, Bearer
from aitest_lib.config.secrets import remember, resolve


@dataclass(frozen=True)
class Credentials:
    """What a call carries so that the endpoint lets it in."""

    headers: dict[str, str] = field(default_factory=dict)
    query: dict[str, str] = field(default_factory=dict)


def credentials(auth: Auth | None) -> Credentials:
    """Bearer (RFC 6750), basic (RFC 7617) or an API key. An unset reference is an `InputError`."""
    match auth:
        case Bearer(token=token):
            return Credentials(headers={"Authorization": f"Bearer {resolve(token)}"})
        case Basic(username=username, password=password):
            pair = base64.b64encode(f"{resolve(username)}:{resolve(password)}".encode()).decode()
            remember(pair)  # neither half is recognisable in it
            return Credentials(headers={"Authorization": f"Basic {pair}"})
        case ApiKey(key=key, query=str(query)):
            return Credentials(query={query: resolve(key)})
        case ApiKey(key=key, header=header):
            return Credentials(headers={header or "X-Api-Key": resolve(key)})
    return Credentials()
