"""Files behind http:// and https://: read forwards, and from any place where the server allows it."""

from __future__ import annotations

import base64
import io
import re
import ssl
from http.client import HTTPException, HTTPResponse
from typing import Any
from urllib import request
from urllib.error import HTTPError, URLError
from urllib.parse import quote, unquote, urlsplit

FAILURES = (OSError, HTTPException, ValueError)
"""What opening and reading raise, all with `reason`."""

_REMEDIES = {
    401: "the address may need a signature, or a user and a password",
    403: "check that you may read it; a signed address may have expired",
    404: "check the address",
    410: "check the address",
}


class WebFile(io.RawIOBase):
    """A file that is read by one request from some place on, and after each jump by another.

    Raises: `FAILURES`; each answer is waited for `seconds`.
    """

    def __init__(self, url: str, seconds: float) -> None:
        self._request = _request(url)
        self._seconds = seconds
        self._at = 0
        self._response: HTTPResponse | None = self._asked()
        headers = self._response.headers
        length = headers.get("Content-Length") or ""
        self._size = int(length) if length.isdecimal() and not headers.get("Transfer-Encoding") else None
        self._ranged = self._size is not None and (headers.get("Accept-Ranges") or "").lower() == "bytes"
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
            self._response = self._asked()
        found = self._response.read1(len(buffer))
        if not found and self._size is not None:
            raise OSError(f"the server stopped after {self._at:,} of {self._size:,} bytes")
        buffer[: len(found)] = found
        self._at += len(found)
        return len(found)

    def close(self) -> None:
        self._hang_up()
        super().close()

    def _hang_up(self) -> None:
        response, self._response = self._response, None
        if response is not None:
            response.close()

    def _asked(self) -> HTTPResponse:
        self._request.remove_header("Range")
        if self._at:
            self._request.add_header("Range", f"bytes={self._at}-")
        response: HTTPResponse = _opener().open(self._request, timeout=self._seconds)
        if self._at and (response.status != 206 or response.headers.get("ETag") != self._tag):
            response.close()
            raise OSError("the file changed while it was read")
        return response


def bucket_region(bucket: str, seconds: float) -> str:
    """Where a bucket of S3 is, which the store says of any, and to anybody. Raises: `FAILURES`."""
    asked = request.Request(f"https://s3.amazonaws.com/{quote(bucket)}", method="HEAD")
    try:
        headers = _opener(redirects=False).open(asked, timeout=seconds).headers
    except HTTPError as error:
        headers = error.headers
        error.close()
    if region := headers.get("x-amz-bucket-region"):
        return str(region)
    raise OSError(f"there is no bucket {bucket}")


def reason(error: BaseException) -> tuple[str, str]:
    """Why a file could not be read, and what to do."""
    if isinstance(error, HTTPError):
        error.close()
        if 300 <= error.code < 400:
            return "the server redirects without end", "check the address"
        remedy = "try again later" if error.code >= 500 else "check the address"
        return f"the server says {error.code} {error.reason}".rstrip(), _REMEDIES.get(error.code, remedy)
    if isinstance(error, URLError):
        return reason(error.reason if isinstance(error.reason, BaseException) else OSError(error.reason))
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not valid: {error.verify_message}", "check the address, or the time of this machine"
    if isinstance(error, TimeoutError):
        return "the server does not answer", "check the address and the network"
    words = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return str(words).splitlines()[0][:200], "check the address and the network"


class _Redirects(request.HTTPRedirectHandler):
    """What a user is known by goes to the host that was named, and to no other."""

    def redirect_request(self, req: request.Request, *arguments: Any) -> request.Request | None:
        new = super().redirect_request(req, *arguments)
        if new is not None:
            if new.type not in ("http", "https"):
                raise URLError(f"the server leads to {new.type}://")
            if new.host != req.host or new.type != req.type:
                new.remove_header("Authorization")
        return new


def _opener(*, redirects: bool = True) -> request.OpenerDirector:
    """Without what opens files and FTP, to where a server might lead."""
    opener = request.OpenerDirector()
    for handler in (
        request.ProxyHandler,
        request.HTTPHandler,
        request.HTTPSHandler,
        request.HTTPDefaultErrorHandler,
        request.HTTPErrorProcessor,
        *([_Redirects] if redirects else []),
    ):
        opener.add_handler(handler())
    return opener


def _request(url: str) -> request.Request:
    parts = urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    if not host or re.search(r"[\s\0]", host):
        raise ValueError("the address names no host")
    headers = {"User-Agent": "attnscan", "Accept-Encoding": "identity"}
    if at:
        headers["Authorization"] = f"Basic {base64.b64encode(unquote(user).encode()).decode()}"
    path = quote(parts._replace(scheme="", netloc="", fragment="").geturl(), safe="%/?:@!$&'()*+,;=~-._[]")
    return request.Request(f"{parts.scheme}://{host.encode('idna').decode()}{path}", headers=headers)
