#!/bin/sh
# Makes the keys and certificates of the cluster and of a Redis with TLS in a directory, once: pki.sh DIRECTORY
set -eu
cd "$1"
[ ! -e made ] || exit 0
key() { openssl ecparam -name prime256v1 -genkey -noout -out "$1.key" 2>/dev/null; }
sign() { # name, subject, usage, names of the server
    key "$1"
    printf 'keyUsage=digitalSignature\nextendedKeyUsage=%s\n%s\n' "$3" "${4:+subjectAltName=$4}" >ext
    openssl req -new -key "$1.key" -subj "$2" -out csr
    openssl x509 -req -in csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 3650 -extfile ext -out "$1.crt" 2>/dev/null
}
key ca
openssl req -x509 -new -key ca.key -days 3650 -subj /CN=tests -out ca.crt 2>/dev/null
openssl genrsa -out accounts.key 2048 2>/dev/null
openssl rsa -in accounts.key -pubout -out accounts.crt 2>/dev/null
sign apiserver /CN=kube-apiserver serverAuth DNS:kubernetes.default.svc,IP:127.0.0.1,IP:192.0.2.1,IP:203.0.113.1
sign kubelet-server /O=system:nodes/CN=system:node:node1 serverAuth IP:192.0.2.1
sign kubelet-client /O=system:masters/CN=kube-apiserver clientAuth
sign front-proxy /CN=front-proxy clientAuth
sign redis /CN=redis serverAuth DNS:shop.redis.example.com
for user in admin=/O=system:masters/CN=admin controllers=/CN=system:kube-controller-manager scheduler=/CN=system:kube-scheduler \
    kubelet=/O=system:nodes/CN=system:node:node1 proxy=/CN=system:kube-proxy; do
    name=${user%%=*}
    sign "$name" "${user#*=}" clientAuth
    cat >"$name.yaml" <<EOF
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:6443", certificate-authority: $PWD/ca.crt}}]
users: [{name: u, user: {client-certificate: $PWD/$name.crt, client-key: $PWD/$name.key}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
EOF
done
rm -f csr ext
touch made
