//! Skeletons of kinds without Pods in them.

use serde_json::{Value, json};

use super::{Skeleton, in_group, of};

pub(super) fn services() -> Vec<Skeleton> {
    let path = concat!("/api/v1/namespaces/default", "/services");
    let ports = json!([
        {"name": "http", "port": 80, "targetPort": "http", "protocol": "TCP", "appProtocol": "example.com/a"},
        {"name": "dns", "port": 53, "targetPort": 5353, "protocol": "UDP"},
    ]);
    let selector = json!({"app": "a"});
    vec![
        of(
            path,
            "v1",
            "Service",
            "plain",
            &json!({"spec": {
                "type": "ClusterIP", "selector": selector, "ports": ports, "sessionAffinity": "ClientIP",
                "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 100}}, "internalTrafficPolicy": "Cluster",
                "externalIPs": ["192.0.2.1"], "externalTrafficPolicy": "Cluster", "trafficDistribution": "PreferClose",
                "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack",
            }}),
        ),
        of(
            path,
            "v1",
            "Service",
            "headless",
            &json!({"spec": {"clusterIP": "None", "clusterIPs": ["None"], "selector": selector}}),
        ),
        of(
            path,
            "v1",
            "Service",
            "balanced",
            &json!({"spec": {
                "type": "LoadBalancer", "selector": selector, "ports": ports, "loadBalancerSourceRanges": ["10.0.0.0/8"],
                "loadBalancerClass": "example.com/class", "allocateLoadBalancerNodePorts": true, "externalTrafficPolicy": "Local",
            }}),
        ),
        of(
            path,
            "v1",
            "Service",
            "node",
            &json!({"spec": {"type": "NodePort", "selector": selector, "ports": ports}}),
        ),
        of(
            path,
            "v1",
            "Service",
            "outside",
            &json!({"spec": {"type": "ExternalName", "externalName": "a.example."}}),
        ),
    ]
}

