// SPDX-License-Identifier: Apache-2.0

// Package holder determines the identity under which this process takes part in leader election, that is, the
// holderIdentity of the lease.
package holder

import (
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/util/uuid"
)

// PodUID is the environment variable with the pod's UID. It is set if this process is the main process of a pod.
const PodUID = "POD_UID"

// Identity returns the identity of this process in leader election. In a pod it is the host name and the UID of the
// pod, so a restarted container has the same identity. That is safe, because the former process has ended. So the new
// process can take its lease back without waiting until the lease expires. Outside of a pod, the identity is the host
// name with a random suffix, which distinguishes processes on one host.
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
