"""Flink's REST API, as far as the testbed needs it: on one connection, since it is asked very often."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx

from .errors import TestbedError

_TIMEOUT_S = 30.0
_SHOWN = 300


class Rest:
    """Asks the job manager on a port of loopback."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self._client = httpx.Client(base_url=self.url, timeout=_TIMEOUT_S, trust_env=False)

    def close(self) -> None:
        self._client.close()

    def get(self, path: str) -> Any:
        """The answer to a GET.

        Raises:
            TestbedError: there is none.
        """
        return self._ask("GET", path)

    def post(self, path: str, body: Any) -> Any:
        return self._ask("POST", path, json=body)

    def cancel(self, job: str) -> None:
        self._ask("PATCH", f"/jobs/{job}?mode=cancel")

    def run_jar(self, jar: Path, entry: str, arguments: list[str]) -> str:
        """Run a job of a jar; returns its id."""
        with jar.open("rb") as file:
            kept = self._ask("POST", "/jars/upload", files={"jarfile": (jar.name, file)})
        of_jar = kept["filename"].rpartition("/")[2]
        job = self.post(f"/jars/{of_jar}/run", {"entryClass": entry, "programArgsList": arguments})
        return str(job["jobid"])

    def _ask(self, method: str, path: str, **content: Any) -> Any:
        try:
            response = self._client.request(method, path, **content)
        except httpx.HTTPError as error:
            raise TestbedError(
                f"the job manager does not answer {path}: {error or type(error).__name__}"
            ) from None
        if response.is_success:
            return response.json() if response.content else {}
        raise TestbedError(f"the job manager refuses {method} {path}: {_why(response)}")


def _why(response: httpx.Response) -> str:
    """The cause within a stack trace, or the beginning of what was answered."""
    text = response.text.replace("\\n", "\n").replace("\\t", "")
    causes = [line for line in text.splitlines() if line.startswith("Caused by:")]
    return (causes[-1].removeprefix("Caused by:").strip() if causes else text)[:_SHOWN]
