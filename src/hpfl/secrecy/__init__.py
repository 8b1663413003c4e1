"""Secure aggregation in a cell: an edge learns the sum of what its UEs send, and nothing else of any of them.

Bonawitz et al., "Practical secure aggregation for privacy-preserving machine learning", CCS 2017, in the form that
withstands an edge that lies (figure 4, with the consistency check). No clock, no socket, no file: messages are bytes.
"""

from hpfl.quorums import LARGEST_CELL
from hpfl.secrecy.channel_links import ChannelLinks
from hpfl.secrecy.collector import Collector
from hpfl.secrecy.disputes import dispute
from hpfl.secrecy.member import Member
from hpfl.secrecy.member_trust import CertificateTrust, CertifiedMember, Identity, Trust
from hpfl.secrecy.secrecy_errors import DisputedError, SecrecyError, TooFewError, WrongMaskError
from hpfl.secrecy.session import Instance, Session
from hpfl.secrecy.vouching import MEMBERS
from hpfl.secrecy.words import packed, packed_bytes, unpacked

__all__ = [
    "LARGEST_CELL",
    "MEMBERS",
    "CertificateTrust",
    "CertifiedMember",
    "ChannelLinks",
    "Collector",
    "DisputedError",
    "Identity",
    "Instance",
    "Member",
    "SecrecyError",
    "Session",
    "TooFewError",
    "Trust",
    "WrongMaskError",
    "dispute",
    "packed",
    "packed_bytes",
    "unpacked",
]