pub(super) fn network() -> Vec<Skeleton> {
    let backend = json!({"service": {"name": "a", "port": {"number": 80}}});
    vec![
        of(
            in_group!("networking.k8s.io/v1/namespaces", "default/ingresses"),
            "networking.k8s.io/v1",
            "Ingress",
            "ingress",
            &json!({"spec": {
                "ingressClassName": "a-class", "defaultBackend": {"resource": {"apiGroup": "example.com", "kind": "Bucket", "name": "b"}},
                "tls": [{"hosts": ["a.example", "*.b.example"], "secretName": "hidden"}],
                "rules": [
                    {"host": "a.example", "http": {"paths": [
                        {"path": "/a", "pathType": "Prefix", "backend": backend},
                        {"path": "/b", "pathType": "ImplementationSpecific", "backend": {"service": {"name": "b", "port": {"name": "http"}}}},
                    ]}},
                    {"host": "*.b.example", "http": {"paths": [{"path": "/", "pathType": "Exact", "backend": backend}]}},
                ],
            }}),
        ),
        of(
            in_group!("networking.k8s.io/v1", "ingressclasses"),
            "networking.k8s.io/v1",
            "IngressClass",
            "class",
            &json!({"spec": {
                "controller": "example.com/controller",
                "parameters": {"apiGroup": "example.com", "kind": "Settings", "name": "a", "scope": "Namespace", "namespace": "default"},
            }}),
        ),
        of(
            in_group!("networking.k8s.io/v1/namespaces", "default/networkpolicies"),
            "networking.k8s.io/v1",
            "NetworkPolicy",
            "policy",
            &json!({"spec": {
                "podSelector": {"matchLabels": {"app": "a"}}, "policyTypes": ["Ingress", "Egress"],
                "ingress": [{
                    "ports": [{"protocol": "TCP", "port": 80, "endPort": 90}, {"protocol": "UDP", "port": "dns"}],
                    "from": [
                        {"podSelector": {"matchLabels": {"a": "b"}}, "namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}},
                        {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}},
                    ],
                }],
                "egress": [{"to": [{"ipBlock": {"cidr": "2001:db8::/32"}}]}],
            }}),
        ),
        of(
            in_group!("networking.k8s.io/v1", "ipaddresses"),
            "networking.k8s.io/v1",
            "IPAddress",
            "192.0.2.7",
            &json!({"spec": {
                "parentRef": {"group": "", "resource": "services", "name": "a", "namespace": "default"},
            }}),
        ),
        of(
            in_group!("networking.k8s.io/v1", "servicecidrs"),
            "networking.k8s.io/v1",
            "ServiceCIDR",
            "range",
            &json!({"spec": {"cidrs": ["192.168.0.0/24", "2001:db8::/64"]}}),
        ),
        of(
            concat!("/api/v1/namespaces/default", "/endpoints"),
            "v1",
            "Endpoints",
            "endpoints",
            &json!({"subsets": [{
                "addresses": [{"ip": "10.1.1.1", "hostname": "a", "nodeName": "a-node"}], "notReadyAddresses": [{"ip": "10.1.1.2"}],
                "ports": [{"name": "http", "port": 80, "protocol": "TCP"}, {"name": "dns", "port": 53, "protocol": "UDP", "appProtocol": "dns"}],
            }]}),
        ),
        of(
            in_group!("discovery.k8s.io/v1/namespaces", "default/endpointslices"),
            "discovery.k8s.io/v1",
            "EndpointSlice",
            "slice",
            &json!({
                "addressType": "IPv4",
                "endpoints": [{
                    "addresses": ["10.1.1.1"], "hostname": "a", "nodeName": "a-node", "conditions": {"ready": true}, "zone": "a",
                    "hints": {"forZones": [{"name": "a"}], "forNodes": [{"name": "a-node"}]},
                }],
                "ports": [{"name": "http", "port": 80, "protocol": "TCP"}, {"name": "other", "port": 81, "protocol": "UDP", "appProtocol": "a"}],
            }),
        ),
        of(
            in_group!("discovery.k8s.io/v1/namespaces", "default/endpointslices"),
            "discovery.k8s.io/v1",
            "EndpointSlice",
            "names",
            &json!({"addressType": "FQDN", "endpoints": [{"addresses": ["a.example.com"]}], "ports": []}),
        ),
        of(
            in_group!("discovery.k8s.io/v1/namespaces", "default/endpointslices"),
            "discovery.k8s.io/v1",
            "EndpointSlice",
            "six",
            &json!({"addressType": "IPv6", "endpoints": [{"addresses": ["2001:db8::1"]}], "ports": [{"port": 80}]}),
        ),
    ]
}

