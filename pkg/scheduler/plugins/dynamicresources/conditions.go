// SPDX-License-Identifier: Apache-2.0

package dynamicresources

import (
	"context"
	"errors"
	"fmt"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
)

// conditionsPause is the pause between two checks whether devices meet their binding conditions.
const conditionsPause = 500 * time.Millisecond

var errTooLate = errors.New("devices did not meet their binding conditions in time")

// hasConditions reports whether the feature gates for binding conditions are on (KEP-5007). With binding conditions, a driver may
// have to prepare a device before the pod is bound.
func (c *catalog) hasConditions() bool { return c.features.DeviceBinding && c.features.DeviceStatus }

// awaitConditions waits until the devices of the pod's claims meet their binding conditions. It returns an error if they do not
// meet them within the time limit.
func (d *devices) awaitConditions(ctx context.Context, a *assumedPod, limit time.Duration) error {
	if !d.catalog.hasConditions() {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errTooLate)
	defer cancel()
	for {
		waiting, err := d.waiting(a)
		if waiting == nil || err != nil {
			return err
		}
		select {
		case <-time.After(conditionsPause):
		case <-ctx.Done():
			if cause := context.Cause(ctx); errors.Is(cause, errTooLate) {
				return fmt.Errorf("%s: %w (%v)", describeFirst(waiting), cause, limit)
			}
			return fmt.Errorf("%s: waiting for the binding conditions of its devices: %w", describeFirst(waiting), context.Cause(ctx))
		}
	}
}

// waiting returns a claim of the pod with a device that is still being prepared; nil if all devices are ready. An error means that
// a claim was deleted, or that preparing a device failed.
func (d *devices) waiting(a *assumedPod) (*resourceapi.ResourceClaim, error) {
	for _, held := range a.held {
		claim, err := d.claimNamed(held.claim.Namespace, held.claim.Name)
		switch {
		case errors.Is(err, assumecache.ErrNotFound) || err == nil && claim.UID != held.claim.UID:
			return nil, fmt.Errorf("%s: %w", describeFirst(held.claim), errClaimDeleted)
		case err != nil:
			return nil, fmt.Errorf("%s: %w", describeFirst(held.claim), err)
		case claim.Status.Allocation == nil: // informers do not show an allocation yet
			return held.claim, nil
		}
		if ready, err := d.catalog.bindable(claim); !ready || err != nil {
			return claim, err
		}
	}
	return nil, nil
}

// bindable reports whether all devices of an allocated claim meet their binding conditions. An error means that preparing a device
// failed.
func (c *catalog) bindable(claim *resourceapi.ResourceClaim) (bool, error) {
	if !c.hasConditions() {
		return true, nil
	}
	ready := true
	for i := range claim.Status.Allocation.Devices.Results {
		result := &claim.Status.Allocation.Devices.Results[i]
		status := statusOf(claim, result)
		for _, name := range result.BindingFailureConditions {
			if condition := meta.FindStatusCondition(status.Conditions, name); condition != nil && condition.Status == "True" {
				return false, fmt.Errorf("%s: device %s failed with condition %s: %s: %s", describeFirst(claim), brief.Value(result.Device), brief.Value(name),
					brief.Value(condition.Reason), brief.Part(condition.Message))
			}
		}
		for _, name := range result.BindingConditions {
			ready = ready && meta.IsStatusConditionTrue(status.Conditions, name)
		}
	}
	return ready, nil
}

// statusOf returns the status that the driver has written for a device of the claim; empty if the driver has written no status.
func statusOf(claim *resourceapi.ResourceClaim, result *resourceapi.DeviceRequestAllocationResult) resourceapi.AllocatedDeviceStatus {
	for _, status := range claim.Status.Devices {
		if status.Driver == result.Driver && status.Pool == result.Pool && status.Device == result.Device {
			return status
		}
	}
	return resourceapi.AllocatedDeviceStatus{}
}
