#!/usr/bin/env python3
"""`brdma metrics` as Prometheus meets it, over loopback in a network namespace of its own: names, values, strangers, brdmad
gone or stopped, the dashboard. Each case is a function; passed: no assertion fails. Last line: `N passed, M failed, K skipped`.
"""

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "e2e")]
import own_network  # noqa: E402
from exposition import read, value  # noqa: E402
from own_network import needs, output_of  # noqa: E402

DASHBOARD = os.path.join(HERE, "..", "..", "utils", "brdma-metrics", "dashboard.json")
BOTH = os.path.join(HERE, "..", "..", "docs", "examples", "both")
ADDRESS, URL_HOST = ("127.0.0.1", 9447), "127.0.0.1:9447"
SECONDS = 30  # far above any step here
CONNECTIONS_MAX, REQUEST_SECONDS = 32, 5  # of utils/brdma-metrics/http_server.h
DEVICE, WRITES, BYTES = "brdma_lo", 500, 65536


class Host:
    """Programs of the build, and the daemon that they start, which ends with the case."""

    def __init__(self, build):
        self.brdma, self.programs = os.path.join(build, "bin", "brdma"), []
        self.environment = {**os.environ, "BRDMA_IDLE_SECONDS": "60"}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for program in self.programs:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(program.pid, signal.SIGKILL)  # with the programs that it has started
            program.communicate()
        subprocess.run([self.brdma, "system", "shutdown", "--force"], capture_output=True, check=False)
        until(lambda: " @brdmad" not in sockets(), "brdmad has not ended")

    def call(self, *words, code=0):
        return output_of([self.brdma, *words], code=code, env=self.environment)

    def start(self, *words):
        program = subprocess.Popen([self.brdma, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.environment, start_new_session=True)
        self.programs.append(program)
        return program

    def traffic(self):
        self.call("run", "--", "sh", BOTH, needs("ib_write_bw"), "-F", "-n", str(WRITES), "-s", str(BYTES))

    def serve(self, *words, listen=URL_HOST):
        server = self.start("metrics", "serve", "--listen", listen, *words)
        line = server.stdout.readline()
        assert line.startswith("metrics are at "), line + server.stderr.read()
        return server

    def counters(self):
        return json.loads(self.call("-j", "statistic", "show"))[0]


def until(holds, what):
    end = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < end, what
        time.sleep(0.02)


def sockets():
    with open("/proc/net/unix", encoding="utf-8") as file:
        return file.read()


def request(text, address=ADDRESS, seconds=SECONDS):
    """Everything that comes back."""
    with socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET) as connection:
        connection.settimeout(seconds)
        connection.connect(address)
        with contextlib.suppress(ConnectionError, BrokenPipeError):
            connection.sendall(text)
        return everything(connection)


def everything(connection):
    parts = []
    with contextlib.suppress(ConnectionError):
        while part := connection.recv(65536):
            parts.append(part)
    return b"".join(parts).decode()


def scrape(address=ADDRESS, seconds=SECONDS):
    head, body = request(b"GET /metrics HTTP/1.1\r\nHost: host\r\n\r\n", address, seconds).split("\r\n\r\n", 1)
    assert head.startswith("HTTP/1.1 200 OK\r\n") and "Content-Type: text/plain; version=0.0.4" in head, head
    assert f"Content-Length: {len(body.encode())}" in head, head
    return read(body)


def every_counter_has_its_name(build):
    with Host(build) as host:
        host.traffic()
        families, counters = read(host.call("metrics", "show")), host.counters()
        names = [key for key in counters if key not in ("ifname", "port")]
        assert len(names) > 150
        for name in names:
            assert value(families, f"brdma_{name}_total", device=DEVICE) == counters[name], name
        assert value(families, "brdma_sent_bytes_total", device=DEVICE) > 2 * WRITES  # both ends are here
        ours = {name for name, family in families.items() if name.startswith("brdma_") and any(("device", DEVICE) in key for key in family.samples)}
        assert ours == {f"brdma_{name}_total" for name in names} | {"brdma_programs", "brdma_alarm_raised"}, ours
        same = {"port_data_transmitted_bytes": "sent_bytes", "port_data_received_bytes": "rcvd_bytes", "port_packets_transmitted": "sent_pkts", "rx_write_requests": "rx_write_requests"}
        for theirs, name in same.items():
            assert value(families, f"node_infiniband_{theirs}_total", device=DEVICE, port="1") == counters[name], theirs
        assert value(families, "node_infiniband_state_id", device=DEVICE, port="1") == 4
        assert value(families, "brdma_up") == 1 and value(families, "brdma_alarm_raised", device=DEVICE, alarm="stall") == 0
        cm = json.loads(host.call("-j", "statistic", "show", "cm"))[0]
        assert all(value(families, f"brdma_{key}_total") == number for key, number in cm.items() if key.startswith("cm_")), cm
        assert value(families, "brdma_daemon_mads_received_total") == cm["mads_received"]
        assert families["brdma_drop_bad_icrc_total"].help == "dropped: ICRC does not match"