pub(super) fn storage() -> Vec<Skeleton> {
    let claims = concat!("/api/v1/namespaces/default", "/persistentvolumeclaims");
    let volumes = "/api/v1/persistentvolumes";
    let affinity = json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}]}});
    let reference = json!({"name": "hidden", "namespace": "default"});
    vec![
        of(
            claims,
            "v1",
            "PersistentVolumeClaim",
            "claim",
            &json!({"spec": {
                "accessModes": ["ReadWriteOnce", "ReadOnlyMany"], "resources": {"requests": {"storage": "1Gi"}},
                "storageClassName": "fast", "volumeMode": "Block", "volumeName": "a", "selector": {"matchLabels": {"a": "b"}},
                "dataSource": {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s"},
                "dataSourceRef": {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s"},
            }}),
        ),
        of(
            volumes,
            "v1",
            "PersistentVolume",
            "host",
            &json!({"spec": {
                "capacity": {"storage": "5Gi"}, "accessModes": ["ReadWriteOnce"], "persistentVolumeReclaimPolicy": "Retain",
                "hostPath": {"path": "/data", "type": "DirectoryOrCreate"}, "storageClassName": "manual", "volumeMode": "Filesystem",
                "mountOptions": ["ro"],
            }}),
        ),
        of(
            volumes,
            "v1",
            "PersistentVolume",
            "local",
            &json!({"spec": {
                "capacity": {"storage": "5Gi"}, "accessModes": ["ReadWriteOncePod"], "local": {"path": "/data"}, "nodeAffinity": affinity,
            }}),
        ),
        of(
            volumes,
            "v1",
            "PersistentVolume",
            "driver",
            &json!({"spec": {
                "capacity": {"storage": "5Gi"}, "accessModes": ["ReadWriteMany"], "volumeAttributesClassName": "gold",
                "csi": {"driver": "csi.example", "volumeHandle": "a", "nodePublishSecretRef": reference, "controllerExpandSecretRef": reference},
            }}),
        ),
        of(
            volumes,
            "v1",
            "PersistentVolume",
            "nfs",
            &json!({"spec": {
                "capacity": {"storage": "5Gi"}, "accessModes": ["ReadWriteMany"], "nfs": {"server": "a", "path": "/b"},
            }}),
        ),
        of(
            in_group!("storage.k8s.io/v1", "storageclasses"),
            "storage.k8s.io/v1",
            "StorageClass",
            "class",
            &json!({
                "provisioner": "example.com/Disk", "parameters": {"type": "fast"}, "reclaimPolicy": "Retain",
                "volumeBindingMode": "WaitForFirstConsumer", "allowVolumeExpansion": true, "mountOptions": ["ro"],
                "allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": ["a", "b"]}]}],
            }),
        ),
        of(
            in_group!("storage.k8s.io/v1", "volumeattributesclasses"),
            "storage.k8s.io/v1",
            "VolumeAttributesClass",
            "gold",
            &json!({"driverName": "example.com/disk", "parameters": {"iops": "100"}}),
        ),
        of(
            in_group!("storage.k8s.io/v1", "csidrivers"),
            "storage.k8s.io/v1",
            "CSIDriver",
            "csi.example",
            &json!({"spec": {
                "attachRequired": true, "podInfoOnMount": false, "fsGroupPolicy": "File", "volumeLifecycleModes": ["Persistent"],
                "tokenRequests": [{"audience": "a", "expirationSeconds": 3600}, {"audience": "b"}],
            }}),
        ),
        of(
            in_group!("storage.k8s.io/v1", "csinodes"),
            "storage.k8s.io/v1",
            "CSINode",
            "a-node",
            &json!({"spec": {"drivers": [
                {"name": "csi.example", "nodeID": "a", "topologyKeys": ["example.com/zone"], "allocatable": {"count": 5}},
            ]}}),
        ),
        of(
            in_group!("storage.k8s.io/v1/namespaces", "default/csistoragecapacities"),
            "storage.k8s.io/v1",
            "CSIStorageCapacity",
            "capacity",
            &json!({"storageClassName": "fast", "capacity": "1Gi", "nodeTopology": {"matchLabels": {"zone": "a"}}}),
        ),
        of(
            in_group!("storage.k8s.io/v1", "volumeattachments"),
            "storage.k8s.io/v1",
            "VolumeAttachment",
            "attachment",
            &json!({"spec": {
                "attacher": "csi.example", "nodeName": "a-node", "source": {"persistentVolumeName": "a"},
            }}),
        ),
    ]
}

