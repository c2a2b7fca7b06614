"""Whom a card trusts and who it is: its `tls` as an `ssl.SSLContext`."""

from __future__ import annotations

import ssl
from pathlib import Path

import httpx

from aitest_lib.config.endpoint import Tls
from aitest_lib.errors import InputError
from aitest_lib.models.endpoint.wire import WireError

# What a server says (RFC 8446, 6.2) that does not like the certificate it got, or got none.
_ABOUT_OURS = (
    "CERTIFICATE_REQUIRED",
    "ALERT_BAD_CERTIFICATE",
    "ALERT_UNKNOWN_CA",
    "ALERT_CERTIFICATE_UNKNOWN",
    "ALERT_CERTIFICATE_EXPIRED",
    "ALERT_ACCESS_DENIED",
)
_VERSIONS = ("UNSUPPORTED_PROTOCOL", "ALERT_PROTOCOL_VERSION")
_OUT_OF_DATE = (9, 10)  # X509_V_ERR_CERT_NOT_YET_VALID, X509_V_ERR_CERT_HAS_EXPIRED


def tls_context(tls: Tls | None, base_dir: Path) -> ssl.SSLContext:
    """The context for all connections of a card; the CAs of `certifi` unless it names its own.

    A file that is missing or holds something else is an `InputError` that names its key.
    """
    tls = tls or Tls()
    # The environment's SSL_CERT_FILE would make the same card trust others elsewhere.
    context = httpx.create_ssl_context(trust_env=False) if tls.ca is None else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if tls.ca is not None:
        _load_ca(context, base_dir / tls.ca)
    if not tls.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if tls.cert is not None:
        _load_cert(context, base_dir / tls.cert, None if tls.key is None else base_dir / tls.key)
    elif tls.key is not None:
        raise InputError("endpoint.tls.key: got a key without a certificate; add `cert`")
    return context


def tls_error(error: ssl.SSLError) -> WireError | None:
    """What to do about a certificate or a TLS version that one side does not accept; None where `error` is something else."""
    if isinstance(error, ssl.SSLCertVerificationError):
        if error.verify_code in _OUT_OF_DATE:
            return WireError(
                f"its certificate is out of date ({error.verify_message})",
                connected=True,
                mend="renew the server's certificate, and check the clock of this machine",
            )
        return WireError(
            f"its certificate is not trusted ({error.verify_message})",
            connected=True,
            mend="set endpoint.tls.ca to the PEM file of its CA, or correct the host in the URL",
        )
    reason = error.reason or ""
    said = reason.lower().replace("_", " ")
    if any(problem in reason for problem in _VERSIONS):
        return WireError(f"its TLS version is too old ({said})", connected=True, mend="have the server offer TLS 1.2 or 1.3")
    if "ALERT_HANDSHAKE_FAILURE" in reason:
        return WireError(
            f"it ends the TLS handshake ({said})",
            connected=True,
            mend="set endpoint.tls.cert and endpoint.tls.key if it wants to know who asks, else have it offer TLS 1.2 or 1.3",
        )
    if any(alert in reason for alert in _ABOUT_OURS):
        return WireError(
            f"it does not accept our certificate, or the lack of one ({said})",
            connected=True,
            mend="set endpoint.tls.cert and endpoint.tls.key to a certificate that it knows",
        )
    return None


def _load_ca(context: ssl.SSLContext, path: Path) -> None:
    _readable(path, "ca")
    try:
        context.load_verify_locations(cafile=path)
    except (OSError, ssl.SSLError) as error:
        raise InputError(f"endpoint.tls.ca: {path} holds no certificate ({_reason(error)}); expected a PEM file") from None


def _load_cert(context: ssl.SSLContext, cert: Path, key: Path | None) -> None:
    _readable(cert, "cert")
    if key is not None:
        _readable(key, "key")
    try:
        # OpenSSL would ask for the password of an encrypted key on the terminal.
        context.load_cert_chain(cert, key, password=lambda: "")
    except (OSError, ssl.SSLError) as error:
        raise InputError(
            f"endpoint.tls.cert: {cert}{'' if key is None else f' with the key {key}'} cannot be used ({_reason(error)}); "
            "expected PEM files of a certificate and its key, not encrypted (`key` may be left out where `cert` holds both)"
        ) from None


def _readable(path: Path, key: str) -> None:
    try:
        path.open("rb").close()
    except OSError as error:
        raise InputError(
            f"endpoint.tls.{key}: cannot read {path}: {error.strerror}; give a file relative to the card"
        ) from None


def _reason(error: OSError) -> str:
    reason = error.reason if isinstance(error, ssl.SSLError) else error.strerror
    return (reason or "no PEM data").lower().replace("_", " ")
