"""A member is believed for a certificate that the deployment's authority has made for a UE, and that stands now."""

import datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from secret_cell import certified, now, refused

from hpfl.deployment.certificates import certified as certificate_for
from hpfl.deployment.certificates import init_authority
from hpfl.secrecy import CertificateTrust, CertifiedMember

DAY = datetime.timedelta(days=1)
TEXT = b"a channel's key"


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return init_authority(tmp_path_factory.mktemp("authority"))


def member_with(authority, name, *, role=None, validity=None, number=0):
    """A member with a certificate of its own kind."""
    key = ec.generate_private_key(ec.SECP256R1())
    return CertifiedMember(
        number, certificate_for(authority, key.public_key(), name, role=role, validity=validity), key
    )


def trust_in(*authorities, **options):
    return CertificateTrust(lambda: [one.certificate for one in authorities], now, **options)


def check(trust, member, text=TEXT):
    return trust.check(member.number, member.certificate, text, member.sign(TEXT))


def test_a_ue_is_believed_and_its_name_is_told(authority):
    assert check(trust_in(authority), member_with(authority, "ue-7")) == "ue-7"
    assert check(trust_in(authority), member_with(authority, "tram-12", role="ue")) == "tram-12"


@pytest.mark.parametrize("name", ["edge-1", "cloud"])
def test_an_edge_or_the_cloud_is_no_ue(authority, name):
    with refused(match="member 0: its certificate is not one of a UE's: it is made to serve others"):
        check(trust_in(authority), member_with(authority, name))


def test_the_authority_itself_is_no_ue(authority):
    with refused(match="its certificate is not one of a UE's"):
        check(trust_in(authority), CertifiedMember(0, authority.certificate, authority.key))


@pytest.mark.parametrize("start", [-3, 2])
def test_a_certificate_that_does_not_stand_now_is_refused(authority, start):
    validity = (now() + start * DAY, now() + (start + 1) * DAY)
    with refused(match="not now"):
        check(trust_in(authority), member_with(authority, "ue-7", validity=validity))


def test_a_certificate_that_expires_meanwhile_is_refused_though_it_was_believed_before(authority):
    clock = [now()]
    trust = CertificateTrust(lambda: [authority.certificate], lambda: clock[0])
    member = member_with(authority, "ue-7", validity=(now() - DAY, now() + DAY))
    assert check(trust, member) == "ue-7"
    clock[0] += 2 * DAY
    with refused(match="not now"):
        check(trust, member)


def test_a_certificate_of_another_authority_is_refused_and_so_is_one_that_was_taken_out(authority, tmp_path):
    other, trusted = init_authority(tmp_path), [authority]
    trust = CertificateTrust(lambda: [one.certificate for one in trusted], now)
    member, foreign = member_with(authority, "ue-7"), member_with(other, "ue-7")
    assert check(trust, member) == "ue-7"
    with refused(match="not issued by an authority of this deployment"):
        check(trust, foreign)
    trusted[:] = [other]
    assert check(trust, foreign) == "ue-7"
    with refused(match="not issued by an authority of this deployment"):
        check(trust, member)


def test_an_authority_of_the_same_name_and_another_key_is_another(authority):
    """Signed by a key of one's own, in the authority's name."""
    key, own = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    true = x509.load_der_x509_certificate(member_with(authority, "ue-7").certificate)
    builder = x509.CertificateBuilder(
        true.issuer, true.subject, own.public_key(), 7, now() - DAY, now() + DAY, list(true.extensions)
    )
    forged = CertifiedMember(0, builder.sign(key, hashes.SHA256()), own)
    with refused(match="not issued by an authority of this deployment"):
        check(trust_in(authority), forged)


def test_a_revoked_certificate_is_refused_from_then_on(authority):
    revoked = set()
    trust = trust_in(authority, is_revoked=lambda shown: shown.serial_number in revoked)
    member, other = member_with(authority, "ue-7"), member_with(authority, "ue-8")
    assert check(trust, member) == "ue-7"
    revoked.add(x509.load_der_x509_certificate(member.certificate).serial_number)
    with refused(match="its certificate is revoked"):
        check(trust, member)
    assert check(trust, other) == "ue-8"


