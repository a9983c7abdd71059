"""Whether certificates that were taken are to be taken still."""

from collections.abc import Iterable

from cryptography import x509
from cryptography.exceptions import InvalidSignature


def signed_by_one(authorities: Iterable[bytes], certificate: bytes) -> bool:
    """Whether one of the authorities has signed a certificate itself; all are DER."""
    shown = x509.load_der_x509_certificate(certificate)
    return any(_signed(x509.load_der_x509_certificate(authority), shown) for authority in authorities)


def _signed(authority: x509.Certificate, certificate: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (InvalidSignature, TypeError, ValueError):
        return False
    return True
