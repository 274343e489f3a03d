#!/usr/bin/env python3
"""Follow docs/quickstart.md to the letter: its blocks are run and its files written, in an empty folder and a clean
virtualenv, with a wheel of this checkout and an embedded PostgreSQL.

What a person does in the browser is done over HTTP here. Ends with 0 when everything that the page says came true.
"""

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from http.cookiejar import CookieJar
from pathlib import Path
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, OpenerDirector, build_opener

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from testproject.embedded import EmbeddedServer  # noqa: E402

BLOCK = re.compile(r"<!-- (run|background|append|write)(?: (\S+))? -->\n```\w+\n(.*?)```", re.DOTALL)
PATIENCE = 90
"""Seconds: a full minute for the entry, and what a slow machine needs besides."""


def main() -> None:
    """Read the page and do what it says."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--python", default=sys.executable, help="the interpreter of the clean virtualenv")
    python = parser.parse_args().python
    with tempfile.TemporaryDirectory() as folder, EmbeddedServer() as server:
        wheel = built_wheel(Path(folder) / "wheel")
        Reader(Path(folder) / "mysite", python, wheel, server).follow((ROOT / "docs" / "quickstart.md").read_text())
    print("quickstart: every step came true")


def built_wheel(folder: Path) -> Path:
    """Build the wheel of this checkout."""
    subprocess.run([sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(folder), str(ROOT)], check=True)
    [wheel] = folder.glob("djqueue-*.whl")
    return wheel


class Reader:
    """A newcomer with a shell; the database's address and the wheel's path are put in the place of the page's."""

    def __init__(self, folder: Path, python: str, wheel: Path, server: EmbeddedServer) -> None:
        folder.mkdir()
        self.folder = folder
        self.wheel = wheel
        self.server = server
        programs = folder / "bin"
        programs.mkdir()
        (programs / "python3").symlink_to(python)
        self.env = {**os.environ, "PATH": f"{folder / '.venv' / 'bin'}:{programs}:{os.environ['PATH']}"}
        for name in ("DATABASE_URL", "DJANGO_SETTINGS_MODULE", "VIRTUAL_ENV", "PYTHONPATH"):
            self.env.pop(name, None)

    def follow(self, page: str) -> None:
        """Do each block in turn; what stays in the background is stopped at the end."""
        workers: list[subprocess.Popen[bytes]] = []
        try:
            for what, path, text in self.steps(page):
                match what:
                    case "run":
                        self.run(text)
                    case "background":
                        workers.append(subprocess.Popen(text.split(), cwd=self.folder, env=self.env))
                        self.requeue_in_the_admin()
                    case "append":
                        with (self.folder / path).open("a") as file:
                            file.write(text)
                    case "write":
                        (self.folder / path).write_text(text)
            eventually("the entry has fired", lambda: (self.folder / "counted").exists())
        finally:
            for worker in workers:
                worker.send_signal(signal.SIGTERM)
                worker.wait(60)

    def steps(self, page: str) -> Iterator[tuple[str, str, str]]:
        """Give the page's blocks, fitted to this machine."""
        for what, path, text in BLOCK.findall(page):
            text = text.replace("pip install djqueue ", f"pip install -q {self.wheel} ")
            for name, value in self.database().items():
                text = re.sub(rf'"{name}": ".*?"', f'"{name}": "{value}"', text)
            yield what, path, text

    def database(self) -> dict[str, str]:
        """Give the embedded server's address in the words of Django's settings."""
        found = re.fullmatch(r"postgres(?:ql)?://([^:@]+)(?::([^@]*))?@([^:/]+):(\d+)/(\w+).*", self.server.url)
        assert found, self.server.url
        user, password, host, port, name = found.groups()
        return {"NAME": name, "USER": user, "PASSWORD": password or "", "HOST": host, "PORT": port}

    def run(self, text: str) -> None:
        """Run a block of shell; its first failure ends everything."""
        print(text, flush=True)
        subprocess.run(["bash", "-euc", text], cwd=self.folder, env=self.env, check=True)

    def requeue_in_the_admin(self) -> None:
        """Log in, follow the cause, requeue it, and see the job succeed."""
        web = subprocess.Popen(
            ["python", "manage.py", "runserver", "--noreload", "127.0.0.1:8765"], cwd=self.folder, env=self.env
        )
        try:
            browser = Browser("http://127.0.0.1:8765")
            eventually("the web server answers", lambda: browser.get("/admin/login/"))
            browser.post("/admin/login/", username="ada", password="secret", next="/admin/djqueue/")
            causes = "/admin/djqueue/errorgroup/"
            eventually("the cause is shown", lambda: "the partner is away" in browser.get(causes))
            [chosen] = re.findall(r'name="_selected_action" value="([^"]+)"', browser.page)
            [action] = re.findall(r'<option value="(\w+)"[^>]*>Requeue', browser.page)
            browser.post(causes, action=action, _selected_action=chosen, index="0", select_across="0")
            succeeded = "/admin/djqueue/job/?state=succeeded"
            eventually("the job has succeeded", lambda: "ask_partner" in browser.get(succeeded))
        finally:
            web.terminate()
            web.wait(30)


class Browser:
    """What of a browser the page needs: cookies, and Django's token in each form."""

    def __init__(self, host: str) -> None:
        self.host = host
        self.cookies = CookieJar()
        self.opener: OpenerDirector = build_opener(HTTPCookieProcessor(self.cookies))
        self.page = ""

    def get(self, path: str) -> str:
        """Return a page's text; an empty one while nobody answers."""
        try:
            self.page = self.opener.open(self.host + path, timeout=10).read().decode()
        except OSError:
            self.page = ""
        return self.page

    def post(self, path: str, **fields: str) -> str:
        """Send a form."""
        token = next(each.value for each in self.cookies if each.name == "csrftoken")
        sent = urlencode({**fields, "csrfmiddlewaretoken": token or ""}).encode()
        self.page = self.opener.open(self.host + path, sent, timeout=30).read().decode()
        return self.page


def eventually(what: str, condition: Callable[[], object]) -> None:
    """Wait until it is so, and say it."""
    until = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > until:
            raise SystemExit(f"quickstart: not within {PATIENCE} s: {what}")
        time.sleep(0.2)
    print(f"quickstart: {what}", flush=True)


if __name__ == "__main__":
    main()
