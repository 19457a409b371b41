"""The node of the tests: its daemons, its name server, and what the tests ask of Kubernetes. node.sh has made the namespaces."""
import contextlib
import http.client
import json
import os
import pathlib
import signal
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
PLACE = pathlib.Path(os.environ["QS_KUBERNETES_DIR"])
NODE, PKI, BIN = PLACE / "node", PLACE / "pki", PLACE / "bin"
CGROUP = os.environ["QS_KUBERNETES_CGROUP"]
ADDRESS = "192.0.2.1"
SLOW = int(os.environ.get("QS_TEST_SLOW", "1"))
PATIENCE_S = 120 * SLOW  # every step ends within seconds, but the machine may be busy


def wait(what, condition, seconds=PATIENCE_S, told=None):
    """Returns the first true value of `condition`. After `seconds` fails the test, with what `told` returns."""
    until = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > until:
            raise AssertionError(f"waited {seconds} s: {what}\n{told() if told else ''}")
        time.sleep(0.1)
    return value


def run(*command, code=0, given=None, cwd=TOP, seconds=PATIENCE_S * 2):
    """Returns the output of a command. Fails the test unless the exit code is `code`; with None returns the completed process."""
    words = [str(word) for word in command]
    done = subprocess.run(words, input=given, capture_output=True, text=True, timeout=seconds, check=False, cwd=cwd)
    if code is None:
        return done
    if done.returncode != code:
        raise AssertionError(f"{' '.join(words)}: exit code {done.returncode}, not {code}\n{done.stdout}{done.stderr}")
    return done.stdout


def kubectl(*arguments, **options):
    return run(BIN / "kubectl", "--kubeconfig", PKI / "admin.yaml", *arguments, **options)


def say(text):
    print(f"kubernetes: {text}", file=sys.stderr, flush=True)


class Names(threading.Thread):
    """The name server of the cluster: tests write names into `known`. While `away` is true it does not answer, as one that hangs."""

    def __init__(self):
        super().__init__(daemon=True)
        self.known = {}
        self.away = False
        self.unanswered = 0
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((ADDRESS, 53))
        self.start()

    def run(self):
        while True:
            query, peer = self.socket.recvfrom(512)
            if self.away:
                self.unanswered += 1
            else:
                with contextlib.suppress(IndexError, ValueError):  # not a question
                    self.socket.sendto(self.answer(query), peer)

    def answer(self, query):
        """RFC 1035, 4.1: header, the question, and an A record if there is one."""
        end = query.index(b"\0", 12) + 5
        labels, at = [], 12
        while query[at]:
            labels.append(query[at + 1 : at + 1 + query[at]].decode())
            at += 1 + query[at]
        address = self.known.get(".".join(labels).lower())
        found = address is not None and query[end - 4 : end - 2] == b"\0\1"
        record = b"\xc0\x0c\0\1\0\1" + struct.pack(">IH", 1, 4) + socket.inet_aton(address) if found else b""
        return query[:2] + struct.pack(">5H", 0x8180 if address else 0x8183, 1, int(found), 0, 0) + query[12:end] + record