def promtool_finds_no_fault(build):
    promtool = needs("promtool")
    with Host(build) as host:
        host.traffic()
        for words in (["show"], ["show", "--queue-pairs"]):
            text = host.call("metrics", *words)
            done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True, timeout=SECONDS, check=False)
            assert done.returncode == 0 and not done.stdout + done.stderr, done
        bad = subprocess.run([promtool, "check", "metrics"], input=text.replace("_total", ""), capture_output=True, text=True, timeout=SECONDS, check=False)
        assert bad.returncode != 0, "it finds no fault in anything"


def values_move(build):
    with Host(build) as host:
        host.traffic()
        host.serve()
        before = scrape()
        host.traffic()
        time.sleep(1.1)  # for so long a reply is kept
        after = scrape()
        moved = lambda name: value(after, name, device=DEVICE) - value(before, name, device=DEVICE)
        assert moved("brdma_sent_bytes_total") > 0 and moved("brdma_qps_created_total") >= 2, moved("brdma_qps_created_total")
        assert moved("brdma_rx_write_requests_total") >= WRITES
        assert value(after, "brdma_programs", device=DEVICE) == 0


def queue_pairs_on_request(build):
    with Host(build) as host:
        host.start("run", "--", "sh", BOTH, needs("ib_write_bw"), "-F", "-D", "600")
        until(lambda: len(json.loads(host.call("-j", "statistic", "show", "qp"))) == 2, "no two queue pairs")
        assert not [name for name in read(host.call("metrics", "show")) if name.startswith("brdma_qp_")]
        families = read(host.call("metrics", "show", "--queue-pairs"))
        keys = [dict(key) for key in families["brdma_qp_sent_pkts_total"].samples]
        rows = json.loads(host.call("-j", "statistic", "show", "qp"))
        assert sorted(key["qp"] for key in keys) == sorted(str(row["lqpn"]) for row in rows), (keys, rows)
        assert all(key["device"] == DEVICE and key["comm"] == "ib_write_bw" for key in keys), keys
        assert value(families, "brdma_qp_left_out") == 0 and value(families, "brdma_programs", device=DEVICE) == 2


def mistakes_get_their_status(build):
    with Host(build) as host:
        host.serve()
        for text, status in ((b"GET /metrics HTTP/1.0\r\n\r\n", 200), (b"HEAD /metrics HTTP/1.1\r\n\r\n", 200), (b"GET /metrics?collect=x HTTP/1.1\r\n\r\n", 200),
                             (b"GET / HTTP/1.1\r\n\r\n", 404), (b"GET /metricsx HTTP/1.1\r\n\r\n", 404), (b"DELETE /metrics HTTP/1.1\r\n\r\n", 405),
                             (b"nonsense\r\n\r\n", 400), (b"\0\xff" * 50 + b"\r\n\r\n", 400), (b"POST /metrics HTTP/1.1\r\nContent-Length: 5\r\n\r\nabcde", 400),
                             (b"GET /metrics HTTP/1.1\r\nX: " + b"a" * 5000 + b"\r\n\r\n", 431)):
            said = request(text)
            assert said.startswith(f"HTTP/1.1 {status} "), (text[:40], said[:200])
        assert request(b"HEAD /metrics HTTP/1.1\r\n\r\n").endswith("\r\n\r\n")
        request(b"GET /metrics HTTP/1.1\r\nX: " + b"a" * 2_000_000)  # closed, whatever comes back
        scrape()


