#!/usr/bin/env python3
"""deploy/haproxy.cfg in front of three real servers with the demo model: what the end of a replica breaks.

Usage: haproxy_test.py PATH_TO_CARAT. Exits with 77 (skipped) where HAProxy is missing.
"""
import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest
import urllib.error
import urllib.request
from pathlib import Path

HAPROXY = shutil.which("haproxy", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
if not HAPROXY:
    print("skipped: haproxy is not installed")
    sys.exit(77)

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 120


def free_ports(count):
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(contextlib.closing(socket.socket())) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]


def get(port, path):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=PATIENCE_S) as reply:
        return reply.read().decode()


def wait_for(condition, what):
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited in vain for {what}")
        time.sleep(0.05)


class Stream(threading.Thread):
    """One streamed reply; `whole` tells whether it came to its end."""

    def __init__(self, port, tokens, session=None):
        super().__init__(daemon=True)
        self.port, self.tokens, self.session = port, tokens, session
        self.began, self.whole = threading.Event(), False
        self.replica = None
        self.start()

    def run(self):
        headers = {"Content-Type": "application/json"}
        if self.session:
            headers["X-Session-Id"] = self.session
        body = {"prompt": "Once upon a time", "max_tokens": self.tokens, "ignore_eos": True, "stream": True}
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/v1/completions",
                                         json.dumps(body).encode(), headers)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as reply:
                for line in reply:
                    if line.startswith(b"data: {"):
                        self.replica = json.loads(line[6:])["model"]
                        self.began.set()
                    self.whole = self.whole or line.strip() == b"data: [DONE]"
        except (OSError, http.client.HTTPException):
            pass  # what a cut stream is, and `whole` says so
        self.began.set()


class HaproxyTest(unittest.TestCase):
    def setUp(self):
        self.port, *self.replica_ports = free_ports(4)
        self.replicas = [None] * 3
        for i in range(3):
            self.start_replica(i)
        environment = dict(os.environ, HAPROXY_BIND=f"127.0.0.1:{self.port}")
        for i, port in enumerate(self.replica_ports):
            environment[f"REPLICA_{i + 1}"] = f"127.0.0.1:{port}"
        self.balancer = subprocess.Popen([HAPROXY, "-db", "-f", ROOT / "deploy/haproxy.cfg"], env=environment,
                                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for(lambda: self.serving_replicas() == {"r1", "r2", "r3"}, "all replicas")

    def tearDown(self):
        for server in [self.balancer, *self.replicas]:
            server.kill()
            server.wait()

    def start_replica(self, i):
        """Its model's name is its own, so that a reply tells who wrote it."""
        self.replicas[i] = subprocess.Popen(
            [self.carat, "serve", ROOT / "models/demo", "--port", str(self.replica_ports[i]),
             "--alias", f"r{i + 1}", "--any-model", "--threads", "1", "--drain-timeout", str(PATIENCE_S)],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for(lambda: self.healthy(self.replica_ports[i]), "a replica's health")

    def healthy(self, port):
        try:
            return bool(get(port, "/health"))
        except OSError:
            return False

    def serving_replicas(self):
        """Who answers a few requests through the balancer."""
        try:
            return {json.loads(get(self.port, "/v1/models"))["data"][0]["id"] for _ in range(9)}
        except OSError:
            return set()

    def begin_streams(self, count, tokens, session=None):
        streams = [Stream(self.port, tokens, session) for _ in range(count)]
        for stream in streams:
            self.assertTrue(stream.began.wait(PATIENCE_S))
        return streams

    def join(self, streams):
        for stream in streams:
            stream.join(PATIENCE_S)
            self.assertFalse(stream.is_alive(), "a stream hangs")

    def test_a_killed_replica_breaks_only_its_own_streams(self):
        streams = self.begin_streams(12, 1500)
        self.assertEqual({stream.replica for stream in streams}, {"r1", "r2", "r3"})
        self.replicas[1].kill()
        self.join(streams)
        broken = {stream.replica for stream in streams if not stream.whole}
        self.assertEqual(broken, {"r2"})
        later = self.begin_streams(6, 20)
        self.join(later)
        self.assertTrue(all(stream.whole for stream in later))
        self.assertEqual({stream.replica for stream in later} - {"r1", "r3"}, set())
        self.replicas[1].wait()
        self.start_replica(1)
        wait_for(lambda: "r2" in self.serving_replicas(), "the replica that came back")

    def test_a_draining_replica_finishes_its_streams_and_gets_no_new_ones(self):
        streams = self.begin_streams(9, 600)
        self.assertIn("r3", {stream.replica for stream in streams})
        self.replicas[2].send_signal(signal.SIGTERM)
        wait_for(lambda: "r3" not in self.serving_replicas(), "the balancer to notice")
        self.join(streams)
        self.assertTrue(all(stream.whole for stream in streams))
        self.assertEqual(self.replicas[2].wait(PATIENCE_S), 0)

    def test_a_session_stays_with_its_replica(self):
        seen = {}
        for session in ("a", "b", "c", "d", "e", "f"):
            for _ in range(3):
                stream = Stream(self.port, 2, session)
                self.join([stream])
                seen.setdefault(session, set()).add(stream.replica)
        self.assertTrue(all(len(replicas) == 1 for replicas in seen.values()), seen)

    def test_metrics_stay_behind_the_balancer(self):
        with self.assertRaises(urllib.error.HTTPError) as refused:
            get(self.port, "/metrics")
        self.assertEqual(refused.exception.code, 404)
        self.assertIn("num_requests_running", get(self.replica_ports[0], "/metrics"))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        print(__doc__)
        sys.exit(2)
    HaproxyTest.carat = sys.argv.pop(1)
    unittest.main(verbosity=2)
