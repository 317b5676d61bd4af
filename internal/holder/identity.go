// SPDX-License-Identifier: Apache-2.0

// Package holder returns the identity of this process as the holder of a leader lease.
package holder

import (
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/util/uuid"
)

// PodUID is the environment variable that has the UID of the pod, if this process is the main process of a pod.
const PodUID = "POD_UID"

// Identity returns the identity of this process in a leader election. In a pod it is the host name and the UID of the pod.
// A container is restarted only after its former process has ended. So the new process may use the same identity, and take
// the lease back at once instead of waiting until it expires, as after an outage of the API server that was longer than a
// lease. Elsewhere the identity is the host name with a random suffix, which distinguishes processes on one host.
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
