# SPDX-License-Identifier: Apache-2.0
"""The world's own certificate authority, and leaves under it: good, expired, for another name, self-signed.

Each <name>.pem has the key and the chain; ca.pem is what to trust.
"""
import os
import subprocess

from names import NAMES

CONFIG = """
[ca]
default_ca = world
[world]
new_certs_dir = {top}
database = {top}/index
serial = {top}/serial
default_md = sha256
policy = any
x509_extensions = leaf
[any]
commonName = supplied
[leaf]
basicConstraints = critical,CA:false
extendedKeyUsage = serverAuth
subjectAltName = {names}
"""
WEB = (*(f"DNS:{name}" for name in NAMES), "DNS:*.web.test", "IP:93.184.216.10")


def openssl(*args):
    subprocess.run(["openssl", *args], check=True, capture_output=True)


def key(path):
    openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", path)


def leaf(top, name, names, start="20200101000000Z", end="20491231235959Z"):
    def at(suffix):
        return os.path.join(top, f"{name}.{suffix}")
    key(at("key"))
    with open(at("cnf"), "w", encoding="ascii") as f:
        f.write(CONFIG.format(top=top, names=",".join(names)))
    openssl("req", "-new", "-key", at("key"), "-subj", f"/CN={name}", "-out", at("csr"))
    openssl("ca", "-batch", "-notext", "-config", at("cnf"), "-cert", os.path.join(top, "ca.pem"),
            "-keyfile", os.path.join(top, "ca.key"), "-startdate", start, "-enddate", end,
            "-in", at("csr"), "-out", at("crt"))
    join(at("pem"), at("key"), at("crt"))


def join(path, *parts):
    with open(path, "wb") as out:
        for part in parts:
            with open(part, "rb") as f:
                out.write(f.read())


def make(top):
    def at(name):
        return os.path.join(top, name)
    key(at("ca.key"))
    openssl("req", "-x509", "-new", "-key", at("ca.key"), "-subj", "/CN=The world of the tests",
            "-days", "3650", "-out", at("ca.pem"))
    open(at("index"), "w", encoding="ascii").close()
    with open(at("serial"), "w", encoding="ascii") as f:
        f.write("1000\n")
    leaf(top, "web", WEB)
    leaf(top, "expired", ["DNS:expired.test"], end="20210101000000Z")
    leaf(top, "wrong", ["DNS:somebody-else.test"])
    key(at("self.key"))
    openssl("req", "-x509", "-new", "-key", at("self.key"), "-subj", "/CN=self.test", "-days", "3650",
            "-addext", "subjectAltName=DNS:self.test", "-out", at("self.crt"))
    join(at("self.pem"), at("self.key"), at("self.crt"))
    trust(top)


def trust(top):
    """A directory to stand over /etc/ssl/certs: the world's authority alone, as a file and by its hash."""
    certs = os.path.join(top, "certs")
    os.makedirs(os.path.join(certs, "java"))
    join(os.path.join(certs, "ca-certificates.crt"), os.path.join(top, "ca.pem"))
    name = subprocess.run(["openssl", "x509", "-noout", "-hash", "-in", os.path.join(top, "ca.pem")],
                          check=True, capture_output=True, text=True).stdout.strip()
    os.symlink("ca-certificates.crt", os.path.join(certs, f"{name}.0"))
    subprocess.run(["keytool", "-importcert", "-noprompt", "-alias", "world", "-storetype", "JKS",
                    "-storepass", "changeit", "-file", os.path.join(top, "ca.pem"),
                    "-keystore", os.path.join(certs, "java", "cacerts")], check=True, capture_output=True)
    subprocess.run(["chmod", "-R", "a+rX", certs], check=True)
