//! End-to-end tests on a real kube-apiserver and etcd.
