"""HTTP within a deadline: every wait for the network ends with it, and an answer's body is bounded.

httpx bounds each wait for bytes, so that a server that sends one every now and then is waited for without
end. Here the sockets themselves know the deadline. No redirect is followed, and no cookie is kept.
"""

from __future__ import annotations

import selectors
import socket
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from ssl import SSLContext
from typing import Any
from urllib.request import getproxies, proxy_bypass

import httpcore
import httpx

from placings.core import OverLimit, check_limit, find_limit
from placings.places.engines.deadlines import Deadline, run_within

FAILURES = (
    httpcore.TimeoutException,
    httpcore.NetworkError,
    httpcore.ProtocolError,
    httpcore.ProxyError,
    httpcore.UnsupportedProtocol,
    httpcore.ConnectionNotAvailable,
)
PACKED = ("gzip", "x-gzip", "deflate")
WORDS = 64 << 10  # bytes of a refusal that are read
BLOCK = 64 << 10

_waiting = threading.local()  # the deadline of the request that this thread has under way


@dataclass(frozen=True)
class ServerAnswer:
    """What a server answered: headers by their names in lower case, and the body unpacked."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class BadAnswer(Exception):
    """A body that cannot be unpacked."""


class Connections:
    """Connections to one host, by way of the proxy that the environment names, if it names one."""

    def __init__(self, url: httpx.URL) -> None:
        self._url = url
        self.proxy = _find_proxy(url)
        secure = url.scheme == "https" or (self.proxy is not None and self.proxy.url.scheme == "https")
        settings: dict[str, Any] = {
            "ssl_context": httpx.create_ssl_context() if secure else None,
            "max_connections": 100,
            "max_keepalive_connections": 20,
            "keepalive_expiry": 5.0,
            "network_backend": _Network(),
        }
        self._pool = _open_pool(self.proxy, settings)

    def send(
        self,
        method: str,
        url: httpx.URL,
        headers: Mapping[str, str],
        content: bytes | None,
        deadline: Deadline,
        timeout: float,
    ) -> ServerAnswer:
        """Send a request and read its answer. Raises FAILURES, BadAnswer, OverLimit."""
        target = _as_core(url)
        each = {"connect": timeout, "read": timeout, "write": timeout, "pool": min(timeout, deadline.left)}
        sent = [(name.encode(), value.encode()) for name, value in headers.items()]
        _waiting.deadline = deadline
        try:
            with self._pool.stream(
                method, target, headers=[(b"Accept-Encoding", b"gzip"), *sent],
                content=content, extensions={"timeout": each},
            ) as response:  # fmt: skip
                found = {
                    name.decode("latin-1").lower(): value.decode("latin-1")
                    for name, value in response.headers
                }
                return ServerAnswer(response.status, found, _read_body(response, found))
        finally:
            _waiting.deadline = None

    def close(self) -> None:
        """Close the connections."""
        self._pool.close()


def _read_body(response: httpcore.Response, headers: Mapping[str, str]) -> bytes:
    """The body whole, or the first words of a refusal."""
    fine = 200 <= response.status < 300
    length = headers.get("content-length", "")
    if fine and length.isascii() and length.isdigit():
        check_limit("body", int(length[:19]))
    most = find_limit("body") if fine else WORDS
    unpack = _choose_decoder(headers.get("content-encoding", ""))
    parts, size = [], 0
    for part in unpack(_iterate(response)):
        parts.append(part)
        size += len(part)
        if size > most:
            if fine:
                raise OverLimit("body")
            break
    return b"".join(parts)[:most]


def _iterate(response: httpcore.Response) -> Iterator[bytes]:
    """The body as it comes; what is packed so that it comes to nothing is bounded as well."""
    size, most = 0, find_limit("body")
    for part in response.iter_stream():
        size += len(part)
        if size > most:
            raise OverLimit("body")
        yield part


def _choose_decoder(named: str) -> Callable[[Iterable[bytes]], Iterator[bytes]]:
    how = named.strip().lower()
    if how in ("", "identity"):
        return iter
    if how not in PACKED:
        raise BadAnswer(f"a body packed as {named[:40]!r}, which was not asked for")
    return _unpack


def _unpack(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Bytes unpacked a block at a time: a few kB may become gigabytes."""
    decoder, begun = zlib.decompressobj(wbits=47), False  # gzip or zlib
    try:
        for part in parts:
            rest, begun = part, True
            while rest:
                yield decoder.decompress(rest, BLOCK)
                rest = decoder.unconsumed_tail
    except zlib.error:
        raise BadAnswer("a packed body that is damaged") from None
    if begun and not decoder.eof:
        raise BadAnswer("a packed body that ends early")