pub(super) fn core() -> Vec<Skeleton> {
    let secrets = concat!("/api/v1/namespaces/default", "/secrets");
    let secret = |name: &str, kind: &str, data: Value| {
        of(secrets, "v1", "Secret", name, &json!({"type": kind, "stringData": data}))
    };
    vec![
        of(
            concat!("/api/v1/namespaces/default", "/configmaps"),
            "v1",
            "ConfigMap",
            "map",
            &json!({"data": {"a.txt": "b", "c": ""}, "binaryData": {"d": "AAEC"}}),
        ),
        secret("opaque", "Opaque", json!({"a": "b", "c.d": "e"})),
        secret("tls", "kubernetes.io/tls", json!({"tls.crt": "a", "tls.key": "b"})),
        secret("docker", "kubernetes.io/dockerconfigjson", json!({".dockerconfigjson": "{\"auths\":{}}"})),
        secret("basic", "kubernetes.io/basic-auth", json!({"username": "a", "password": "b"})),
        secret("ssh", "kubernetes.io/ssh-auth", json!({"ssh-privatekey": "a"})),
        of(
            concat!("/api/v1/namespaces/default", "/serviceaccounts"),
            "v1",
            "ServiceAccount",
            "account",
            &json!({"secrets": [{"name": "a"}], "imagePullSecrets": [{"name": "b"}], "automountServiceAccountToken": false}),
        ),
        of(
            "/api/v1/namespaces",
            "v1",
            "Namespace",
            "space",
            &json!({"spec": {"finalizers": ["kubernetes", "example.com/a"]}}),
        ),
        of(
            "/api/v1/nodes",
            "v1",
            "Node",
            "a-node",
            &json!({
                "spec": {
                    "podCIDR": "10.1.0.0/24", "podCIDRs": ["10.1.0.0/24"], "providerID": "a://b",
                    "taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}, {"key": "c", "effect": "NoExecute"}],
                },
                "status": {"capacity": {"cpu": "4", "pods": "110"}, "allocatable": {"memory": "1Gi"}},
            }),
        ),
        of(
            concat!("/api/v1/namespaces/default", "/resourcequotas"),
            "v1",
            "ResourceQuota",
            "quota",
            &json!({"spec": {
                "hard": {"pods": "10", "requests.cpu": "4", "limits.memory": "1Gi"},
                "scopes": ["NotTerminating"],
                "scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]},
            }}),
        ),
        of(
            concat!("/api/v1/namespaces/default", "/limitranges"),
            "v1",
            "LimitRange",
            "limits",
            &json!({"spec": {"limits": [
                {
                    "type": "Container", "max": {"cpu": "2", "memory": "1Gi"}, "min": {"cpu": "100m"}, "default": {"cpu": "500m"},
                    "defaultRequest": {"cpu": "200m"}, "maxLimitRequestRatio": {"cpu": "4"},
                },
                {"type": "Pod", "max": {"cpu": "4"}},
                {"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}},
            ]}}),
        ),
        of(
            concat!("/api/v1/namespaces/default", "/events"),
            "v1",
            "Event",
            "event",
            &json!({
                "involvedObject": {"kind": "Pod", "name": "a", "namespace": "default"}, "reason": "Made", "message": "A pod was made",
                "type": "Normal", "count": 1, "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:00Z",
                "source": {"component": "a"},
            }),
        ),
        of(
            in_group!("events.k8s.io/v1/namespaces", "default/events"),
            "events.k8s.io/v1",
            "Event",
            "new",
            &json!({
                "regarding": {"kind": "Pod", "name": "a", "namespace": "default"}, "reason": "Made", "note": "A pod was made",
                "type": "Normal", "eventTime": "2026-01-01T00:00:00.000000Z", "action": "Make", "reportingController": "example.com/a",
                "reportingInstance": "a-1", "series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:00.000000Z"},
            }),
        ),
    ]
}

