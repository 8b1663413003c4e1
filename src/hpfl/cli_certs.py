"""`hpfl certs`: a deployment's own authority, from its making to tokens, renewal, revocation and its replacement."""

import re
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console

from hpfl.cli_errors import refuse, reported

certs_app = typer.Typer(no_args_is_help=True, help="Make the certificates with which nodes prove who they are.")

_SECONDS = {"m": 60.0, "h": 3600.0, "d": 86_400.0}

AuthorityFolder = Annotated[Path, typer.Argument(help="Where `hpfl certs init` made the authority.")]
NodeNames = Annotated[list[str], typer.Argument(metavar="NAME...", help="cloud, edge-0, ue-0, ...")]
RoleOption = Annotated[str | None, typer.Option(help="cloud, edge or ue, where a name does not tell.")]
DaysOption = Annotated[int, typer.Option(help="How long they are valid.", min=1)]
ToOption = Annotated[Path | None, typer.Option(help="Folder to write to.", show_default="FOLDER")]
TokenOption = Annotated[str | None, typer.Option(help="What `hpfl certs token` printed.", envvar="HPFL_TOKEN")]


@certs_app.command("init", epilog="Example: hpfl certs init certs")
@reported
def init_command(
    folder: Annotated[Path, typer.Argument(help="Where the authority will live.")],
    days: Annotated[int, typer.Option(help="How long it is valid.", min=1)] = 3650,
) -> None:
    """Make the deployment's own certificate authority: ca.pem, for every node, and ca.key, for nobody else."""
    from hpfl.deployment.certificates import init_authority

    with _sentences():
        init_authority(folder, days=days)
    _say(f"{folder / 'ca.pem'} goes to every node; keep {folder / 'ca.key'} to yourself.")


@certs_app.command("issue", epilog="Example: hpfl certs issue certs cloud edge-0 ue-0 ue-1")
@reported
def issue_command(
    folder: AuthorityFolder, names: NodeNames, role: RoleOption = None, days: DaysOption = 365, to: ToOption = None
) -> None:
    """Issue a certificate and a key for each node: NAME.pem and NAME.key, to be taken to that node alone."""
    from hpfl.deployment.certificates import issue, load_authority

    with _sentences():
        authority = load_authority(folder)
        for name in names:
            _say(issue(authority, to or folder, name, role=_role(role), days=days))


@certs_app.command("renew", epilog="Example: hpfl certs renew certs cloud edge-0 ue-0")
@reported
def renew_command(folder: AuthorityFolder, names: NodeNames, days: DaysOption = 365, to: ToOption = None) -> None:
    """Issue another certificate for the key that each node has: only NAME.pem is new; running nodes read it again."""
    from hpfl.deployment.certificates import load_authority, renew

    with _sentences():
        authority = load_authority(folder)
        for name in names:
            _say(renew(authority, to or folder, name, days=days))


@certs_app.command("revoke", epilog="Example: hpfl certs revoke certs ue-7")
@reported
def revoke_command(folder: AuthorityFolder, names: NodeNames) -> None:
    """Put all certificates of these nodes on the list that parents read (`tls.revoked`): revoked.pem."""
    from hpfl.deployment.certificates import load_authority, revoke

    with _sentences():
        _say(f"{revoke(load_authority(folder), names)} goes to every parent.")


@certs_app.command("rotate", epilog="Example: hpfl certs rotate certs")
@reported
def rotate_command(
    folder: AuthorityFolder,
    days: Annotated[int, typer.Option(help="How long the new authority is valid.", min=1)] = 3650,
    finish: Annotated[bool, typer.Option("--finish", help="Trust the older authorities no more.")] = False,
) -> None:
    """Make a new authority beside the old: ca.pem holds both, until --finish. In between, renew every certificate."""
    from hpfl.deployment.certificates import begin_rotation, finish_rotation

    with _sentences():
        if finish:
            taken = finish_rotation(folder)
            _say(f"{folder / 'ca.pem'} goes to every node; {taken} older authorities are trusted no more.")
            return
        begin_rotation(folder, days=days)
    _say(f"{folder / 'ca.pem'} goes to every node first; then `hpfl certs renew` all, then `rotate --finish`.")


@certs_app.command("token", epilog="Example: hpfl certs token certs ue-7 --valid 1h")
@reported
def token_command(
    folder: AuthorityFolder,
    name: Annotated[str, typer.Argument(help="The node that will ask for its certificate.")],
    role: RoleOption = None,
    valid: Annotated[str, typer.Option(help="How long: 30m, 1h, 2d.")] = "1h",
) -> None:
    """Print a token with which one node may ask once for its certificate (`hpfl certs request`)."""
    from hpfl.deployment.tokens import make_token

    with _sentences():
        typer.echo(str(make_token(folder, name, role=_role(role), valid_s=_seconds(valid))))


