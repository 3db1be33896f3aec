//! Skeletons of kinds with certificates, and of kinds that a real server serves in alpha and beta versions alone.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::{Skeleton, in_group, of};

const CA: &str = include_str!("pem/ca.pem");
const OTHER_CA: &str = include_str!("pem/ca2.pem");
const LEAF: &str = include_str!("pem/leaf.pem");
const EC: &str = include_str!("pem/ec.csr");
const RSA: &str = include_str!("pem/rsa.csr");
const ED: &str = include_str!("pem/ed.csr");
/// Of another name than the one that was signed.
const FORGED: &str = include_str!("pem/forged.csr");

fn signing_request(name: &str, request: &str) -> Skeleton {
    of(
        in_group!("certificates.k8s.io/v1", "certificatesigningrequests"),
        "certificates.k8s.io/v1",
        "CertificateSigningRequest",
        name,
        &json!({"spec": {
            "request": STANDARD.encode(request), "signerName": "example.com/signer", "usages": ["client auth", "digital signature"],
            "expirationSeconds": 3600,
        }}),
    )
}

fn bundle(name: &str, signer: &str, text: &str) -> Skeleton {
    of(
        in_group!("certificates.k8s.io/v1beta1", "clustertrustbundles"),
        "certificates.k8s.io/v1beta1",
        "ClusterTrustBundle",
        name,
        &json!({"spec": {"signerName": signer, "trustBundle": text}}),
    )
}

pub(super) fn certificates() -> Vec<Skeleton> {
    // Of a key of Ed25519, and the signature of the UID of the Pod.
    let key = "MCowBQYDK2VwAyEAqouLRf1ZGFnjRhVXbMrWZzDW8aZk4VLAzUla6fOo1JE=";
    let proof = "h+vSVdZbwnz5ZHW+XIa88PtlTo8Fe7w7gxm53L+XdEn3kW6F4G2ltS8rUxUecanUi21mCWW2DIO7fuk5ua9wCw==";
    let pod_request = |name: &str, signer: &str, keys: Value| {
        let mut spec = json!({
            "signerName": signer, "podName": "a-pod", "podUID": "uid-1", "serviceAccountName": "builder",
            "serviceAccountUID": "uid-2", "nodeName": "a-node", "nodeUID": "uid-3", "maxExpirationSeconds": 86400,
            "unverifiedUserAnnotations": {"example.com/a": "b"},
        });
        super::replace(&mut spec, &keys);
        of(
            in_group!("certificates.k8s.io/v1beta1/namespaces", "default/podcertificaterequests"),
            "certificates.k8s.io/v1beta1",
            "PodCertificateRequest",
            name,
            &json!({"spec": spec}),
        )
    };
    vec![
        signing_request("ec", EC),
        signing_request("rsa", RSA),
        signing_request("ed", &format!("a line before\n{ED}")),
        bundle("plain", "", CA),
        bundle("example.com:signer:a", "example.com/signer", &format!("{CA}\n{OTHER_CA}")),
        pod_request("stub", "example.com/signer", json!({"stubPKCS10Request": encoded(ED)})),
        pod_request(
            "keys",
            "kubernetes.io/signer",
            json!({"pkixPublicKey": key, "proofOfPossession": proof}),
        ),
    ]
}

/// What is between the lines of a block.
fn encoded(pem: &str) -> String {
    pem.lines().filter(|line| !line.starts_with('-')).collect()
}

/// Requests and bundles with which something is wrong that breaking a text as a whole does not show.
pub(super) fn wrong_certificates() -> Vec<Skeleton> {
    let cut = EC.replacen("MII", "MIJ", 1);
    let requests = [
        FORGED.to_owned(),
        EC.replace("CERTIFICATE REQUEST", "NEW CERTIFICATE REQUEST"),
        EC.replacen("-----END", "-----ENDE", 1),
        format!("{CA}{EC}"),
        format!("{EC}{CA}"),
        EC.replacen("MII", "MIJ", 1),
        EC.replacen(
            "-----BEGIN CERTIFICATE REQUEST-----\n",
            "-----BEGIN CERTIFICATE REQUEST-----\na: b\n\n",
            1,
        ),
        format!("-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n{cut}"),
    ];
    let bundles = [
        LEAF.to_owned(),
        format!("{CA}{CA}{OTHER_CA}{CA}"),
        format!("{CA}{EC}{LEAF}"),
        CA.replacen("-----BEGIN CERTIFICATE-----\n", "-----BEGIN CERTIFICATE-----\na: b\n\n", 1),
        CA.replacen("MII", "MIJ", 1),
        String::new(),
        "no certificate".to_owned(),
    ];
    let requests = requests.iter().map(|text| signing_request("wrong", text));
    requests.chain(bundles.iter().map(|text| bundle("wrong", "", text))).collect()
}

