"""Whether certificates that were taken are to be taken still."""

from collections.abc import Iterable

from cryptography import x509


def signed_by_one(authorities: Iterable[bytes], certificate: bytes) -> bool:
    """Whether one of the authorities has signed a certificate itself, as far as can be told; all are DER."""
    return any(_signed(authority, certificate) for authority in authorities)


def _signed(authority: bytes, certificate: bytes) -> bool:
    try:
        shown = x509.load_der_x509_certificate(certificate)
        shown.verify_directly_issued_by(x509.load_der_x509_certificate(authority))
    except Exception:  # of a kind of key that TLS takes and this library does not, for one
        return False
    return True
