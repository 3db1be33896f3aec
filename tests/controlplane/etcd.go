package main

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/storage/wal"
)

// The kernel's limit on the path of a unix socket, without the final zero.
const longestSocketPath = 107

// database is the embedded etcd: one member without peers, on a unix socket, that does not sync its files (the data
// needs to outlive the API server, not the machine).
type database struct {
	etcd   *embed.Etcd
	socket string
}

// startDatabase returns when etcd serves.
func startDatabase(dir string) (*database, error) {
	socket := filepath.Join(dir, "etcd.sock")
	if len(socket) > longestSocketPath {
		return nil, fmt.Errorf("--dir is too long: the path of etcd's socket, %s, has more than %d bytes", socket, longestSocketPath)
	}
	// A test writes little: the usual 64 MB would be allocated for each control plane.
	wal.SegmentSizeBytes = 8 << 20

	// Neither address is ever dialled, yet etcd wants one of the form host:port.
	nowhere := []url.URL{{Scheme: "http", Host: "127.0.0.1:1"}}
	config := embed.NewConfig()
	config.Dir = filepath.Join(dir, "etcd")
	config.ListenPeerUrls = nil
	config.AdvertisePeerUrls = nowhere
	config.InitialCluster = config.Name + "=" + nowhere[0].String()
	config.ListenClientUrls = []url.URL{{Scheme: "unix", Path: socket}}
	config.AdvertiseClientUrls = nowhere
	config.EnableGRPCGateway = false
	config.UnsafeNoFsync = true
	config.WarningUnaryRequestDuration = 2 * time.Second
	config.LogLevel = "warn"
	config.LogOutputs = []string{filepath.Join(dir, "etcd.log")}

	etcd, err := embed.StartEtcd(config)
	if err != nil {
		return nil, fmt.Errorf("starting etcd: %w", err)
	}
	select {
	case <-etcd.Server.ReadyNotify():
		return &database{etcd: etcd, socket: socket}, nil
	case err := <-etcd.Err():
		return nil, fmt.Errorf("starting etcd: %w", err)
	case <-time.After(30 * time.Second):
		etcd.Close()
		return nil, fmt.Errorf("starting etcd: not ready after 30 s, see %s", config.LogOutputs[0])
	}
}

// endpoint is what the API server's --etcd-servers takes.
func (d *database) endpoint() string { return "unix://" + d.socket }

// revision is the one of the last write.
func (d *database) revision() int64 { return d.etcd.Server.KV().Rev() }

// compact makes every version before the last write gone and returns the revision. Since a watch may still start at the
// very write that etcd is compacted to, something is written first that nobody watches.
func (d *database) compact(ctx context.Context) (int64, error) {
	put, err := d.etcd.Server.Put(ctx, &pb.PutRequest{Key: []byte("/controlplane/compacted")})
	if err != nil {
		return 0, err
	}
	revision := put.Header.Revision
	_, err = d.etcd.Server.Compact(ctx, &pb.CompactionRequest{Revision: revision, Physical: true})
	return revision, err
}
