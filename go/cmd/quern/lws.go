package main

import (
	"net"
	"os"
	"strconv"

	"github.com/quern-llm/quern/go/kernel"
)

// lws is the address of ranks that are the pods of a LeaderWorkerSet of Kubernetes, which tells them who they are by
// variables: see scripts/deploy/kubernetes/large.
const (
	lws     = "lws"
	lwsPort = "9100"
)

// lwsSize returns how many pods the group has.
func lwsSize() (int, error) {
	const name = "LWS_GROUP_SIZE"
	n, err := strconv.Atoi(os.Getenv(name))
	if err != nil || n < 2 || n > kernel.MaxRanks {
		return 0, usagef("--ranks lws: %s is %q, want the pods of a LeaderWorkerSet, 2 to %d", name, os.Getenv(name), kernel.MaxRanks)
	}
	return n, nil
}

// lwsLeader returns the address at which rank 0 is joined.
func lwsLeader() (string, error) {
	const name = "LWS_LEADER_ADDRESS"
	host := os.Getenv(name)
	if host == "" {
		return "", usagef("--join lws: %s is not set, which a pod of a LeaderWorkerSet has", name)
	}
	return net.JoinHostPort(host, lwsPort), nil
}