def descriptors_of(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def resident_kib(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        return int(re.search(r"VmRSS:\s+(\d+)", file.read())[1])


def strangers_stall_nothing(build):
    """Half requests, a byte a time, and readers that read nothing: four times as many as there are connections."""
    with Host(build) as host, contextlib.ExitStack() as open_ones:
        server = host.serve()
        scrape()
        before = descriptors_of(server.pid), resident_kib(server.pid)
        strangers = []
        for number in range(4 * CONNECTIONS_MAX):
            stranger = open_ones.enter_context(socket.create_connection(ADDRESS))
            stranger.settimeout(SECONDS)
            with contextlib.suppress(ConnectionError):
                stranger.sendall(b"GET /metrics HTTP/1.1\r\nX: " if number % 2 else b"G")
            strangers.append(stranger)
        began = time.monotonic()
        scrape()
        assert descriptors_of(server.pid) <= before[0] + CONNECTIONS_MAX, descriptors_of(server.pid)
        for stranger in strangers:  # each is closed, by a newer one or by the time limit
            everything(stranger)
        assert time.monotonic() - began < 6 * REQUEST_SECONDS
        assert descriptors_of(server.pid) <= before[0] + 1
        silent = [open_ones.enter_context(socket.create_connection(ADDRESS)) for _ in range(CONNECTIONS_MAX)]
        for stranger in silent:
            stranger.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        scrape()
        assert resident_kib(server.pid) < before[1] + 20_000, resident_kib(server.pid)
        assert server.poll() is None


def a_stopped_brdmad_is_down(build):
    with Host(build) as host:
        host.traffic()
        server = host.serve()
        assert value(scrape(), "brdma_up") == 1
        daemon = json.loads(host.call("-j", "system", "show"))[0]["brdmad"]
        both = (daemon["pid"], daemon["worker_pid"])
        for pid in both:
            os.kill(pid, signal.SIGSTOP)
        try:
            time.sleep(1.1)  # for so long a reply is kept
            began = time.monotonic()
            families = scrape()
            assert value(families, "brdma_up") == 0 and time.monotonic() - began < 5, time.monotonic() - began
            assert "brdma_sent_bytes_total" not in families and value(families, "node_infiniband_state_id", device=DEVICE, port="1") == 4
        finally:
            for pid in both:
                os.kill(pid, signal.SIGCONT)
        until(lambda: value(scrape(), "brdma_up") == 1, "brdmad does not come back")
        server.send_signal(signal.SIGTERM)
        assert server.wait(timeout=SECONDS) == 0


def without_brdmad_it_says_so(build):
    with Host(build) as host:
        done = subprocess.run([host.brdma, "metrics"], capture_output=True, text=True, timeout=SECONDS, check=False)
        assert done.returncode == 0 and value(read(done.stdout), "brdma_up") == 0 and "no brdmad" in done.stderr, done
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run([host.brdma, "metrics"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=SECONDS, check=False)
        assert done.returncode == 1 and "cannot write" in done.stderr, done


def a_build_without_it_says_so(build):
    with Host(build) as host, tempfile.TemporaryDirectory() as folder:
        assert json.loads(host.call("-j", "system", "show"))[0]["metrics"] == os.path.realpath(os.path.join(build, "bin", "brdma-metrics"))
        alone = shutil.copy(host.brdma, folder)
        done = subprocess.run([alone, "metrics"], capture_output=True, text=True, timeout=SECONDS, check=False)
        assert done.returncode == 1 and "prometheus-cpp-dev" in done.stderr, done
        assert "metrics none: built without prometheus-cpp" in output_of([alone, "system", "show"])
        assert json.loads(output_of([alone, "-j", "system", "show"]))[0]["metrics"] is None


def for_everybody(build, folder):
    """`brdma metrics show` as nobody, from a copy of the programs."""
    os.chmod(folder, 0o755)
    for name in ("brdma", "brdma-metrics"):
        shutil.copy(os.path.join(build, "bin", name), folder)
    return [*own_network.NOBODY, os.path.join(folder, "brdma"), "metrics", "show"]


def other_users_ask(build):
    """The daemon of a user refuses others; `brdmad --system`, beside which the unit runs, answers them."""
    with open("/proc/self/uid_map", encoding="utf-8") as file:
        if file.read().split() != ["0", "0", "4294967295"]:
            raise own_network.Skip("only root can become another user")
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        show = for_everybody(build, folder)
        with Host(build) as host:
            host.traffic()
            done = subprocess.run(show, capture_output=True, text=True, timeout=SECONDS, check=False)
            assert done.returncode == 1 and "belongs to root" in done.stderr and value(read(done.stdout), "brdma_up") == 0, done
        with Host(build) as host:
            words = ["--system", "--users-trust-each-other", "--foreground", "--idle-seconds", "60"]
            host.programs.append(subprocess.Popen([os.path.join(build, "bin", "brdmad"), *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True))
            until(lambda: " @brdmad\n" in sockets(), "brdmad does not start")
            host.traffic()
            assert value(read(output_of(show)), "brdma_sent_bytes_total", device=DEVICE) == host.counters()["sent_bytes"] > 0


class Impostor:
    """Somebody else at brdmad's name, who answers each query with the same bytes; None: never."""

    def __init__(self, reply):
        self.reply, self.listener = reply, socket.socket(socket.AF_UNIX)
        self.listener.bind("\0brdmad")
        self.listener.listen(16)
        self.waiting = []

    def __enter__(self):
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.listener.close()
        for connection in self.waiting:
            connection.close()

    def serve(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            if self.reply is None:
                self.waiting.append(connection)
                continue
            with connection, contextlib.suppress(OSError):
                connection.recv(65536)
                connection.sendall(self.reply)


def an_impostors_answers_are_bounded(build):
    name = 'x"\\\n{}'
    devices = [{"device": f"d{number}", "counters": {"sent_pkts": number}} for number in range(1000)]
    odd = {"devices": [{"device": name, "counters": {"sent_pkts": 1, "rcvd_pkts": "2", "sent_bytes": -3}}, 7, {"device": [], "counters": []}], "processes": {},
           "management": {"Bad Key": 1, "good": 2, **{f"k{number}": 1 for number in range(500)}}, "icmp": None, "connections": {"counters": 5}}
    for reply, up in ((None, 0), (b"", 0), (b"\n", 0), (b"nonsense\n", 0), (b"[" * 1000 + b"\n", 0), (b"[]\n", 0), (b'{"error":7}\n', 0), (b'{"error":{"errno":13,"message":"no"}}\n', 0),
                      (b"{}\n", 1), (json.dumps({"devices": devices}).encode() + b"\n", 1), (json.dumps(odd).encode() + b"\n", 1)):
        with Impostor(reply):
            done = subprocess.run([os.path.join(build, "bin", "brdma"), "metrics", "show", "--queue-pairs"], capture_output=True, text=True, timeout=SECONDS, check=False)
        families = read(done.stdout)
        assert value(families, "brdma_up") == up and done.returncode == (0 if up else 1), (reply, done.returncode, done.stderr)
        assert len(done.stdout) < 200_000 and "brdma_daemon_Bad Key" not in done.stdout
        if reply and b"d999" in reply:
            assert len(families["brdma_sent_pkts_total"].samples) == 256
        if reply and b"Bad Key" in reply:
            assert list(families["brdma_sent_pkts_total"].samples) == [(("device", 'x\\"\\\\\\n{}'),)], list(families["brdma_sent_pkts_total"].samples)
            assert sum(family.startswith("brdma_daemon_") for family in families) == 64 and not {"brdma_rcvd_pkts_total", "brdma_sent_bytes_total"} & set(families)


def addresses_are_checked(build):
    with Host(build) as host, tempfile.TemporaryDirectory() as folder:
        def refused(code, said, *words, **variables):
            done = subprocess.run([host.brdma, "metrics", "serve", *words], capture_output=True, text=True, timeout=SECONDS, env={**host.environment, **variables}, check=False)
            assert done.returncode == code and said in done.stderr, done

        refused(2, "metrics.listen")
        refused(2, "expected ADDRESS:PORT", "--listen", "nonsense")
        refused(2, "", "--nonsense")
        refused(1, "another address", BRDMA_METRICS_LISTEN="192.0.2.1:9447")
        host.serve()
        refused(1, "Address already in use", "--listen", URL_HOST)
        path = os.path.join(folder, "metrics")
        server = host.serve(listen="unix:" + path)
        assert value(scrape(path), "brdma_up") == 0
        refused(1, "Address already in use", "--listen", "unix:" + path)
        server.kill()
        server.wait()
        assert os.path.exists(path)  # left over, and replaced
        server = host.serve(listen="unix:" + path)
        scrape(path)
        server.send_signal(signal.SIGTERM)
        assert server.wait(timeout=SECONDS) == 0 and not os.path.exists(path)
        with open(path, "w", encoding="utf-8") as file:
            file.write("kept")
        refused(1, "Address already in use", "--listen", "unix:" + path)
        assert os.path.getsize(path) == 4


def the_dashboard_names_what_is_there(build):
    with open(DASHBOARD, encoding="utf-8") as file:
        dashboard = json.load(file)
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]
    expressions += [variable["definition"] for variable in dashboard["templating"]["list"] if variable["type"] == "query"]
    with Host(build) as host:
        host.start("run", "--", "sh", BOTH, needs("ib_write_bw"), "-F", "-D", "600")
        until(lambda: len(json.loads(host.call("-j", "statistic", "show", "qp"))) == 2, "no two queue pairs")
        names = set(read(host.call("metrics", "show", "--queue-pairs")))
    assert len(expressions) >= 10
    for expression in expressions:
        used = set(re.findall(r"\b(?:brdma|node_infiniband)_[a-z0-9_]+", re.sub(r'"[^"]*"', "", expression)))
        assert used and used <= names, f"{expression}: {used - names}"


CASES = [every_counter_has_its_name, promtool_finds_no_fault, values_move, queue_pairs_on_request, mistakes_get_their_status, strangers_stall_nothing,
         a_stopped_brdmad_is_down, without_brdmad_it_says_so, a_build_without_it_says_so, other_users_ask, an_impostors_answers_are_bounded, addresses_are_checked, the_dashboard_names_what_is_there]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    own_network.add_options(parser)
    return own_network.main(parser.parse_args(), "tests/metrics/scrape.py", ["docs/examples", "utils/brdma-metrics"], CASES)


if __name__ == "__main__":
    sys.exit(main())