pub(super) fn previews() -> Vec<Skeleton> {
    let policy = json!({"gang": {"minCount": 2}});
    let claims = json!([
        {"name": "one", "resourceClaimName": "a.claim"}, {"name": "two", "resourceClaimTemplateName": "a-template"},
    ]);
    let constraints = json!({"topology": [{"key": "example.com/zone"}]});
    let groups = in_group!("scheduling.k8s.io/v1alpha2/namespaces", "default/podgroups");
    vec![
        of(
            in_group!("scheduling.k8s.io/v1alpha2/namespaces", "default/workloads"),
            "scheduling.k8s.io/v1alpha2",
            "Workload",
            "workload",
            &json!({"spec": {
                "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": "a"},
                "podGroupTemplates": [
                    {"name": "first", "schedulingPolicy": policy, "schedulingConstraints": constraints, "resourceClaims": claims,
                     "disruptionMode": "PodGroup", "priorityClassName": "high", "priority": 5},
                    {"name": "second", "schedulingPolicy": {"basic": {}}},
                ],
            }}),
        ),
        of(
            groups,
            "scheduling.k8s.io/v1alpha2",
            "PodGroup",
            "group",
            &json!({"spec": {
                "schedulingPolicy": policy, "schedulingConstraints": constraints, "resourceClaims": claims,
                "disruptionMode": "Pod",
            }}),
        ),
        of(
            groups,
            "scheduling.k8s.io/v1alpha2",
            "PodGroup",
            "basic",
            &json!({"spec": {"schedulingPolicy": {"basic": {}}}}),
        ),
        of(
            in_group!("resource.k8s.io/v1beta2", "devicetaintrules"),
            "resource.k8s.io/v1beta2",
            "DeviceTaintRule",
            "rule",
            &json!({"spec": {
                "deviceSelector": {"driver": "gpu.example", "pool": "a/b", "device": "gpu-0"},
                "taint": {"key": "example.com/a", "value": "b", "effect": "NoExecute"},
            }}),
        ),
        of(
            in_group!("resource.k8s.io/v1alpha3", "resourcepoolstatusrequests"),
            "resource.k8s.io/v1alpha3",
            "ResourcePoolStatusRequest",
            "request",
            &json!({"spec": {"driver": "gpu.example", "poolName": "a/b", "limit": 10}}),
        ),
        of(
            in_group!("coordination.k8s.io/v1beta1/namespaces", "default/leasecandidates"),
            "coordination.k8s.io/v1beta1",
            "LeaseCandidate",
            "candidate",
            &json!({"spec": {
                "leaseName": "a", "binaryVersion": "1.36.1-rc.2+build", "emulationVersion": "1.35.0", "strategy": "OldestEmulationVersion",
            }}),
        ),
        of(
            in_group!("coordination.k8s.io/v1beta1/namespaces", "default/leasecandidates"),
            "coordination.k8s.io/v1beta1",
            "LeaseCandidate",
            "other",
            &json!({"spec": {"leaseName": "a", "binaryVersion": "1.36.1", "strategy": "example.com/strategy"}}),
        ),
        of(
            in_group!("storagemigration.k8s.io/v1beta1", "storageversionmigrations"),
            "storagemigration.k8s.io/v1beta1",
            "StorageVersionMigration",
            "migration",
            &json!({"spec": {"resource": {"group": "apps", "resource": "deployments"}}}),
        ),
        of(
            in_group!("apiregistration.k8s.io/v1", "apiservices"),
            "apiregistration.k8s.io/v1",
            "APIService",
            "v1.metrics.example.com",
            &json!({"spec": {
                "group": "metrics.example.com", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 10,
                "service": {"namespace": "default", "name": "a", "port": 443}, "caBundle": STANDARD.encode(CA),
                "insecureSkipTLSVerify": false,
            }}),
        ),
        of(
            in_group!("apiregistration.k8s.io/v1", "apiservices"),
            "apiregistration.k8s.io/v1",
            "APIService",
            "v2.local.example.com",
            &json!({"spec": {
                "group": "local.example.com", "version": "v2", "groupPriorityMinimum": 100, "versionPriority": 10,
            }}),
        ),
    ]
}