pub(super) fn others() -> Vec<Skeleton> {
    let rbac = "rbac.authorization.k8s.io";
    let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "resourceNames": ["a"]}]);
    let subjects = json!([
        {"kind": "ServiceAccount", "name": "a", "namespace": "default"}, {"kind": "User", "name": "b", "apiGroup": rbac},
        {"kind": "Group", "name": "c", "apiGroup": rbac},
    ]);
    let webhook = |service: bool| {
        let config = if service {
            json!({"service": {"name": "a", "namespace": "default", "path": "/validate", "port": 443}})
        } else {
            json!({"url": "https://a.example/path"})
        };
        json!({
            "name": "a.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None", "timeoutSeconds": 5,
            "failurePolicy": "Fail", "matchPolicy": "Exact", "clientConfig": config,
            "namespaceSelector": {"matchLabels": {"a": "b"}},
            "objectSelector": {"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]},
            "rules": [{"operations": ["CREATE", "UPDATE"], "apiGroups": ["apps"], "apiVersions": ["v1"],
                       "resources": ["deployments", "deployments/scale"], "scope": "Namespaced"}],
        })
    };
    let target = json!({"kind": "Deployment", "name": "a", "apiVersion": "apps/v1"});
    vec![
        of(
            in_group!("rbac.authorization.k8s.io/v1/namespaces", "default/roles"),
            "rbac.authorization.k8s.io/v1",
            "Role",
            "role",
            &json!({"rules": rules}),
        ),
        of(
            in_group!("rbac.authorization.k8s.io/v1", "clusterroles"),
            "rbac.authorization.k8s.io/v1",
            "ClusterRole",
            "role",
            &json!({
                "rules": [rules[0], {"nonResourceURLs": ["/healthz"], "verbs": ["get"]}],
                "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]},
            }),
        ),
        of(
            in_group!("rbac.authorization.k8s.io/v1/namespaces", "default/rolebindings"),
            "rbac.authorization.k8s.io/v1",
            "RoleBinding",
            "binding",
            &json!({"roleRef": {"apiGroup": rbac, "kind": "Role", "name": "role"}, "subjects": subjects}),
        ),
        of(
            in_group!("rbac.authorization.k8s.io/v1", "clusterrolebindings"),
            "rbac.authorization.k8s.io/v1",
            "ClusterRoleBinding",
            "binding",
            &json!({"roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "role"}, "subjects": subjects}),
        ),
        of(
            in_group!("policy/v1/namespaces", "default/poddisruptionbudgets"),
            "policy/v1",
            "PodDisruptionBudget",
            "budget",
            &json!({"spec": {"minAvailable": "50%", "selector": {"matchLabels": {"app": "a"}}, "unhealthyPodEvictionPolicy": "AlwaysAllow"}}),
        ),
        of(
            in_group!("policy/v1/namespaces", "default/poddisruptionbudgets"),
            "policy/v1",
            "PodDisruptionBudget",
            "other",
            &json!({"spec": {"maxUnavailable": 1, "selector": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}}}),
        ),
        of(
            in_group!("autoscaling/v2/namespaces", "default/horizontalpodautoscalers"),
            "autoscaling/v2",
            "HorizontalPodAutoscaler",
            "scaler",
            &json!({"spec": {
                "minReplicas": 1, "maxReplicas": 5, "scaleTargetRef": target,
                "metrics": [
                    {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}},
                    {"type": "Pods", "pods": {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "10"}}},
                    {"type": "Object", "object": {"describedObject": target, "metric": {"name": "a"}, "target": {"type": "Value", "value": "3"}}},
                    {"type": "External", "external": {"metric": {"name": "b"}, "target": {"type": "AverageValue", "averageValue": "2"}}},
                    {"type": "ContainerResource", "containerResource": {
                        "name": "cpu", "container": "main", "target": {"type": "Utilization", "averageUtilization": 50}}},
                ],
                "behavior": {
                    "scaleUp": {"stabilizationWindowSeconds": 10, "selectPolicy": "Max", "policies": [
                        {"type": "Percent", "value": 50, "periodSeconds": 60}, {"type": "Pods", "value": 1, "periodSeconds": 60}]},
                    "scaleDown": {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 30}], "tolerance": "0.1"},
                },
            }}),
        ),
        of(
            in_group!("scheduling.k8s.io/v1", "priorityclasses"),
            "scheduling.k8s.io/v1",
            "PriorityClass",
            "high",
            &json!({"value": 1000, "preemptionPolicy": "Never", "description": "a", "globalDefault": false}),
        ),
        of(
            in_group!("node.k8s.io/v1", "runtimeclasses"),
            "node.k8s.io/v1",
            "RuntimeClass",
            "runtime",
            &json!({
                "handler": "runc", "overhead": {"podFixed": {"cpu": "100m", "memory": "10Mi"}},
                "scheduling": {"nodeSelector": {"a": "b"}, "tolerations": [{"key": "a", "operator": "Exists", "effect": "NoSchedule"}]},
            }),
        ),
        of(
            in_group!("coordination.k8s.io/v1/namespaces", "default/leases"),
            "coordination.k8s.io/v1",
            "Lease",
            "lease",
            &json!({"spec": {"leaseDurationSeconds": 10, "leaseTransitions": 1, "holderIdentity": "a"}}),
        ),
        of(
            in_group!("admissionregistration.k8s.io/v1", "validatingwebhookconfigurations"),
            "admissionregistration.k8s.io/v1",
            "ValidatingWebhookConfiguration",
            "validating",
            &json!({"webhooks": [webhook(true)]}),
        ),
        of(
            in_group!("admissionregistration.k8s.io/v1", "mutatingwebhookconfigurations"),
            "admissionregistration.k8s.io/v1",
            "MutatingWebhookConfiguration",
            "mutating",
            &json!({"webhooks": [webhook(false)]}),
        ),
    ]
}
