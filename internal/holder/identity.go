// SPDX-License-Identifier: Apache-2.0

// Package holder names this process as the holder of a leader lease.
package holder

import (
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/util/uuid"
)

// PodUID names the environment variable with the UID of the pod that this process is the main process of.
const PodUID = "POD_UID"

// Identity returns the identity of this process in a leader election. In a pod it is the pod: its container is only
// started again once the former process is gone, and then takes its own lease back at once instead of waiting until it
// expires, as after an outage of the API server that was longer than a lease. Elsewhere a random suffix keeps processes
// on one host apart.
func Identity() (string, error) {
	hostname, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("reading the host's name for the lease: %w", err)
	}
	if uid := os.Getenv(PodUID); uid != "" {
		return hostname + "_" + uid, nil
	}
	return hostname + "_" + string(uuid.NewUUID()), nil
}
