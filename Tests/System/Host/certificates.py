"""Certificates of an authority of a check's own, made by OpenSSL."""

import subprocess


class Certificates:
    """An authority, and certificates with one defect each. `host` is the name of the service, `addresses` its addresses."""

    def __init__(self, folder, host, *addresses):
        self.folder = folder
        self.addresses = addresses
        self.host = host
        for name in ("ca", "other"):
            self.openssl("req", "-x509", *self.key(name), "-days", "30", "-subj", f"/CN={name}", "-addext",
                         "keyUsage=critical,keyCertSign", "-out", self.path(name))
        self.sign("good", host)
        try:
            self.sign("expired", host, validity=("-not_before", "20200101000000Z", "-not_after", "20200201000000Z"))
        except subprocess.CalledProcessError:  # OpenSSL before 3.4 has no such options, and later ones refuse this.
            self.sign("expired", host, validity=("-days", "-1"))
        self.sign("host", "elsewhere.test")
        self.sign("authority", host, authority="other")

    def path(self, name, suffix="pem"):
        return f"{self.folder}/{name}.{suffix}"

    def key(self, name):
        return ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", self.path(name, "key")]

    def sign(self, name, host, validity=("-days", "30"), authority="ca"):
        with open(self.path(name, "ext"), "w", encoding="ascii") as file:
            addresses = self.addresses if host == self.host else ()
            file.write("subjectAltName=" + ",".join([f"DNS:{host}", *(f"IP:{address}" for address in addresses)]) + "\n")
        self.openssl("req", *self.key(name), "-out", self.path(name, "csr"), "-subj", "/CN=service")
        self.openssl("x509", "-req", "-in", self.path(name, "csr"), "-CA", self.path(authority), "-CAkey",
                     self.path(authority, "key"), "-CAcreateserial", "-extfile", self.path(name, "ext"), *validity,
                     "-out", self.path(name))

    @staticmethod
    def openssl(*words):
        subprocess.run(["openssl", *words], check=True, capture_output=True, timeout=60)