CONTAINERD = """version = 2
root = "{node}/containerd"
state = "/run/containerd"
[grpc]
  address = "/run/containerd/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "registry.k8s.io/pause:3.10"
  restrict_oom_score_adj = true  # a machine may lack CAP_SYS_RESOURCE
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{node}/networks"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "{snapshotter}"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
"""
NETWORK = {
    "cniVersion": "0.4.0",
    "name": "pods",
    "plugins": [
        {"type": "bridge", "bridge": "pods0", "isGateway": True, "ipMasq": True, "hairpinMode": True,
         "ipam": {"type": "host-local", "ranges": [[{"subnet": "198.51.100.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
        {"type": "portmap", "capabilities": {"portMappings": True}},
    ],
}


def kubelet_config():
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {"anonymous": {"enabled": False}, "webhook": {"enabled": True}, "x509": {"clientCAFile": f"{PKI}/ca.crt"}},
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": f"{PKI}/kubelet-server.crt",
        "tlsPrivateKeyFile": f"{PKI}/kubelet-server.key",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{CGROUP}",
        "failCgroupV1": False,
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "clusterDomain": "cluster.local",
        "clusterDNS": [ADDRESS],
        "resolvConf": f"{NODE}/resolv.conf",
        "podLogsDir": f"{NODE}/log/pods",
        # Images cannot come back from a registry, and the disk is that of a developer or of CI.
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
    }


def commands():
    """The daemons of the node by name."""
    user = lambda name: ["--kubeconfig", f"{PKI}/{name}.yaml"]
    delegates = lambda name: [option for kind in ("authentication", "authorization") for option in (f"--{kind}-kubeconfig", f"{PKI}/{name}.yaml")]
    etcd = "http://127.0.0.1:2379"
    return {
        "containerd": ["containerd", "-c", NODE / "containerd.toml"],
        "etcd": ["etcd", "--data-dir", NODE / "etcd", "--unsafe-no-fsync", "--listen-client-urls", etcd, "--advertise-client-urls", etcd,
                 "--listen-peer-urls", "http://127.0.0.1:2380", "--log-level", "warn"],
        "apiserver": [BIN / "kube-apiserver", "--etcd-servers", etcd, "--service-cluster-ip-range", "203.0.113.0/24", "--advertise-address",
                      ADDRESS, "--secure-port", "6443", "--client-ca-file", PKI / "ca.crt", "--tls-cert-file", PKI / "apiserver.crt",
                      "--tls-private-key-file", PKI / "apiserver.key", "--kubelet-client-certificate", PKI / "kubelet-client.crt",
                      "--kubelet-client-key", PKI / "kubelet-client.key", "--kubelet-certificate-authority", PKI / "ca.crt",
                      "--service-account-key-file", PKI / "accounts.crt", "--service-account-signing-key-file", PKI / "accounts.key",
                      "--service-account-issuer", "https://kubernetes.default.svc", "--authorization-mode", "Node,RBAC",
                      "--enable-admission-plugins", "NodeRestriction", "--requestheader-client-ca-file", PKI / "ca.crt",
                      "--proxy-client-cert-file", PKI / "front-proxy.crt", "--proxy-client-key-file", PKI / "front-proxy.key",
                      "--kubelet-preferred-address-types", "InternalIP"],
        "controllers": [BIN / "kube-controller-manager", *user("controllers"), *delegates("controllers"), "--leader-elect=false",
                        "--service-account-private-key-file", PKI / "accounts.key", "--root-ca-file", PKI / "ca.crt",
                        "--use-service-account-credentials", "--node-monitor-grace-period", "40s"],
        "scheduler": [BIN / "kube-scheduler", *user("scheduler"), *delegates("scheduler"), "--leader-elect=false"],
        "proxy": [BIN / "kube-proxy", *user("proxy"), "--hostname-override", "node1", "--proxy-mode", "iptables", "--cluster-cidr",
                  "198.51.100.0/24", "--conntrack-max-per-core", "0", "--conntrack-tcp-timeout-established", "0",
                  "--conntrack-tcp-timeout-close-wait", "0"],
        "kubelet": [BIN / "kubelet", "--config", NODE / "kubelet.json", *user("kubelet"), "--root-dir", NODE / "kubelet",
                    "--hostname-override", "node1", "--node-ip", ADDRESS],
    }


class Cluster:
    """The daemons of the node. The processes end with the node, so nothing ends them."""

    def __init__(self):
        start = time.monotonic()
        self.processes = {}
        self.write_configs()
        self.names = Names()
        for name in ("containerd", "etcd", "apiserver"):
            self.start(name)
        wait("containerd answers", lambda: self.ctr("version", code=None).returncode == 0, told=lambda: self.log("containerd"))
        self.ctr("images", "import", "--all-platforms", PLACE / "images/all.tar", seconds=900)
        wait("the API server is ready", lambda: self.get("/readyz") is not None, told=lambda: self.log("apiserver"))
        for name in ("controllers", "scheduler", "proxy", "kubelet"):
            self.start(name)
        wait("the node is ready", self.node_ready, told=lambda: self.log("kubelet") + str(self.get("/api/v1/nodes")))
        wait("pods may be made", lambda: self.get("/api/v1/namespaces/default/serviceaccounts/default"))
        say(f"the cluster is ready after {time.monotonic() - start:.0f} s: {kubectl('get', 'nodes', '--no-headers').strip()}")

    def write_configs(self):
        for directory in ("networks", "out", "volumes"):
            (NODE / directory).mkdir()
        probe = run("unshare", "--mount", "sh", "-c", f"cd {NODE} && mkdir -p a b c d && mount -t overlay none -o lowerdir=a,upperdir=b,workdir=c d",
                    code=None)
        snapshotter = "overlayfs" if probe.returncode == 0 else "native"
        (NODE / "containerd.toml").write_text(CONTAINERD.format(node=NODE, snapshotter=snapshotter))
        (NODE / "networks/pods.conflist").write_text(json.dumps(NETWORK))
        (NODE / "kubelet.json").write_text(json.dumps(kubelet_config()))
        (NODE / "resolv.conf").write_text(f"nameserver {ADDRESS}\n")

    def start(self, name):
        with (NODE / "out" / name).open("a") as out:
            self.processes[name] = subprocess.Popen(list(map(str, commands()[name])), stdin=subprocess.DEVNULL, stdout=out, stderr=out)

    def kill(self, name):
        self.processes[name].kill()
        self.processes[name].wait()

    def keep(self, name):
        """Starts a daemon again that has ended by itself, as its supervisor would: a kubelet ends if containerd is not ready yet."""
        if self.processes[name].poll() is not None:
            self.start(name)

    def log(self, name):
        return "\n".join((NODE / "out" / name).read_text(errors="replace").splitlines()[-15:])

    def ctr(self, *arguments, **options):
        return run("ctr", "-a", "/run/containerd/containerd.sock", "-n", "k8s.io", *arguments, **options)

    def node_ready(self):
        nodes = (self.get("/api/v1/nodes") or {}).get("items", [])
        return any(condition["type"] == "Ready" and condition["status"] == "True" for node in nodes for condition in node["status"].get("conditions", []))

    def get(self, path):
        """The object at a path of the API; None = there is none, or no API yet."""
        context = ssl.create_default_context(cafile=PKI / "ca.crt")
        context.load_cert_chain(PKI / "admin.crt", PKI / "admin.key")
        connection = http.client.HTTPSConnection("127.0.0.1", 6443, timeout=30, context=context)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            text = answer.read()
            return None if answer.status != 200 else json.loads(text) if text.startswith(b"{") else text
        except OSError:
            return None
        finally:
            connection.close()


def process_of(container_id):
    """The first process of a container, by its cgroup."""
    found = []
    for place in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if container_id in (place / "cgroup").read_text():
                found.append(int(place.name))
    return min(found, default=None)


def kill_process(pid):
    os.kill(pid, signal.SIGKILL)


def cgroup_of(container_id):
    """The directory of a container's memory cgroup."""
    top = pathlib.Path("/sys/fs/cgroup")
    if not (top / "cgroup.controllers").exists():
        top /= "memory"
    return next((top / CGROUP).glob(f"kubepods/**/{container_id}"), None)


_cluster = []


def cluster():
    """The one cluster of a run; the first test starts it."""
    if not _cluster:
        _cluster.append(Cluster())
    return _cluster[0]
