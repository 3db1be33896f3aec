//! Ours beside others: client-go, kubectl, kube-rs, apimachinery, structured-merge-diff, OpenSearch; and the control plane that all end-to-end tests run on.

mod apply;
mod client_go;
mod clients;
mod controllers;
mod controlplane;
mod defaults;
mod discovery;
mod event_exporter;
mod events_peers;
mod kubectl;
mod leader_election_peers;
mod mistakes;
mod random_writes;
mod sample_controllers;
mod schemas;
mod selectors;
mod sides;
mod stored;
mod validation;
