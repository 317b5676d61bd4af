// SPDX-License-Identifier: Apache-2.0

// Package podgroup converts PodGroups between the version of the API server and the internal version of upstream's
// scheduler.
package podgroup

import (
	"fmt"

	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/apis/pkg/apis/scheduling/scheme"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
)

// Internal returns the PodGroup in the internal version of upstream's scheduler. The result may share data with pg.
func Internal(pg *v1beta1.PodGroup) (*scheduling.PodGroup, error) {
	out := &scheduling.PodGroup{}
	if err := scheme.Scheme.Convert(pg, out, nil); err != nil {
		return nil, fmt.Errorf("converting PodGroup %s/%s: %w", pg.Namespace, pg.Name, err)
	}
	return out, nil
}

// External returns the PodGroup in the version of the API server.
func External(pg *scheduling.PodGroup) (*v1beta1.PodGroup, error) {
	out := &v1beta1.PodGroup{}
	if err := scheme.Scheme.Convert(pg, out, nil); err != nil {
		return nil, fmt.Errorf("converting PodGroup %s/%s: %w", pg.Namespace, pg.Name, err)
	}
	return out, nil
}