@certs_app.command("request", epilog="Example: hpfl certs request ue-7 --token ... --at authority.example:7799")
@reported
def request_command(
    name: Annotated[str, typer.Argument(help="This node's name.")],
    token: TokenOption = None,
    at: Annotated[str | None, typer.Option(help="host:port of `hpfl certs serve`.")] = None,
    to: Annotated[Path, typer.Option(help="Folder to write to.")] = Path(),
) -> None:
    """Make a key here, which never leaves, and ask for its certificate: from a service, or with a file to be signed."""
    from hpfl.deployment.enrolment import enrol
    from hpfl.deployment.signing_requests import make_request
    from hpfl.deployment.tokens import EnrolmentToken

    with _sentences():
        if at is None:
            _say(f"{make_request(to, name)} goes to the authority (`hpfl certs sign`); then `hpfl certs take`.")
            return
        given = EnrolmentToken.read(token or "")
        if given.name != name:
            refuse(f"the token is for {given.name!r}; this node is {name!r}")
        _say(enrol(to, given, at))


@certs_app.command("sign", epilog="Example: hpfl certs sign certs ue-7.csr --token ...")
@reported
def sign_command(
    folder: AuthorityFolder,
    request: Annotated[Path, typer.Argument(help="What `hpfl certs request` wrote.")],
    token: TokenOption = None,
    role: RoleOption = None,
) -> None:
    """Sign a request: NAME.pem, to be taken back. With a token only for its node, and once; else you vouch for it."""
    from hpfl.deployment.certificates import load_authority, pem_of, write_whole
    from hpfl.deployment.signing_requests import read_request, sign_request
    from hpfl.deployment.tokens import EnrolmentToken, spend_token

    with _sentences():
        authority, pem = load_authority(folder), _bytes_of(request)
        granted = _role(role)
        if token is not None:
            granted = spend_token(folder, EnrolmentToken.read(token).secret, read_request(pem)[0]).role
        name, certificate = sign_request(authority, pem, role=granted)
        write_whole(folder / f"{name}.pem", pem_of(certificate))
        _say(folder / f"{name}.pem")


@certs_app.command("take", epilog="Example: hpfl certs take ue-7 ue-7.pem")
@reported
def take_command(
    name: Annotated[str, typer.Argument(help="This node's name.")],
    certificate: Annotated[Path, typer.Argument(help="What `hpfl certs sign` wrote.")],
    to: Annotated[Path, typer.Option(help="Folder where `hpfl certs request` made the key.")] = Path(),
) -> None:
    """Put a signed certificate and the key that asked for it in the place of those before."""
    from hpfl.deployment.signing_requests import take_certificate

    with _sentences():
        _say(take_certificate(to, name, _bytes_of(certificate)))


@certs_app.command("serve", epilog="Example: hpfl certs serve certs --listen 0.0.0.0:7799")
@reported
def serve_command(
    folder: AuthorityFolder,
    listen: Annotated[str, typer.Option(help="host:port; port 0 lets the system choose.")] = "127.0.0.1:7799",
) -> None:
    """Sign requests that come with a token, until Ctrl-C. This machine holds ca.key: stop it when all are enrolled."""
    from hpfl.deployment.enrolment import EnrolmentService
    from hpfl.deployment.logs import log, log_to

    log_to("enrolment")
    with _sentences(), EnrolmentService(folder, listen) as service:
        log("listening", port=service.server_address[1])
        service.serve_forever()


class _sentences:  # noqa: N801  reads as a word at its uses
    """Turn what an authority refuses into a message and exit status 2."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        from hpfl.deployment.issued import CertificateError

        if isinstance(error, CertificateError):
            refuse(str(error))


def _role(role: str | None) -> Any:
    if role not in {None, "cloud", "edge", "ue"}:
        refuse(f"--role is {role!r}; wanted cloud, edge or ue")
    return role


def _seconds(valid: str) -> float:
    if not re.fullmatch(r"[0-9]{1,5}[mhd]", valid):
        refuse(f"--valid is {valid!r}; wanted a number and m, h or d, such as 30m")
    return int(valid[:-1]) * _SECONDS[valid[-1]]


def _bytes_of(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(65_536)
    except OSError as error:
        _unreadable(path, error)


def _unreadable(path: Path, error: OSError) -> NoReturn:
    refuse(f"{path} cannot be read: {error.strerror}")


def _say(what: object) -> None:
    Console().print(str(what), soft_wrap=True, markup=False, highlight=False)