def _as_core(url: httpx.URL) -> httpcore.URL:
    return httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)


def _find_proxy(url: httpx.URL) -> httpx.Proxy | None:
    known = getproxies()
    named = known.get(url.scheme) or known.get("all")
    if not named or proxy_bypass(url.host):
        return None
    return httpx.Proxy(named if "://" in named else f"http://{named}")


def _open_pool(proxy: httpx.Proxy | None, settings: dict[str, Any]) -> httpcore.ConnectionPool:
    if proxy is None:
        return httpcore.ConnectionPool(**settings)
    url = _as_core(proxy.url)
    kind: Any = httpcore.SOCKSProxy if proxy.url.scheme.startswith("socks") else httpcore.HTTPProxy
    pool: httpcore.ConnectionPool = kind(proxy_url=url, proxy_auth=proxy.raw_auth, **settings)
    return pool


# -- sockets ----------------------------------------------------------------------------------------------


def _bound(timeout: float | None, late: type[Exception]) -> float:
    """Seconds that one wait may take; none are left when the deadline is over."""
    deadline: Deadline | None = getattr(_waiting, "deadline", None)
    left = min(x for x in (timeout, deadline.left if deadline else None, 3600.0) if x is not None)
    if left <= 0:
        raise late("timed out")
    return left


class _Network(httpcore.NetworkBackend):
    """Opens sockets that know the deadline; a host's name is looked up within it too."""

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        try:
            found = run_within(
                _bound(timeout, httpcore.ConnectTimeout),
                lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM),
            )
        except TimeoutError as error:
            raise httpcore.ConnectTimeout("timed out") from error
        except (OSError, UnicodeError) as error:
            raise httpcore.ConnectError(str(error)) from error
        failed: Exception = httpcore.ConnectError("the host has no address")
        for family, kind, protocol, _, address in found:
            made = socket.socket(family, kind, protocol)
            try:
                made.settimeout(_bound(timeout, httpcore.ConnectTimeout))
                made.connect(address)
                made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return _Stream(made)
            except TimeoutError:
                failed = httpcore.ConnectTimeout("timed out")
            except OSError as error:
                failed = httpcore.ConnectError(str(error))
            made.close()
        raise failed


class _Stream(httpcore.NetworkStream):
    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        try:
            self._socket.settimeout(_bound(timeout, httpcore.ReadTimeout))
            return self._socket.recv(max_bytes)
        except TimeoutError:
            raise httpcore.ReadTimeout("timed out") from None
        except OSError as error:
            raise httpcore.ReadError(str(error)) from error

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        rest = memoryview(buffer)
        try:
            while rest:
                self._socket.settimeout(_bound(timeout, httpcore.WriteTimeout))
                rest = rest[self._socket.send(rest) :]
        except TimeoutError:
            raise httpcore.WriteTimeout("timed out") from None
        except OSError as error:
            raise httpcore.WriteError(str(error)) from error

    def close(self) -> None:
        self._socket.close()

    def start_tls(
        self, ssl_context: SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        try:
            self._socket.settimeout(_bound(timeout, httpcore.ConnectTimeout))
            return _Stream(ssl_context.wrap_socket(self._socket, server_hostname=server_hostname))
        except TimeoutError:
            self.close()
            raise httpcore.ConnectTimeout("timed out") from None
        except OSError as error:
            self.close()
            raise httpcore.ConnectError(str(error)) from error

    def get_extra_info(self, info: str) -> Any:
        if info == "is_readable":  # an idle connection with something to read was closed by the server
            if self._socket.fileno() < 0:
                return True
            with selectors.DefaultSelector() as selector:
                selector.register(self._socket, selectors.EVENT_READ)
                return bool(selector.select(0))
        if info == "ssl_object":
            return self._socket if hasattr(self._socket, "selected_alpn_protocol") else None
        return {"socket": self._socket}.get(info)
