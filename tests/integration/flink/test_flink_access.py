"""Access to protected clusters: TLS, certificates, headers, passwords, proxies, short outages."""

from __future__ import annotations

import base64
import os
import pty
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
import trustme

from integration.cli.app import main
from integration.cli.arguments import command_line, set_arguments
from integration.cli.cluster_access import AccessOptions
from integration.flink import Access, FlinkRestError, LiveCluster, import_scenario
from integration.flink.http.client import RestClient
from integration.flink.http.live_cluster import MOST_RETRIES, PAUSES_S
from netstack import InputError
from tests.integration.flink.flink_cluster import NAMES, ReplayedCluster, recording, serving
from tests.integration.flink.test_flink_client import answering, sent

SECRET = "s3cr3t-t0k3n"


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def ca(authority: trustme.CA, tmp_path: Path) -> Path:
    file = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(file))
    return file


def server_tls(
    authority: trustme.CA, name: str = "127.0.0.1", asks: trustme.CA | None = None, **dates: datetime
):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(name, **dates).configure_cert(context)
    if asks is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        asks.configure_trust(context)
    return context


def files_of(certificate: trustme.LeafCert, folder: Path) -> tuple[Path, Path]:
    cert, key = folder / "cert.pem", folder / "key.pem"
    certificate.cert_chain_pems[0].write_to_path(str(cert))
    certificate.private_key_pem.write_to_path(str(key))
    return cert, key


@contextmanager
def secured(tls: ssl.SSLContext | None = None) -> Iterator[ReplayedCluster]:
    with serving(ReplayedCluster(recording(NAMES[0])), tls) as cluster:
        yield cluster


def asking(url: str, access: Access | None = None, pauses: list[float] | None = None) -> RestClient:
    """A client that does not wait between its tries."""
    waited: list[float] = [] if pauses is None else pauses
    return RestClient(LiveCluster(url, access or Access(), sleep=waited.append))


def problem(client: RestClient) -> str:
    with pytest.raises(FlinkRestError) as caught:
        client.get("/config")
    (line,) = caught.value.problems
    assert "\n" not in line
    return line


