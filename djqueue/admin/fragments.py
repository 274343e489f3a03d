"""Live refresh: the part of a page that changes, alone, and only if it has changed.

A page marks that part with two comments. The script asks for the page again with a header; it gets what stands between
the marks with an ETag, or 304. Invariant: the answer is a part of the very page, made by the same view.
"""

from hashlib import blake2b

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.template.response import SimpleTemplateResponse
from django.utils.cache import patch_vary_headers
from django.utils.http import parse_etags

HEADER = "X-Djqueue-Live"
BEGIN = b"<!--djq-live-->"
END = b"<!--/djq-live-->"


def cut(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    """Return the live part of the page where the script asked for it, else the page."""
    patch_vary_headers(response, [HEADER])
    if not is_asked(request) or response.status_code != 200:
        return response
    if isinstance(response, SimpleTemplateResponse):
        # What is to be told to the user waits for the next whole page.
        response.context_data = {**(response.context_data or {}), "messages": ()}
        response.render()
    if not isinstance(response, HttpResponse) or BEGIN not in response.content:
        return response
    return answer(request, response.content.split(BEGIN, 1)[1].split(END, 1)[0])


def is_asked(request: HttpRequest) -> bool:
    """Tell whether the script asks for the live part alone."""
    return HEADER in request.headers


def answer(request: HttpRequest, body: bytes) -> HttpResponse:
    """Return a fragment with its ETag, or 304 to who has it."""
    etag = f'"{blake2b(body, digest_size=12).hexdigest()}"'
    known = {each.removeprefix("W/") for each in parse_etags(request.headers.get("If-None-Match", ""))}
    found = HttpResponse(status=304) if etag in known else HttpResponse(body)
    found["ETag"] = etag
    # Private and never reused unasked: it shows what this user may see at this moment.
    found["Cache-Control"] = "private, no-cache"
    patch_vary_headers(found, [HEADER, "Cookie"])
    return found