def test_a_number_whose_name_is_known_has_that_certificate_alone(authority):
    trust = trust_in(authority, name_of=lambda number: f"ue-{number}" if number < 5 else None)
    assert check(trust, member_with(authority, "ue-3", number=3)) == "ue-3"
    assert check(trust, member_with(authority, "ue-3", number=5)) == "ue-3"
    with refused(match="member 4: the certificate of 'ue-3' came; wanted that of 'ue-4'"):
        check(trust, member_with(authority, "ue-3", number=4))


def test_a_signature_of_another_text_or_key_is_refused_also_after_a_right_one(authority):
    trust, member, other = trust_in(authority), member_with(authority, "ue-7"), member_with(authority, "ue-8")
    for _ in range(2):
        assert check(trust, member) == "ue-7"
        for text, signature in ((b"another", member.sign(TEXT)), (TEXT, other.sign(TEXT)), (TEXT, b"garbage")):
            with refused(match="not signed by the key of its certificate"):
                trust.check(0, member.certificate, text, signature)


@pytest.mark.parametrize("certificate", [b"", b"garbage", b"\x30\x03\x02\x01\x01"])
def test_what_is_no_certificate_is_refused(authority, certificate):
    with refused(match="not issued by an authority"):
        trust_in(authority).check(0, certificate, TEXT, b"x")


def test_a_certificate_signed_in_an_unknown_way_is_refused(authority):
    ecdsa_sha256 = bytes.fromhex("06082a8648ce3d040302")
    der = member_with(authority, "ue-7").certificate
    assert der.count(ecdsa_sha256) == 2
    with refused(match="not issued by an authority"):
        trust_in(authority).check(0, der.replace(ecdsa_sha256, ecdsa_sha256[:-1] + b"\x09"), TEXT, b"x")


def certificate_of(authority, *, key, names, extensions=True):
    """A certificate of the authority's with what it would not write itself."""
    true = x509.load_der_x509_certificate(member_with(authority, "ue-7").certificate)
    kept = [one for one in true.extensions if not isinstance(one.value, x509.SubjectAlternativeName)]
    if names:
        kept.append(x509.Extension(x509.SubjectAlternativeName.oid, False, x509.SubjectAlternativeName(names)))
    builder = x509.CertificateBuilder(
        true.issuer, true.subject, key.public_key(), 9, now() - DAY, now() + DAY, kept if extensions else []
    )
    return builder.sign(authority.key, hashes.SHA256())


def test_certificates_without_one_name_or_with_another_kind_of_key_are_refused(authority):
    key, trust = ec.generate_private_key(ec.SECP256R1()), trust_in(authority)
    two = [x509.DNSName("ue-1"), x509.DNSName("ue-2")]
    for names, extensions, reason in (
        (two, True, "bears 2 names; wanted one"),
        ([], True, "is not one of a UE's"),
        (two[:1], False, "is not one of a UE's"),
    ):
        shown = CertifiedMember(0, certificate_of(authority, key=key, names=names, extensions=extensions), key)
        with refused(match=reason):
            check(trust, shown)
    edwards = ed25519.Ed25519PrivateKey.generate()
    der = certificate_of(authority, key=edwards, names=two[:1]).public_bytes(serialization.Encoding.DER)
    with refused(match="has no elliptic-curve key"):
        trust.check(0, der, TEXT, edwards.sign(TEXT))


def test_a_certificate_and_a_key_that_do_not_belong_together_are_refused_at_once(authority, tmp_path):
    shown = certified(authority, tmp_path, "ue-1", 1)
    with refused(match="do not belong together"):
        CertifiedMember(1, x509.load_der_x509_certificate(shown.certificate), ec.generate_private_key(ec.SECP256R1()))