class TestTls:
    def test_a_job_is_read_with_the_authority_of_a_file(self, authority: trustme.CA, ca: Path) -> None:
        with secured(server_tls(authority)) as cluster:
            live = LiveCluster(cluster.url, Access(ca=ca))
            imported = import_scenario(live, watch_s=7.5, pause=lambda seconds: None)
        with secured() as cluster:
            plain = import_scenario(cluster.url, watch_s=7.5, pause=lambda seconds: None)
        assert imported.scenario == plain.scenario

    def test_nobody_else_is_trusted_then(self, ca: Path) -> None:
        assert len(Access(ca=ca).tls().get_ca_certs()) == 1

    def test_an_unknown_authority(self, authority: trustme.CA) -> None:
        pauses: list[float] = []
        with secured(server_tls(authority)) as cluster:
            line = problem(asking(cluster.url, pauses=pauses))
        assert line.startswith(f"{cluster.url}: cannot be reached: the server's certificate is not trusted (")
        assert line.endswith("Set ca to the file of the authority that signed it.")
        assert pauses == []  # that does not pass

    def test_a_certificate_of_another_name(self, authority: trustme.CA, ca: Path) -> None:
        with secured(server_tls(authority, "flink.example.org")) as cluster:
            line = problem(asking(cluster.url, Access(ca=ca)))
        assert "certificate is not valid for '127.0.0.1'. Use the host name of the certificate" in line

    def test_a_certificate_of_the_past(self, authority: trustme.CA, ca: Path) -> None:
        long_ago = datetime(2001, 1, 1, tzinfo=UTC)
        with secured(
            server_tls(authority, not_before=datetime(2000, 1, 1, tzinfo=UTC), not_after=long_ago)
        ) as cluster:
            line = problem(asking(cluster.url, Access(ca=ca)))
        assert "the server's certificate has expired. The server needs a new one" in line

    @pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
    def test_a_cluster_that_asks_for_a_certificate(
        self, authority: trustme.CA, ca: Path, tmp_path: Path, version: ssl.TLSVersion
    ) -> None:
        tls = server_tls(authority, asks=authority)
        tls.minimum_version = tls.maximum_version = version
        cert, key = files_of(authority.issue_cert("reader"), tmp_path)
        with secured(tls) as cluster:
            assert asking(cluster.url, Access(ca=ca, cert=cert, key=key)).get("/config")
            line = problem(asking(cluster.url, Access(ca=ca)))
        assert (
            "the server asks for a client certificate. Set cert and key to the files of your certificate"
            in line
        )

    def test_a_certificate_that_the_cluster_does_not_take(
        self, authority: trustme.CA, ca: Path, tmp_path: Path
    ) -> None:
        cert, key = files_of(trustme.CA().issue_cert("reader"), tmp_path)
        with secured(server_tls(authority, asks=authority)) as cluster:
            line = problem(asking(cluster.url, Access(ca=ca, cert=cert, key=key)))
        assert "the server rejects your certificate (unknown ca)" in line

    def test_the_wrong_scheme(self, authority: trustme.CA, ca: Path) -> None:
        with secured() as cluster:
            line = problem(asking(cluster.url.replace("http:", "https:")))
            assert "the server does not speak TLS. Write http://" in line
        with secured(server_tls(authority)) as cluster:
            line = problem(asking(cluster.url.replace("https:", "http:")))
            assert "If the server speaks TLS, write https://" in line

    def test_files_that_are_none(self, authority: trustme.CA, ca: Path, tmp_path: Path) -> None:
        cert, key = files_of(authority.issue_cert("reader"), tmp_path)
        other = tmp_path / "other.pem"
        authority.issue_cert("other").private_key_pem.write_to_path(str(other))
        encrypted = tmp_path / "encrypted.pem"
        encrypted.write_bytes(ENCRYPTED_KEY)
        mistakes = {
            Access(ca=tmp_path / "none.pem"): "none.pem: there is no such file",
            Access(ca=key): "contains no certificate. Set ca to a PEM file.",
            Access(cert=cert): "contains no certificate with its key in PEM. If the key is in a file of",
            Access(cert=cert, key=other): "is not the key of the certificate",
            Access(cert=cert, key=ca): "contain no certificate with its key in PEM",
            Access(cert=cert, key=encrypted): "encrypted.pem: the key is encrypted",
        }
        for access, message in mistakes.items():
            with pytest.raises(InputError, match=message):
                asking("https://127.0.0.1:9", access).get("/config")
        with pytest.raises(FlinkRestError, match="A private key requires its certificate"):
            Access(key=key)


ENCRYPTED_KEY = b"""-----BEGIN ENCRYPTED PRIVATE KEY-----
MIH0MF8GCSqGSIb3DQEFDTBSMDEGCSqGSIb3DQEFDDAkBBBOlKkQHAhwQKY+5b6d
I3eYAgIIADAMBggqhkiG9w0CCQUAMB0GCWCGSAFlAwQBKgQQtBQfrvGeBtwOsaZn
Ttw9LgSBkExR6c390d9EX51e2kCRLpGzHR8XgNNxIbT5cdYRh6yk6vrOUvL5uPX4
XcMIJFCJl8hOdhKDBOhTHOsWbgXPcp/nKyTyhkokJT3GiF7RVpM+KCMZo0mSw0Mj
AQb5zY/OY47IU+OVuhRgukL/hKMamfjMwlxkerz4TLPURGYD0inbduyCrgdyj45i
SBzTlj0jxQ==
-----END ENCRYPTED PRIVATE KEY-----
"""


def typed(arguments: list[str], prompt: str, answer: str) -> str:
    """All that a terminal shows of a command that asks something."""
    command = [sys.executable, "-m", "integration", *arguments]
    terminal, its_end = pty.openpty()
    with subprocess.Popen(command, stdin=its_end, stdout=its_end, stderr=its_end, start_new_session=True):
        os.close(its_end)
        shown = b""
        with (
            open(terminal, "r+b", buffering=0) as screen,
            suppress(OSError),
        ):  # an error: the other end is closed
            while prompt.encode() not in shown:
                shown += screen.read(1000)
            screen.write(f"{answer}\n".encode())
            while piece := screen.read(1000):
                shown += piece
    return shown.decode()


Check = Callable[[BaseHTTPRequestHandler], int | None]


