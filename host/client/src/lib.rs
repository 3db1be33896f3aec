//! Kubernetes REST client on hyper: kubeconfig, verbs, list pages, watch streams, discovery.
