"""Whether a node's parent can be reached and both ends accept each other's certificates; nothing is said to it."""

import socket
import ssl

from hpfl.deployment.diagnosis import client_context, handshake_fault
from hpfl.deployment.health import host_and_port
from hpfl.deployment.settings import SettingsError, TlsSettings

_CONNECT_S = 5.0
_TURNED_AWAY_S = 2.0
"""How long to wait for the parent's first bytes, or for its refusal of our certificate."""


def checked_parent(tls: TlsSettings, address: str, name: str, key: str) -> str:
    """Refuse a parent that does not answer at `address`, has no certificate for `name`, or turns ours away."""
    host, port = host_and_port(address, key)
    try:
        context = client_context(tls)
        with socket.create_connection((host, port), timeout=_CONNECT_S) as plain:
            fault = handshake_fault(tls, address, name)
            if fault:
                raise SettingsError(f"{key} is {address}; {fault}")
            return _greeted(context, plain, name, f"{key} is {address}")
    except socket.gaierror as error:
        raise SettingsError(f"{key} is {address}; no machine of that name is known ({error.strerror})") from None
    except ConnectionRefusedError:
        raise SettingsError(f"{key} is {address}; nobody listens there: start it, or mend the port") from None
    except TimeoutError:
        raise SettingsError(
            f"{key} is {address}; no answer for {_CONNECT_S:g} s: is a firewall between, or the address wrong?"
        ) from None
    except ssl.SSLError as error:
        raise SettingsError(f"{key} is {address}; no TLS with it is possible ({error.reason})") from None
    except OSError as error:
        raise SettingsError(f"{key} is {address}; it cannot be reached ({error.strerror or error})") from None


def _greeted(context: ssl.SSLContext, plain: socket.socket, name: str, where: str) -> str:
    with context.wrap_socket(plain, server_hostname=name) as secure:
        secure.settimeout(_TURNED_AWAY_S)
        try:  # with TLS 1.3 the server looks at our certificate after the handshake is over at this end
            came = secure.recv(1)
        except TimeoutError:
            came = b"?"
        except (ssl.SSLError, ConnectionError) as error:
            raise SettingsError(f"{where}; it turned this node's certificate away ({error.args[-1]})") from None
        if not came:
            raise SettingsError(f"{where}; it hung up after seeing this node's certificate: is it of this authority?")
    return f"{where}; {name} answers and accepts this node's certificate"
