"""Files behind http:// and https://, read by httpx2: forwards, and from any place where the server allows it."""

from __future__ import annotations

import io
import ssl
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx2

_HEADERS = {"User-Agent": "attnscan", "Accept-Encoding": "identity"}
_REMEDIES = {
    401: "the address may need a signature, or a user and a password",
    403: "check that you may read it; a signed address may have expired",
}
_CHECK = "check the address and the network"


class WebFile(io.RawIOBase):
    """A file that is read by one request from some place on, and after each jump by another.

    Raises: httpx2.HTTPError, httpx2.InvalidURL, OSError; each answer is waited for `seconds`.
    """

    def __init__(self, url: str, seconds: float) -> None:
        self._url = httpx2.URL(url)
        if not self._url.host:
            raise httpx2.InvalidURL("the address names no host")
        once = httpx2.Limits(max_keepalive_connections=0)  # else the next request meets a connection that has ended
        self._client = httpx2.Client(headers=_HEADERS, timeout=seconds, follow_redirects=True, limits=once)
        self._at = 0
        self._response: httpx2.Response | None = None
        self._pieces: Iterator[bytes] = iter(())
        self._piece = b""
        try:
            headers = self._ask().headers
        except BaseException:
            self.close()
            raise
        length = headers.get("Content-Length", "")
        self._size = int(length) if length.isdecimal() and "Transfer-Encoding" not in headers else None
        self._ranged = self._size is not None and headers.get("Accept-Ranges", "").lower() == "bytes"
        self._tag = headers.get("ETag")

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self._ranged

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if not self._ranged:
            raise io.UnsupportedOperation("the server sends files from their start alone")
        at = offset + (0, self._at, self._size or 0)[whence]
        if at < 0:
            raise ValueError("a place before the file")
        if at != self._at:
            self._hang_up()
            self._at = at
        return at

    def readinto(self, buffer: Any) -> int:
        if self._size is not None and self._at >= self._size:
            return 0
        if self._response is None:
            response = self._ask()
            if self._at and (response.status_code != 206 or response.headers.get("ETag") != self._tag):
                raise OSError("the file changed while it was read")
        try:
            self._piece = self._piece or next(self._pieces, b"")
        except httpx2.RemoteProtocolError:
            raise OSError(f"the server stopped after {self._at:,} of {self._size:,} bytes") from None
        piece, self._piece = self._piece[: len(buffer)], self._piece[len(buffer) :]
        buffer[: len(piece)] = piece
        self._at += len(piece)
        return len(piece)

    def close(self) -> None:
        self._hang_up()
        self._client.close()
        super().close()

    def _hang_up(self) -> None:
        response, self._response = self._response, None
        if response is not None:
            response.close()
        self._pieces, self._piece = iter(()), b""

    def _ask(self) -> httpx2.Response:
        span = {"Range": f"bytes={self._at}-"} if self._at else {}
        response = self._client.send(self._client.build_request("GET", self._url, headers=span), stream=True)
        self._response, self._pieces = response, response.iter_raw()
        return response.raise_for_status()


def bucket_region(bucket: str, seconds: float) -> str:
    """Where a bucket of S3 is, which the store says of any, and to anybody. Raises: httpx2.HTTPError, OSError."""
    response = httpx2.head(f"https://s3.amazonaws.com/{quote(bucket)}", headers=_HEADERS, timeout=seconds)
    if region := response.headers.get("x-amz-bucket-region"):
        return region
    raise OSError(f"there is no bucket {bucket}")


def reason(error: BaseException) -> tuple[str, str]:
    """Why a file could not be read, and what to do."""
    match error:
        case httpx2.HTTPStatusError(response=response):
            code = response.status_code
            remedy = "try again later" if code >= 500 else "check the address"
            return f"the server says {code} {response.reason_phrase}".rstrip(), _REMEDIES.get(code, remedy)
        case httpx2.TooManyRedirects():
            return "the server redirects without end", "check the address"
        case httpx2.UnsupportedProtocol(request=request):
            return f"the server leads to {request.url.scheme}://", "check the address"
        case httpx2.TimeoutException():
            return "the server does not answer", _CHECK
    cause: BaseException | None = error
    while cause is not None:  # httpx2 puts its own errors around those of the system
        if isinstance(cause, ssl.SSLCertVerificationError):
            why = f"its certificate is not valid: {cause.verify_message}"
            return why, "check the address, or the time of this machine"
        if words := getattr(cause, "strerror", None):
            return str(words), _CHECK
        cause = cause.__cause__ or cause.__context__
    return (str(error) or type(error).__name__).splitlines()[0][:200], _CHECK