def wanting(name: str, value: str, status: int = 401) -> Check:
    return lambda request: None if request.headers.get(name) == value else status


class TestWhoAsks:
    def test_nobody_in_particular(self) -> None:
        with secured() as cluster:
            cluster.refuse = wanting("Authorization", f"Bearer {SECRET}")
            line = problem(asking(cluster.url))
        assert line.endswith("Flink answers 401: Unauthorized. Set user, or headers for a token.")

    def test_headers(self, tmp_path: Path) -> None:
        file = tmp_path / "headers"
        file.write_text(f"Authorization: Bearer {SECRET}\n\nX-Team: blue\n")
        access = AccessOptions(header=(f"@{file}", "X-Other: 1"))
        with secured() as cluster:
            for name, value in {
                "Authorization": f"Bearer {SECRET}",
                "X-Team": "blue",
                "X-Other": "1",
            }.items():
                cluster.refuse = wanting(name, value)
                assert RestClient(access.cluster(cluster.url)).get("/config")

    @pytest.mark.parametrize("status", [401, 403])
    def test_who_is_not_let_in(self, status: int) -> None:
        with secured() as cluster:
            cluster.refuse = wanting("Authorization", "another", status)
            line = problem(asking(cluster.url, Access(headers=(("Authorization", SECRET),))))
        assert line.endswith(". These credentials do not suffice.")
        assert SECRET not in line

    def test_a_user_with_a_password_of_a_file_or_the_environment(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        file = tmp_path / "password"
        file.write_text("gehäuse:1\n", "utf-8")
        basic = "Basic " + base64.b64encode("ann:gehäuse:1".encode()).decode()
        with secured() as cluster:
            cluster.refuse = wanting("Authorization", basic)
            assert RestClient(AccessOptions(user="ann", password_file=file).cluster(cluster.url)).get(
                "/config"
            )
            monkeypatch.setenv("NETSTACK_PASSWORD", "gehäuse:1")
            assert RestClient(AccessOptions(user="ann").cluster(cluster.url)).get("/config")
            monkeypatch.setenv("NETSTACK_PASSWORD", "wrong")
            assert "401" in problem(RestClient(AccessOptions(user="ann").cluster(cluster.url)))

    def test_a_password_that_nobody_can_be_asked_for(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.delenv("NETSTACK_PASSWORD", raising=False)
        assert main(["import-flink", "http://127.0.0.1:9", "--user", "ann"]) == 2
        assert capsys.readouterr().err == (
            "netstack import-flink: --user ann requires --password-file or $NETSTACK_PASSWORD\n"
        )

    def test_a_password_that_is_asked_for(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("NETSTACK_PASSWORD", raising=False)
        asked: list[str | None] = []

        def refuse(request: BaseHTTPRequestHandler) -> int:
            asked.append(request.headers.get("Authorization"))
            return 401

        with secured() as cluster:
            cluster.refuse = refuse
            shown = typed(["import-flink", cluster.url, "--user", "ann"], "password of ann: ", SECRET)
        assert asked == ["Basic " + base64.b64encode(f"ann:{SECRET}".encode()).decode()]
        assert "Flink answers 401" in shown
        assert SECRET not in shown

    @pytest.mark.parametrize(
        ("header", "message"),
        [
            (SECRET, '--header: is not a header. Write "Name: value"'),
            (f"Author ization: {SECRET}", "--header: is not a header"),
            (f"Authorization: {SECRET}\x00", "--header: the value of Authorization contains a character"),
            (f"Host: {SECRET}", "--header: Host belongs to the connection and cannot be set"),
        ],
    )
    def test_a_header_that_is_none_is_not_repeated(self, header: str, message: str) -> None:
        with pytest.raises(FlinkRestError) as caught:
            AccessOptions(header=(header,)).cluster("http://127.0.0.1:9")
        (line,) = caught.value.problems
        assert line.startswith(message)
        assert SECRET not in line

    def test_a_page_to_log_in_at(self) -> None:
        elsewhere = sent(b"", 302, Location=f"https://login.example.org/auth?state={SECRET}")
        with answering(elsewhere) as url:
            line = problem(asking(url))
        assert "Flink answers 302: redirects to https://login.example.org/auth, which is not followed" in line
        assert line.endswith("If it is a login page, set user, or headers for a token.")
        with answering(sent(b"<!doctype html><html>")) as url:
            assert "the answer is a web page, not JSON. If it is a login page, set user" in problem(
                asking(url)
            )

    def test_a_cluster_that_has_moved_to_https(self) -> None:
        with answering(sent(b"", 301, Location="https://127.0.0.1:1/config")) as url:
            assert problem(asking(url)).endswith(". Write https:// in the address.")


class TestOutages:
    def test_what_passes_is_asked_again(self) -> None:
        codes, pauses = [503, 502], []

        def answer(request: BaseHTTPRequestHandler) -> None:
            (sent(b"", codes.pop()) if codes else sent(b'{"a": 1}'))(request)

        with answering(answer) as url:
            assert asking(url, pauses=pauses).get("/config") == {"a": 1}
        assert pauses == [0.2, 0.4]

    def test_a_connection_that_breaks_is_made_again(self) -> None:
        broken: list[int] = []

        def answer(request: BaseHTTPRequestHandler) -> None:
            if len(broken) < 2:
                broken.append(1)
                request.close_connection = True
            else:
                sent(b'{"a": 1}')(request)

        with answering(answer) as url:
            assert asking(url).get("/config") == {"a": 1}

    def test_nobody_is_asked_for_ever(self) -> None:
        asked, pauses = [], []

        def answer(request: BaseHTTPRequestHandler) -> None:
            asked.append(request.path)
            sent(b"", 504)(request)

        with answering(answer) as url:
            client = asking(url, pauses=pauses)
            assert [client.find(f"/{number}") for number in range(20)] == [None] * 20
        assert pauses[: len(PAUSES_S)] == list(PAUSES_S)
        assert len(asked) == 20 + MOST_RETRIES

    @pytest.mark.parametrize("code", [400, 404, 500])
    def test_an_answer_that_stays_is_not_asked_for_again(self, code: int) -> None:
        pauses: list[float] = []
        with answering(sent(b"", code)) as url:
            problem(asking(url, pauses=pauses))
        assert pauses == []


def test_an_address_in_place_of_a_result(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", "https://flink.example.org:8081"]) == 2
    assert capsys.readouterr().err == (
        "netstack diagnose: the address of a cluster must be given with --from-flink; write that before "
        "the address\n"
    )


class TestSecrets:
    def test_they_are_not_shown(self) -> None:
        access = Access(headers=(("Authorization", SECRET),), user=None)
        assert SECRET not in repr(access)
        assert SECRET not in repr(Access(user="ann", password=SECRET))

    @pytest.mark.parametrize("given", [["--header", f"A: {SECRET}"], [f"--header=A: {SECRET}"]])
    def test_a_report_names_the_command_without_them(self, given: list[str]) -> None:
        set_arguments(["tune", "--from-flink", f"https://flink/?token={SECRET}", *given, "--header", "@file"])
        try:
            assert SECRET not in command_line()
            assert "A: ..." in command_line()
            assert command_line().endswith("--header @file")
        finally:
            set_arguments(None)

    @pytest.mark.parametrize("url", [f"https://ann:{SECRET}@127.0.0.1:9", f"ann:{SECRET}@127.0.0.1:9"])
    def test_an_address_that_holds_one(self, url: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["import-flink", url]) == 2
        assert capsys.readouterr().err == ("The address contains a name or a password. Set --user instead.\n")

    def test_a_header_without_quotes(self, capsys: pytest.CaptureFixture[str]) -> None:
        line = ["import-flink", "http://127.0.0.1:9", "--header", "Authorization:", "Bearer", SECRET]
        assert main(line) == 2
        shown = capsys.readouterr().err
        assert shown == 'netstack import-flink: too many arguments; write --header "Name: value" in quotes\n'

    def test_a_recording_has_none(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        file = tmp_path / "job.json"
        with secured() as cluster:
            cluster.refuse = wanting("X-Token", SECRET)
            line = ["import-flink", f"{cluster.url}/?q={SECRET}", "--watch", "0 s"]
            assert main([*line, "--header", f"X-Token: {SECRET}", "--recording", str(file)]) == 0
        shown = capsys.readouterr()
        for text in (file.read_text(), shown.out, shown.err):
            assert SECRET not in text
        assert "127.0.0.1" not in file.read_text()
